//! The readers of `nvidia-smi`, `npu-smi` and `rocm-smi` against real listings, beside what they say.
//!
//! The listings are not part of this repository: without them the first test says so and passes.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says so, and a run says how much agrees"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

mod shared_files;

use std::path::{Path, PathBuf};

use piton_topology::{
    MAX_MATRIX_BYTES, Machine, MatrixError, NodeId, NodeKind, ToolMatrix, Warning,
};
use proptest::prelude::*;
use serde_json::Value;

use shared_files::shared_files;

fn files() -> Vec<PathBuf> {
    shared_files("matrices", ".txt")
}

fn expected(file: &Path) -> Value {
    let text = std::fs::read_to_string(file.with_extension("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn rows<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap()
}

/// The node of each name in `expected`, in its order.
fn nodes(machine: &Machine, expected: &Value) -> Vec<NodeId> {
    let node = |name: &Value| {
        let named = |id: &NodeId| machine.node(*id).unwrap().name == name.as_str().unwrap();
        machine.node_ids().find(named).unwrap()
    };
    rows(expected, "devices").iter().map(node).collect()
}

#[test]
fn a_machine_made_of_a_listing_has_the_distances_that_were_printed() {
    for file in files() {
        let (text, expected) = (std::fs::read_to_string(&file).unwrap(), expected(&file));
        let machine = Machine::from_tool_matrix(&text).unwrap();
        let nodes = nodes(&machine, &expected);
        assert_eq!(machine.endpoints().len(), nodes.len(), "{}", file.display());
        let relations = machine.relations(&nodes);
        let links = expected.get("links").or(expected.get("link_type")).unwrap();
        for (row, words) in links.as_array().unwrap().iter().enumerate() {
            for (column, word) in words.as_array().unwrap().iter().enumerate() {
                let found = relations.get(row, column).unwrap().to_string();
                let place = format!("{}: {row} to {column}", file.display());
                match word.as_str() {
                    Some("PCIE") => assert!(["NODE", "SYS"].contains(&&*found), "{place}"),
                    Some(word) => assert_eq!(found, word, "{place}"),
                    None => assert_eq!(found, "X", "{place}"),
                }
            }
        }
        let json = machine.to_json().unwrap();
        assert_eq!(Machine::from_json(&json).unwrap(), machine);
        println!("{}: {} rows agree", file.display(), nodes.len());
    }
}

#[test]
fn affinities_weights_and_hops_are_those_printed() {
    for file in files() {
        let (text, expected) = (std::fs::read_to_string(&file).unwrap(), expected(&file));
        let matrix = ToolMatrix::parse(&text).unwrap();
        let place = file.display();
        let names: Vec<&str> = matrix.endpoints.iter().map(|end| &*end.name).collect();
        assert_eq!(serde_json::json!(names), expected["devices"], "{place}");
        for key in ["weight", "hops"] {
            let Some(rows) = expected[key].as_array() else {
                continue;
            };
            let found = if key == "hops" {
                &matrix.hops
            } else {
                &matrix.weights
            };
            let found: Vec<&[Option<u32>]> = found.as_ref().unwrap().rows().collect();
            assert_eq!(serde_json::json!(found), serde_json::json!(rows), "{place}");
        }
        let cpus = |end: &piton_topology::ToolEndpoint| end.cpus.as_ref().map(ToString::to_string);
        for (end, stated) in matrix.endpoints.iter().zip(list(&expected["cpu_affinity"])) {
            // Lists of cut-off rows were inferred.
            if let Some(found) = cpus(end) {
                assert_eq!(found, stated, "{place}");
            }
        }
        let stated = list(&expected["numa_affinity"]);
        for (end, stated) in matrix.endpoints.iter().zip(stated) {
            let found = end.numa.map(|numa| numa.get().to_string());
            // The rows of one listing end before its NUMA block.
            assert_eq!(found.as_ref(), Some(&stated), "{place}");
        }
    }
}

/// A list of texts or numbers as texts; empty for none.
fn list(value: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let values = value.as_array();
    values.map_or_else(Vec::new, |values| values.iter().map(text).collect())
}

/// Two pairs of devices under switches and a controller, as a terminal shows it: underlined header, an
/// empty column before the last, the last row cut off.
const SMALL: &str = "\
\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV4\tSYS\tSYS\tPXB\t0-3\t0\t\tN/A
GPU1\tNV4\t X \tSYS\tSYS\tPXB\t0-3\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tPIX\tSYS\t4-7\t2\t\tN/A
GPU3\tSYS\tSYS\tPIX\t X \tSYS\t4-7\t2\t\tN/A

Legend:
";

fn cells(machine: &Machine) -> Vec<String> {
    let relations = machine.relations(&machine.endpoints());
    let rows = relations.rows();
    rows.map(|row| {
        row.iter()
            .map(|cell| format!("{cell} "))
            .collect::<String>()
    })
    .collect()
}

#[test]
fn a_small_listing_is_read_with_its_oddities() {
    let machine = Machine::from_tool_matrix(SMALL).unwrap();
    let expected = [
        "X NV4 SYS SYS PXB ",
        "NV4 X SYS SYS PXB ",
        "SYS SYS X PIX SYS ",
        "SYS SYS PIX X SYS ",
        "PXB PXB SYS SYS X ",
    ];
    assert_eq!(cells(&machine), expected);
    let numbers: Vec<u16> = machine.numa().iter().map(|numa| numa.id.get()).collect();
    assert_eq!(numbers, [0, 2]);
    assert_eq!(machine.numa()[1].cpus.to_string(), "4-7");
    let cut_off = machine.endpoints()[4];
    assert_eq!(machine.warnings(), [Warning::NoRow { node: cut_off }]);
}

#[test]
fn a_tab_before_a_header_between_blanks_changes_nothing() {
    let plain =
        "     NPU0   NPU1   CPU Affinity\nNPU0   X      HCCS   0-23\nNPU1   HCCS   X      24-47\n";
    let tabbed = format!("\t{}", plain.trim_start());
    let machine = Machine::from_tool_matrix(&tabbed).unwrap();
    assert_eq!(machine, Machine::from_tool_matrix(plain).unwrap());
    assert_eq!(cells(&machine), ["X HCCS ", "HCCS X "]);
}

#[test]
fn a_ring_of_switches_is_kept_although_it_is_no_tree() {
    let text = "      NPU0  NPU1  NPU2  NPU3
NPU0  X     PIX   SYS   PXB
NPU1  PIX   X     PXB   SYS
NPU2  SYS   PXB   X     PIX
NPU3  PXB   SYS   PIX   X";
    let found = cells(&Machine::from_tool_matrix(text).unwrap()).concat();
    assert!(found.starts_with("X PIX "), "{found}");
    assert!(found.contains("PXB"), "{found}");
}

#[test]
fn as_many_links_as_no_device_has_are_links_to_a_switch() {
    let link_switches = |words: &str| {
        let names: Vec<String> = (0..4).map(|number| format!("GPU{number}")).collect();
        let mut text = format!("\t{}\n", names.join("\t"));
        for (row, name) in names.iter().enumerate() {
            let cells: Vec<&str> = (0..4)
                .map(|column| if row == column { "X" } else { words })
                .collect();
            text.push_str(&format!("{name}\t{}\n", cells.join("\t")));
        }
        let machine = Machine::from_tool_matrix(&text).unwrap();
        assert_eq!(cells(&machine)[0], format!("X {words} {words} {words} "));
        let nodes = machine.nodes().iter();
        nodes
            .filter(|node| node.kind == NodeKind::LinkSwitch)
            .count()
    };
    assert_eq!(link_switches("NV4"), 0);
    assert_eq!(link_switches("NV18"), 1);
    assert_eq!(link_switches("HCCS_SW"), 1);
}

#[test]
fn directions_that_differ_are_reported() {
    let text = SMALL.replacen("SYS\tSYS\tPIX\t X ", "SYS\tSYS\tPXB\t X ", 1);
    let machine = Machine::from_tool_matrix(&text).unwrap();
    let [_, _, a, b, _] = machine.endpoints()[..] else {
        panic!("five rows");
    };
    assert!(machine.warnings().contains(&Warning::Asymmetric { a, b }));
    assert_eq!(
        machine.relations(&[a, b]).get(0, 1).unwrap().to_string(),
        "PIX"
    );
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let changed = |from: &str, to: &str| {
        assert!(SMALL.contains(from));
        Machine::from_tool_matrix(&SMALL.replacen(from, to, 1)).unwrap_err()
    };
    assert!(matches!(
        changed("PIX\t X ", "BUS\t X "),
        MatrixError::Cell { line: 5, column: 3 }
    ));
    assert!(matches!(
        changed("\nGPU3", "\nGPU9"),
        MatrixError::UnknownRow { line: 5 }
    ));
    assert!(matches!(
        changed("\nGPU3", "\nGPU2"),
        MatrixError::Repeated { line: 5 }
    ));
    assert!(matches!(
        changed("0-3", "three"),
        MatrixError::Affinity { line: 2 }
    ));
    let short = "\tGPU0\tGPU1\nGPU0\tX";
    assert!(matches!(
        Machine::from_tool_matrix(short),
        Err(MatrixError::ShortRow {
            line: 2,
            cells: 1,
            columns: 2
        })
    ));
    assert!(matches!(
        Machine::from_tool_matrix("no matrix"),
        Err(MatrixError::NoHeader)
    ));
    let long = " ".repeat(MAX_MATRIX_BYTES + 1);
    assert!(matches!(
        Machine::from_tool_matrix(&long),
        Err(MatrixError::TooLarge { .. })
    ));
}

/// Two devices of one processor and one of another.
const ROCM: &str = "\
==================== ROCm System Management Interface ====================
================= Weight between two GPUs =================
       GPU0  GPU1  GPU2
GPU0   0     15    52
GPU1   15    0     72
GPU2   52    72    0
================= Link Type between two GPUs =================
       GPU0  GPU1  GPU2
GPU0   0     XGMI  PCIE
GPU1   XGMI  0     PCIE
GPU2   PCIE  PCIE  0
======================== Numa Nodes ========================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[2]\t\t: (Topology) Numa Node: 1
===================== End of ROCm SMI Log =====================
";

#[test]
fn a_listing_in_blocks_is_put_together() {
    let matrix = ToolMatrix::parse(ROCM).unwrap();
    assert_eq!(matrix.weights.as_ref().unwrap().get(1, 2), Some(&Some(72)));
    assert_eq!(matrix.hops.as_ref().unwrap().get(1, 2), Some(&None));
    let expected = ["X XGMI SYS ", "XGMI X SYS ", "SYS SYS X "];
    assert_eq!(cells(&matrix.machine().unwrap()), expected);
    let wrong = ROCM.replacen("72    0", "72    zero", 1);
    assert!(matches!(
        ToolMatrix::parse(&wrong),
        Err(MatrixError::Cell { line: 6, column: 3 })
    ));
}

proptest! {
    #[test]
    fn a_listing_with_a_changed_byte_gives_an_answer(at: prop::sample::Index, byte in 0x09..0x7f_u8, rocm: bool) {
        let mut bytes = if rocm { ROCM } else { SMALL }.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(machine) = Machine::from_tool_matrix(&String::from_utf8(bytes).unwrap()) {
            prop_assert_eq!(machine.distances().side(), machine.device_count());
        }
    }

    #[test]
    fn whatever_a_matrix_says_a_machine_is_made_of_it(
        side in 1..9_usize,
        words in prop::collection::vec(prop::sample::select(vec![
            "X", "NV2", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS", "HCCS", "HCCS_SW", "SIO", "N/A",
        ]), 81),
        numa in prop::collection::vec(0..3_u8, 9),
    ) {
        let header: String = (0..side).map(|number| format!("\tGPU{number}")).collect();
        let mut text = format!("{header}\tCPU Affinity\tNUMA Affinity\n");
        for row in 0..side {
            let cells: String = (0..side).map(|column| format!("\t{}", words[row * 9 + column])).collect();
            text.push_str(&format!("GPU{row}{cells}\tN/A\t{}\n", numa[row]));
        }
        let machine = Machine::from_tool_matrix(&text).unwrap();
        prop_assert_eq!(machine.device_count(), side);
        // What could not be had is said.
        let relations = machine.relations(machine.devices());
        for a in 0..side {
            for b in a + 1..side {
                let (from, to) = (machine.devices()[a], machine.devices()[b]);
                let said = words[a * 9 + b].replace("N/A", "NA");
                let is_said = relations.get(a, b).unwrap().to_string() == said;
                let warning = Warning::NotAsStated { a: from, b: to };
                prop_assert!(is_said != machine.warnings().contains(&warning));
            }
        }
    }
}
