//! The sysfs reader against captured trees, with another tool's answers beside them.
//!
//! The trees are not part of this repository: without them the tests say so and pass.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says so, and a run says how much agrees"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

mod shared_files;

use std::path::Path;
use std::process::Command;

use piton_topology::sysfs::SysfsTree;
use piton_topology::{Machine, NodeId, PciAddress};
use serde_json::Value;

use shared_files::shared_files;

/// A tree unpacked into a folder that goes away, and what is expected of it.
struct Captured {
    name: String,
    folder: tempfile::TempDir,
    expected: Value,
}

fn captures() -> Vec<Captured> {
    let archives = shared_files("sysfs", ".tar.gz");
    archives.iter().map(|path| unpack(path)).collect()
}

fn unpack(archive: &Path) -> Captured {
    let file = archive.file_name().unwrap().to_string_lossy();
    let name = file.trim_end_matches(".tar.gz").to_owned();
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(status.success(), "tar failed on {name}");
    let expected = archive.with_file_name(format!("{name}.expected.json"));
    let expected = std::fs::read_to_string(expected).unwrap();
    Captured {
        name,
        folder,
        expected: serde_json::from_str(&expected).unwrap(),
    }
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap()
}

fn address(value: &Value, key: &str) -> PciAddress {
    value[key].as_str().unwrap().parse().unwrap()
}

fn node_at(machine: &Machine, address: PciAddress) -> NodeId {
    machine
        .node_ids()
        .find(|id| machine.node(*id).unwrap().pci == Some(address))
        .unwrap_or_else(|| panic!("nothing at {address}"))
}

/// Counts what agrees, so that a failure says how much and what does not.
#[derive(Default)]
struct Tally {
    agree: usize,
    differ: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &str, found: &str, expected: &str) {
        if found == expected {
            self.agree += 1;
        } else {
            self.differ
                .push(format!("{what}: {found}, expected {expected}"));
        }
    }

    fn assert(self, name: &str, what: &str) {
        println!("{name}: {} {what} agree", self.agree);
        let first: Vec<_> = self.differ.iter().take(5).collect();
        assert!(
            first.is_empty(),
            "{name}: {} of {} {what} differ, first {first:#?}",
            self.differ.len(),
            self.differ.len() + self.agree
        );
    }
}

#[test]
fn captured_trees_give_the_answers_of_another_tool() {
    for captured in captures() {
        let tree = SysfsTree::read(captured.folder.path()).unwrap();
        let machine = tree.machine().unwrap();
        check_pairs(&captured, &machine);
        check_numa(&captured, &machine);
        check_bridges(&captured, &tree);
        check_without_links(&captured, &tree);
        let json = machine.to_json().unwrap();
        assert_eq!(Machine::from_json(&json).unwrap(), machine);
    }
}

fn check_pairs(captured: &Captured, machine: &Machine) {
    let endpoints = machine.endpoints();
    let relations = machine.relations(&endpoints);
    let row = |at| endpoints.iter().position(|node| *node == at).unwrap();
    let mut tally = Tally::default();
    for pair in list(&captured.expected, "pairs") {
        let (a, b) = (address(pair, "a"), address(pair, "b"));
        let (row, column) = (row(node_at(machine, a)), row(node_at(machine, b)));
        let found = relations.get(row, column).unwrap().to_string();
        let expected = pair["class"].as_str().unwrap();
        tally.compare(&format!("{a} {b}"), &found, expected);
    }
    tally.assert(&captured.name, "pairs");
}

fn check_numa(captured: &Captured, machine: &Machine) {
    let devices = list(&captured.expected, "devices");
    assert_eq!(
        machine.endpoints().len(),
        devices.len(),
        "{}",
        captured.name
    );
    let numa_nodes = captured.expected["numa_nodes"].as_u64().unwrap();
    assert_eq!(machine.numa().len() as u64, numa_nodes, "{}", captured.name);
    let mut tally = Tally::default();
    for device in devices {
        let at = address(device, "busid");
        let near = machine.nearest_numa_nodes(node_at(machine, at));
        let found = match near[..] {
            [only] => only.get().to_string(),
            [first, .., last] => format!("{}-{}", first.get(), last.get()),
            [] => "none".to_owned(),
        };
        tally.compare(&at.to_string(), &found, device["numa"].as_str().unwrap());
    }
    tally.assert(&captured.name, "NUMA affinities");
}

fn check_bridges(captured: &Captured, tree: &SysfsTree) {
    let mut tally = Tally::default();
    for device in list(&captured.expected, "devices") {
        let at = address(device, "busid");
        let found: Vec<String> = tree
            .bridges_above(at)
            .iter()
            .map(|bridge| format!("PCIBridge {bridge}"))
            .collect();
        let expected: Vec<&str> = list(device, "up")
            .iter()
            .filter_map(Value::as_str)
            .filter(|above| above.starts_with("PCIBridge"))
            .collect();
        tally.compare(&at.to_string(), &found.join(" "), &expected.join(" "));
    }
    tally.assert(&captured.name, "chains of bridges");
}

/// A capture that copied folders has no links to tell the tree by: the bus numbers must do.
fn check_without_links(captured: &Captured, tree: &SysfsTree) {
    let mut copied = tree.clone();
    for function in &mut copied.functions {
        function.ancestors = None;
    }
    let (copied, linked) = (copied.machine().unwrap(), tree.machine().unwrap());
    assert_eq!(copied.distances(), linked.distances(), "{}", captured.name);
}

#[test]
fn this_machine_is_read_without_an_error() {
    let machine = Machine::from_sysfs(Path::new("/")).unwrap();
    assert!(!machine.numa().is_empty());
}
