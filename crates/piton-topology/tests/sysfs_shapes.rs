//! The sysfs reader against small trees written here: what sandboxes, virtual machines and copied
//! captures look like.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

use std::fs;
use std::path::{Path, PathBuf};

use piton_topology::{
    DeviceId, Distance, Field, Machine, NodeKind, NumaId, PeerAccess, ProbeError, RouteKind,
    Router, Warning,
};

/// A sysfs tree in a folder that goes away.
struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root().join("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn numa(&self, number: u32, cpus: &str) {
        self.file(&format!("devices/system/node/node{number}/cpulist"), cpus);
    }

    /// A function in a folder of its own, not a link.
    fn function(&self, address: &str, class: &str, more: &[(&str, &str)]) {
        let identity = [("vendor", "0x10de"), ("device", "0x1234"), ("class", class)];
        for (name, text) in identity.iter().chain(more) {
            self.file(&format!("bus/pci/devices/{address}/{name}"), text);
        }
    }

    fn bridge(&self, address: &str, first: u8, last: u8) {
        let (first, last) = (first.to_string(), last.to_string());
        let buses = [
            ("secondary_bus_number", &*first),
            ("subordinate_bus_number", &*last),
        ];
        self.function(address, "0x060400", &buses);
    }

    fn machine(&self) -> Machine {
        Machine::from_sysfs(self.root()).unwrap()
    }
}

const GPU: &str = "0x030200";

fn distance(machine: &Machine, row: usize, column: usize) -> Distance {
    *machine.distances().get(row, column).unwrap()
}

#[test]
fn a_sandbox_without_buses_is_one_host_without_devices() {
    let machine = Tree::new().machine();
    assert_eq!(machine.device_count(), 0);
    assert_eq!(machine.numa()[0].id, NumaId::new(0));
    assert_eq!(
        machine.warnings(),
        [Warning::NoPciBus, Warning::NoNumaNodes]
    );
}

#[test]
fn devices_of_a_sandbox_are_far_apart_by_an_unknown_amount_and_copies_are_staged() {
    let machine = Machine::unknown_host(2).unwrap();
    assert_eq!(distance(&machine, 0, 1), Distance::Unknown);
    let router = Router::new(&machine, &PeerAccess::none());
    let devices: Vec<_> = machine.device_ids().collect();
    let route = router.route(devices[0], devices[1], 1 << 20).unwrap();
    let numa = NumaId::new(0);
    assert_eq!(route.kind, RouteKind::Staged { numa });
}

#[test]
fn copied_folders_are_put_together_by_bus_numbers() {
    let tree = Tree::new();
    tree.numa(0, "0-3");
    tree.bridge("0000:00:01.0", 1, 6);
    tree.bridge("0000:01:00.0", 2, 6);
    tree.bridge("0000:02:00.0", 3, 3);
    tree.bridge("0000:02:01.0", 4, 4);
    tree.function("0000:03:00.0", GPU, &[]);
    tree.function("0000:04:00.0", GPU, &[]);
    tree.function("0000:00:02.0", GPU, &[]);
    let machine = tree.machine();
    // By address: the one on the root bus comes first.
    assert_eq!(distance(&machine, 1, 2), Distance::Pix);
    assert_eq!(distance(&machine, 0, 1), Distance::Phb);
    // The root port is part of the host bridge, the other three are one switch.
    let switches = machine.nodes().iter();
    let switches = switches.filter(|node| node.kind == NodeKind::Switch);
    assert_eq!(switches.count(), 1);
    let address = "0000:03:00.0".parse().unwrap();
    assert_eq!(machine.device_at(address), Some(DeviceId::new(1)));
}

#[test]
fn a_switch_right_on_the_root_bus_is_known_by_its_slots() {
    let tree = Tree::new();
    tree.numa(0, "0-3");
    tree.bridge("0000:00:01.0", 1, 3);
    tree.bridge("0000:01:00.0", 2, 2);
    tree.bridge("0000:01:01.0", 3, 3);
    tree.function("0000:02:00.0", GPU, &[]);
    tree.function("0000:03:00.0", GPU, &[]);
    assert_eq!(distance(&tree.machine(), 0, 1), Distance::Pix);
}

#[test]
fn a_domain_above_ffff_has_host_bridges_of_its_own() {
    let tree = Tree::new();
    tree.numa(0, "0-3");
    tree.bridge("0000:00:01.0", 1, 5);
    tree.function("0000:02:00.0", GPU, &[("numa_node", "0")]);
    tree.function("10000:02:00.0", GPU, &[("numa_node", "0")]);
    assert_eq!(distance(&tree.machine(), 0, 1), Distance::Node);
}

#[test]
fn a_device_without_a_numa_node_belongs_where_its_processors_are() {
    let tree = Tree::new();
    tree.numa(0, "0-3");
    tree.numa(2, "4-7");
    let near_two = [("numa_node", "-1"), ("local_cpus", "f0")];
    tree.function("0000:00:02.0", GPU, &near_two);
    tree.function("0000:80:02.0", GPU, &[("numa_node", "-1")]);
    let machine = tree.machine();
    let devices: Vec<_> = machine.device_ids().collect();
    assert_eq!(machine.numa_affinity(devices[0]), Some(NumaId::new(2)));
    assert_eq!(machine.numa_affinity(devices[1]), None);
    assert_eq!(machine.nearest_numa(devices[1]), Some(NumaId::new(0)));
}

#[test]
fn a_link_is_as_fast_as_its_slower_end_at_full_speed() {
    let tree = Tree::new();
    tree.numa(0, "0-3");
    let idle = [
        ("current_link_speed", "2.5 GT/s PCIe"),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "8"),
        ("max_link_width", "16"),
    ];
    tree.function("0000:00:02.0", GPU, &idle);
    let machine = tree.machine();
    let link = &machine.links()[1];
    assert_eq!(link.kind.to_string(), "PCIe Gen5");
    assert_eq!(link.lanes, 8);
}

#[test]
fn a_file_that_breaks_its_promise_is_named() {
    let tree = Tree::new();
    tree.function("0000:00:02.0", GPU, &[("numa_node", "north")]);
    let error = Machine::from_sysfs(tree.root()).unwrap_err();
    let suffix = PathBuf::from("0000:00:02.0/numa_node");
    assert!(matches!(
        error,
        ProbeError::Malformed { path, expected: Field::Number } if path.ends_with(&suffix)
    ));
}

#[test]
fn bridges_that_claim_each_other_do_no_harm() {
    let tree = Tree::new();
    tree.bridge("0000:01:00.0", 1, 255);
    tree.bridge("0000:02:00.0", 1, 255);
    tree.function("0000:02:01.0", GPU, &[]);
    tree.function("0000:01:01.0", GPU, &[]);
    let machine = tree.machine();
    assert_eq!(machine.device_count(), 2);
    assert!(distance(&machine, 0, 1) <= Distance::Phb);
}

#[test]
fn what_is_no_address_and_what_has_no_class_is_passed_over() {
    let tree = Tree::new();
    tree.file("bus/pci/devices/uevent", "");
    tree.file("bus/pci/devices/0000:00:03.0/vendor", "0x10de");
    assert_eq!(tree.machine().device_count(), 0);
}
