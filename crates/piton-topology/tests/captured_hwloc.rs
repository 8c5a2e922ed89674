//! The hwloc reader against real files, with the tool's own answers beside them.
//!
//! The files are not part of this repository: without them the first test says so and passes.

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

use piton_topology::sysfs::SysfsTree;
use piton_topology::{
    AttributeError, HwlocError, LinkKind, MAX_HWLOC_BYTES, Machine, NodeId, PciAddress, defaults,
};
use proptest::prelude::*;
use serde_json::Value;

use shared_files::shared_files;

fn files() -> Vec<(PathBuf, String, Value)> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    shared_files("hwloc_xml", ".xml")
        .into_iter()
        .map(|file| {
            let expected = read(&file.with_extension("expected.json"));
            let text = read(&file);
            (file, text, serde_json::from_str(&expected).unwrap())
        })
        .collect()
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

#[test]
fn devices_have_the_distances_and_numa_nodes_that_the_tool_says() {
    for (file, text, expected) in files() {
        let machine = Machine::from_hwloc_xml(&text).unwrap();
        let place = file.display();
        assert_eq!(
            machine.numa().len() as u64,
            expected["numa_nodes"].as_u64().unwrap(),
            "{place}"
        );
        assert_eq!(
            machine.endpoints().len(),
            list(&expected, "devices").len(),
            "{place}"
        );
        let mut pairs = 0;
        for pair in list(&expected, "pairs") {
            let ends = [address(pair, "a"), address(pair, "b")].map(|at| node_at(&machine, at));
            let class = pair["class"].as_str().unwrap();
            let relation = *machine.relations(&ends).get(0, 1).unwrap();
            if relation.fabric.is_none() {
                assert_eq!(relation.to_string(), class, "{place}: {pair}");
                pairs += 1;
            }
        }
        for device in list(&expected, "devices") {
            let node = node_at(&machine, address(device, "busid"));
            // A link to a processor makes its memory the nearest, whatever the bus says.
            let near = machine.nearest_numa_nodes(node);
            let near: Vec<String> = near.iter().map(|numa| numa.get().to_string()).collect();
            assert_eq!(near.join(","), numa_list(device), "{place}: {device}");
        }
        let json = machine.to_json().unwrap();
        assert_eq!(Machine::from_json(&json).unwrap(), machine);
        println!("{place}: {pairs} pairs agree");
    }
}

/// `0-3` and `0,2` as `0,1,2,3` and `0,2`.
fn numa_list(device: &Value) -> String {
    let text = device["numa"].as_str().unwrap();
    let ranges = text.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let numbers = first.parse::<u16>().unwrap()..=last.parse().unwrap();
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        numbers.join(",")
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[test]
fn bridges_and_link_speeds_are_those_of_the_tool() {
    for (file, text, expected) in files() {
        let tree = SysfsTree::from_hwloc_xml(&text).unwrap();
        for device in list(&expected, "devices") {
            let at = address(device, "busid");
            let place = format!("{}: {at}", file.display());
            let found: Vec<String> = tree
                .bridges_above(at)
                .iter()
                .map(|bridge| format!("PCIBridge {bridge}"))
                .collect();
            let up = list(device, "up").iter().filter_map(Value::as_str);
            let up: Vec<&str> = up.filter(|above| above.starts_with("PCIBridge")).collect();
            assert_eq!(found, up, "{place}");
            let function = tree
                .functions
                .iter()
                .find(|function| function.address == at);
            let link = function.unwrap().current;
            let generation = link
                .megatransfers
                .and_then(piton_topology::PcieGeneration::from_megatransfers);
            let peak = generation.zip(link.width).map_or(0, |(generation, width)| {
                defaults::peak(LinkKind::Pcie(generation), width.into()).get() / 1_000_000
            });
            let stated = device["link_gbytes_s"].as_f64().unwrap() * 1_000.0;
            // Rates of old files are a fifth below what the link can do.
            assert!(
                (peak as f64 - stated).abs() <= 1.0 || stated == 200.0 && peak == 250,
                "{place}: {peak} for {stated}"
            );
        }
    }
}

#[test]
fn fabric_links_are_those_of_the_tools_bandwidth_matrix() {
    for (file, text, expected) in files() {
        let machine = Machine::from_hwloc_xml(&text).unwrap();
        for matrix in list(&expected, "distances") {
            if matrix["name"] != "NVLinkBandwidth" {
                continue;
            }
            let devices = list(matrix, "objects");
            let devices = devices
                .iter()
                .take_while(|name| name.as_str().unwrap().starts_with("nvml"));
            let (count, side) = (devices.count(), list(matrix, "objects").len());
            assert_eq!(count, machine.device_count());
            let relations = machine.relations(machine.devices());
            let value = |row: usize, column: usize| {
                list(matrix, "values")[row * side + column]
                    .as_u64()
                    .unwrap()
            };
            for row in 0..count {
                for column in (0..count).filter(|column| *column != row) {
                    let relation = relations.get(row, column).unwrap();
                    let peak = relation.fabric.map_or(0, |(kind, lanes)| {
                        defaults::peak(kind, lanes).get() / 1_000_000
                    });
                    // Through switches: all links of a device lead to any other.
                    let switched: u64 = (count..side).map(|switch| value(row, switch)).sum();
                    let stated = value(row, column);
                    let is_switched = relation.distance == piton_topology::Distance::LinkSwitch;
                    assert_eq!(
                        peak,
                        if is_switched { switched } else { stated },
                        "{}",
                        file.display()
                    );
                }
            }
        }
    }
}

#[test]
fn versions_two_and_three_of_one_machine_are_one_machine() {
    let files = files();
    let named = |name: &str| files.iter().find(|(file, ..)| file.ends_with(name));
    let [Some(two), Some(three)] =
        ["power8-4p100-nvlink.v2.xml", "power8-4p100-nvlink.v3.xml"].map(named)
    else {
        println!("skipped: no machine in two versions");
        return;
    };
    let read = |(_, text, _): &(PathBuf, String, Value)| Machine::from_hwloc_xml(text).unwrap();
    assert_eq!(read(two), read(three));
}

/// A package with a NUMA node beside its host bridge, and a device under a bridge: version 2.
const TWO: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001" gp_index="3"/>
      <object type="Bridge" gp_index="4" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
        <object type="Bridge" gp_index="5" bridge_type="1-1" depth="1" bridge_pci="0000:[01-01]" pci_busid="0000:00:01.0" pci_type="0604 [8086:2030] [8086:0000] 04" pci_link_speed="15.753846">
          <object type="PCIDev" gp_index="6" pci_busid="0000:01:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1" pci_link_speed="15.753846">
            <object type="OSDev" gp_index="7" name="nvml0" osdev_type="5"/>
          </object>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c" nodeset="0x00000002" gp_index="8">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x00000002" gp_index="9"/>
      <object type="Bridge" gp_index="10" bridge_type="0-1" depth="0" bridge_pci="0001:[00-01]">
        <object type="PCIDev" gp_index="11" pci_busid="0001:00:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1" pci_link_speed="0.000000">
          <object type="OSDev" gp_index="12" name="nvml1" osdev_type="5"/>
        </object>
      </object>
    </object>
  </object>
  <distances2hetero nbobjs="2" kind="25" name="NVLinkBandwidth">
    <indexes length="16">OSDev:7 OSDev:12 </indexes>
    <u64values length="32">1000000 75000 75000 1000000 </u64values>
  </distances2hetero>
</topology>"#;

/// The same in version 1: no version, NUMA nodes above what is near them, no bandwidths.
fn one() -> String {
    let text = TWO.replace(" version=\"2.0\"", "");
    let text = text.replace("hwloc2.dtd", "hwloc.dtd");
    let (text, _) = text.split_once("  <distances2hetero").unwrap();
    // The package's NUMA node becomes the object around it.
    let numa = |text: String, number: &str| {
        let beside = text.lines().find(|line| {
            line.contains("NUMANode") && line.contains(&format!("os_index=\"{number}\""))
        });
        let beside = beside.unwrap().to_owned();
        text.replace(&format!("{beside}\n"), "").replacen(
            &format!("type=\"Package\" os_index=\"{number}\""),
            &format!("type=\"NUMANode\" os_index=\"{number}\""),
            1,
        )
    };
    format!("{}</topology>", numa(numa(text.to_owned(), "0"), "1"))
}

#[test]
fn a_small_file_is_read_in_each_version() {
    let two = Machine::from_hwloc_xml(TWO).unwrap();
    assert_eq!(two.device_count(), 2);
    let relations = two.relations(two.devices());
    assert_eq!(relations.get(0, 1).unwrap().to_string(), "NV3");
    let three = TWO
        .replace("version=\"2.0\"", "version=\"3.0\"")
        .replace("a1\"", "a1 00\"");
    assert_eq!(Machine::from_hwloc_xml(&three).unwrap(), two);
    let one = Machine::from_hwloc_xml(&one()).unwrap();
    assert_eq!(
        one.relations(one.devices()).get(0, 1).unwrap().to_string(),
        "SYS"
    );
    for machine in [&one, &two] {
        let near = machine
            .device_ids()
            .map(|id| machine.numa_affinity(id).unwrap().get());
        assert_eq!(near.collect::<Vec<_>>(), [0, 1]);
        assert_eq!(machine.numa()[1].cpus.to_string(), "2-3");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let changed = |from: &str, to: &str| {
        assert!(TWO.contains(from));
        Machine::from_hwloc_xml(&TWO.replacen(from, to, 1)).unwrap_err()
    };
    assert!(matches!(
        changed("version=\"2.0\"", "version=\"4.1\""),
        HwlocError::Version {
            line: 3,
            major: 4,
            minor: 1
        }
    ));
    assert!(matches!(
        changed("pci_busid=\"0000:01:00.0\"", "pci_busid=\"first\""),
        HwlocError::Attribute(AttributeError::Unreadable {
            line: 9,
            attribute: "pci_busid",
            ..
        })
    ));
    assert!(matches!(
        changed(" pci_type=\"0302 [10de:1db8] [10de:131d] a1\"", ""),
        HwlocError::Attribute(AttributeError::Missing {
            line: 9,
            attribute: "pci_type",
            ..
        })
    ));
    assert!(matches!(
        changed("75000 75000 ", "75000 "),
        HwlocError::Distances {
            objects: 2,
            values: 3,
            ..
        }
    ));
    assert!(matches!(
        Machine::from_hwloc_xml("<root/>"),
        Err(HwlocError::NoTopology { line: 1 })
    ));
}

#[test]
fn entities_and_oversize_are_refused() {
    let bomb = "<!DOCTYPE topology [\n<!ENTITY b \"cccc\">]><topology>&b;&b;</topology>";
    assert!(matches!(
        Machine::from_hwloc_xml(bomb),
        Err(HwlocError::Entity { line: 2 })
    ));
    let long = " ".repeat(MAX_HWLOC_BYTES + 1);
    assert!(matches!(
        Machine::from_hwloc_xml(&long),
        Err(HwlocError::TooLarge { .. })
    ));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let nested = |object: &str, deep| {
        let (open, close) = (object.repeat(deep), "</object>".repeat(deep));
        Machine::from_hwloc_xml(&format!("<topology>{open}{close}</topology>"))
    };
    let _any_answer = nested("<object type=\"Group\">", 100_000);
    let bridge =
        "<object type=\"Bridge\" pci_busid=\"0000:01:00.0\" pci_type=\"0604 [0000:0000]\">";
    assert!(matches!(
        nested(bridge, 1_000),
        Err(HwlocError::TooDeep {
            line: 1,
            limit: 256
        })
    ));
}

proptest! {
    #[test]
    fn a_file_cut_short_is_refused(at: prop::sample::Index) {
        prop_assert!(Machine::from_hwloc_xml(&TWO[..at.index(TWO.len())]).is_err());
    }

    #[test]
    fn a_file_with_a_changed_byte_gives_an_answer(at: prop::sample::Index, byte in 0x20..0x7f_u8) {
        let mut bytes = TWO.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(machine) = Machine::from_hwloc_xml(std::str::from_utf8(&bytes).unwrap()) {
            prop_assert_eq!(machine.distances().side(), machine.device_count());
        }
    }
}
