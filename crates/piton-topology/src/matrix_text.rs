//! The matrix of distances as text, laid out as people know it from `nvidia-smi topo -m`.

use std::collections::BTreeMap;

use crate::distance::{Distance, Relation};
use crate::id::NodeId;
use crate::link::LinkKind;
use crate::machine::Machine;
use crate::matrix::Matrix;

/// Rows and columns of devices and network controllers, the distance of each pair, then the
/// processors and the NUMA node near each row, and a legend of the words used. Ends with a line break.
#[must_use]
pub fn matrix_text(machine: &Machine) -> String {
    let endpoints = machine.endpoints();
    let relations = machine.relations(&endpoints);
    let mut text = layout(&table(machine, &endpoints, &relations));
    let legend = legend(&relations);
    if !legend.is_empty() {
        text.push_str("\nLegend:\n\n");
        text.push_str(&legend);
    }
    text
}

/// The cells, header and row names included.
fn table(
    machine: &Machine,
    endpoints: &[NodeId],
    relations: &Matrix<Relation>,
) -> Vec<Vec<String>> {
    let name = |node: &NodeId| machine.nodes()[node.index()].name.clone();
    let mut header = vec![String::new()];
    header.extend(endpoints.iter().map(name));
    header.extend(["CPU Affinity", "NUMA Affinity"].map(String::from));
    let rows = endpoints.iter().zip(relations.rows()).map(|(node, cells)| {
        let mut row = vec![name(node)];
        row.extend(cells.iter().map(ToString::to_string));
        row.extend(affinity(machine, *node));
        row
    });
    std::iter::once(header).chain(rows).collect()
}

/// The processors and the number of the NUMA node near a node.
fn affinity(machine: &Machine, node: NodeId) -> [String; 2] {
    let unknown = || "N/A".to_owned();
    let Some(numa) = machine.affinity_of_node(node) else {
        return [unknown(), unknown()];
    };
    let cpus = machine.numa_node(numa).map(|numa| numa.cpus.to_string());
    let cpus = cpus.filter(|cpus| !cpus.is_empty());
    [cpus.unwrap_or_else(unknown), numa.get().to_string()]
}

/// Left-aligned columns, two blanks apart.
fn layout(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width_of = |column: usize| {
        let cells = table.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width_of).collect();
    let mut text = String::new();
    for row in table {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, &width)| format!("{cell:width$}  "))
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One line for each word in the matrix, farthest first.
fn legend(relations: &Matrix<Relation>) -> String {
    let mut used: BTreeMap<(Distance, String), &str> = BTreeMap::new();
    for relation in relations.rows().flatten() {
        let word = match relation.fabric {
            // A line for each count would say the same.
            Some((LinkKind::NvLink(_), _)) => "NV#".to_owned(),
            _ => relation.to_string(),
        };
        used.insert((relation.distance, word), relation.distance.meaning());
    }
    let lines = used.into_iter().rev();
    lines
        .map(|((_, word), meaning)| format!("  {word:<7} = {meaning}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::NvLinkVersion;

    #[test]
    fn linked_pairs_look_as_people_expect() {
        let machine = Machine::linked_pairs(4, LinkKind::NvLink(NvLinkVersion::V3), 4).unwrap();
        let expected = "
      DEV0  DEV1  DEV2  DEV3  CPU Affinity  NUMA Affinity
DEV0  X     NV4   SYS   SYS   N/A           0
DEV1  NV4   X     SYS   SYS   N/A           0
DEV2  SYS   SYS   X     NV4   N/A           1
DEV3  SYS   SYS   NV4   X     N/A           1

Legend:

  SYS     = the interconnect between NUMA nodes
  NV#     = a direct link of the device fabric (NV#: # links)
  X       = self
";
        assert_eq!(matrix_text(&machine), &expected[1..]);
    }

    #[test]
    fn a_machine_without_devices_is_a_header_alone() {
        let text = matrix_text(&Machine::unknown_host(0).unwrap());
        assert_eq!(text.trim(), "CPU Affinity  NUMA Affinity");
    }
}
