//! Warnings with names in them: a node's number means nothing to who has not built the machine.

use std::mem;

use crate::error::Warning;
use crate::id::NodeId;
use crate::machine::Machine;

/// Warnings of one kind that are told one by one.
const TOLD: usize = 3;

/// A line for each warning of a machine, with the names of nodes and their PCI addresses; of many of a kind the first few and how
/// many more there are.
#[must_use]
pub fn warning_lines(machine: &Machine) -> Vec<String> {
    let warnings = machine.warnings();
    let mut lines = Vec::new();
    for (at, warning) in warnings.iter().enumerate() {
        let is_alike = |other: &&Warning| mem::discriminant(*other) == mem::discriminant(warning);
        let before = warnings[..at].iter().filter(is_alike).count();
        if before >= TOLD {
            continue;
        }
        lines.push(in_names(machine, warning));
        if before + 1 < TOLD {
            continue;
        }
        let mut more = warnings[at + 1..].iter().filter(is_alike);
        match (more.next(), more.count()) {
            (None, _) => {}
            (Some(fourth), 0) => lines.push(in_names(machine, fourth)),
            (Some(_), others) => lines.push(format!("{} more like the last", others + 1)),
        }
    }
    lines
}

fn in_names(machine: &Machine, warning: &Warning) -> String {
    let text = warning.to_string();
    nodes(warning).into_iter().fold(text, |text, node| {
        let number = node.to_string();
        // A NUMA node's number reads the same.
        let is_it = |(at, _): &(usize, &str)| {
            let ends = !text[at + number.len()..].starts_with(|next: char| next.is_ascii_digit());
            ends && !text[..*at].ends_with("NUMA ")
        };
        let found = text.match_indices(&number).find(is_it);
        match found {
            Some((at, _)) => {
                let (before, behind) = (&text[..at], &text[at + number.len()..]);
                format!("{before}{}{behind}", name(machine, node))
            }
            None => text.clone(),
        }
    })
}

/// Name and PCI address, unless that is the name.
fn name(machine: &Machine, node: NodeId) -> String {
    let Some(found) = machine.nodes().get(node.index()) else {
        return node.to_string();
    };
    match found.pci.map(|address| address.to_string()) {
        Some(address) if !found.name.contains(&address) => format!("{} ({address})", found.name),
        _ => found.name.clone(),
    }
}

/// The nodes a warning is about, in the order in which it names them.
fn nodes(warning: &Warning) -> Vec<NodeId> {
    match *warning {
        Warning::SelfLink { node }
        | Warning::NoLinkSpeed { node }
        | Warning::NoNumaNode { node, .. }
        | Warning::RepeatedSwitch { node }
        | Warning::SharedAddress { node }
        | Warning::NoRow { node }
        | Warning::StandInNuma { node, .. } => vec![node],
        Warning::Asymmetric { a, b } | Warning::NotAsStated { a, b } => vec![a, b],
        Warning::NoPciBus | Warning::NoNumaNodes => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        warning_lines(&Machine::from_tool_matrix(text).unwrap())
    }

    #[test]
    fn a_warning_names_what_it_is_about() {
        // The last controller is far from every processor that is named.
        let text = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tSYS\t0-3\n";
        let told = lines(text);
        let wanted = [
            "NUMA node 1 stands in for the processors near NIC0, which the matrix does not name",
            "the row of NIC0 is not in the matrix",
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn of_many_alike_the_first_are_told_and_the_others_counted() {
        let names: Vec<String> = (0..12).map(|number| format!("GPU{number}")).collect();
        let cut = |rows: usize| {
            let cells = |row: usize| (0..12).map(move |at| if at == row { "X" } else { "PIX" });
            let row = |row: usize| {
                let cells: Vec<&str> = cells(row).collect();
                format!("GPU{row}\t{}\n", cells.join("\t"))
            };
            let rows: String = (0..rows).map(row).collect();
            lines(&format!("\t{}\n{rows}", names.join("\t")))
        };
        let missing = |number: usize| format!("the row of GPU{number} is not in the matrix");
        let told = |count: usize| -> Vec<String> {
            let told = cut(12 - count);
            told.into_iter()
                .filter(|line| !line.contains("stands in"))
                .collect()
        };
        assert_eq!(told(2), [10, 11].map(missing));
        assert_eq!(told(4), [8, 9, 10, 11].map(missing));
        let mut many = [6, 7, 8].map(missing).to_vec();
        many.push("3 more like the last".to_owned());
        assert_eq!(told(6), many);
    }
}
