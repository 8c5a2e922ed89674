//! The NCCL reader against real files, with the library's own answers beside them.
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

use std::collections::BTreeMap;
use std::path::PathBuf;

use piton_topology::{
    AttributeError, Distance, LinkKind, MAX_NCCL_BYTES, Machine, NcclError, NodeId, NodeKind,
    PciAddress, Warning,
};
use proptest::prelude::*;
use serde_json::Value;

use shared_files::shared_files;

fn files() -> Vec<PathBuf> {
    shared_files("nccl_xml", ".xml")
}

/// The library's words for a distance of ours.
fn library_words(distance: Distance) -> &'static [&'static str] {
    match distance {
        Distance::Same => &["LOC"],
        Distance::Link | Distance::LinkSwitch => &["NVL", "XGMI"],
        Distance::Pix => &["PIX"],
        Distance::Pxb => &["PXB"],
        Distance::Phb => &["PHB"],
        Distance::Sys => &["SYS"],
        _ => &[],
    }
}

fn device_at(machine: &Machine, address: &Value) -> NodeId {
    let address = address.as_str().unwrap().parse().unwrap();
    machine
        .device_node(machine.device_at(address).unwrap())
        .unwrap()
}

#[test]
fn devices_are_as_far_apart_as_the_library_says() {
    let (mut machines, mut pairs) = (0, 0);
    for file in files() {
        let expected = std::fs::read_to_string(file.with_extension("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let found = &expected["found"];
        let Some(gpus) = found["gpus"].as_array() else {
            continue;
        };
        let machine = Machine::from_nccl_xml(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let nodes: Vec<NodeId> = gpus.iter().map(|gpu| device_at(&machine, gpu)).collect();
        let relations = machine.relations(&nodes);
        let rows = found["gpu_gpu_type"].as_array().unwrap();
        for (row, words) in rows.iter().enumerate() {
            for (column, word) in words.as_str().unwrap().split(' ').enumerate() {
                let distance = relations.get(row, column).unwrap().distance;
                let place = format!("{}: {row} to {column}", file.display());
                assert!(
                    library_words(distance).contains(&word),
                    "{place} is {distance}, expected {word}"
                );
                pairs += 1;
            }
        }
        machines += 1;
    }
    println!("{machines} machines, {pairs} pairs agree");
}

/// The node of each network port's controller by the port's number, for controllers on the PCI bus.
fn ports(machine: &Machine, text: &str) -> BTreeMap<usize, NodeId> {
    let document = roxmltree::Document::parse(text).unwrap();
    let ports = document
        .descendants()
        .filter(|node| node.has_tag_name("net"));
    ports
        .filter_map(|port| {
            let address = port.parent()?.parent()?.attribute("busid")?;
            let address: PciAddress = address.parse().unwrap();
            let mut ids = machine.node_ids();
            let node = ids.find(|id| machine.node(*id).unwrap().pci == Some(address));
            Some((port.attribute("dev")?.parse().unwrap(), node.unwrap()))
        })
        .collect()
}

#[test]
fn network_controllers_are_as_far_from_devices_as_the_library_says() {
    let mut pairs = 0;
    for file in files() {
        let expected = std::fs::read_to_string(file.with_extension("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let found = &expected["found"];
        let Some(gpus) = found["gpus"].as_array() else {
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        let machine = Machine::from_nccl_xml(&text).unwrap();
        let ports = ports(&machine, &text);
        let nets = found["nets"].as_array().unwrap();
        let rows = found["gpu_net_type"].as_array().unwrap();
        for (gpu, words) in gpus.iter().zip(rows) {
            for (net, word) in nets.iter().zip(words.as_str().unwrap().split(' ')) {
                let number = usize::try_from(net[0].as_u64().unwrap()).unwrap();
                let Some(port) = ports.get(&number) else {
                    continue;
                };
                let ends = [device_at(&machine, gpu), *port];
                let distance = machine.relations(&ends).get(0, 1).unwrap().distance;
                let place = format!("{}: {gpu} to port {number}", file.display());
                assert!(
                    library_words(distance).contains(&word),
                    "{place} is {distance}, expected {word}"
                );
                pairs += 1;
            }
        }
    }
    println!("{pairs} pairs of a device and a port agree");
}

#[test]
fn a_machine_written_as_such_a_file_is_read_back_with_its_distances_and_rates() {
    let texts: Vec<String> = files()
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let real = texts
        .iter()
        .filter_map(|text| Machine::from_nccl_xml(text).ok());
    let made_up = Machine::linked_pairs(6, LinkKind::NvLink(piton_topology::NvLinkVersion::V3), 4);
    for machine in real.chain(made_up) {
        let again = Machine::from_nccl_xml(&machine.to_nccl_xml()).unwrap();
        assert_eq!(again.device_count(), machine.device_count());
        assert_eq!(again.endpoints().len(), machine.endpoints().len());
        for machine in [&machine, &again] {
            assert!(machine.numa().iter().all(|numa| numa.id.get() < 64));
        }
        let before = machine.nearest_paths(machine.devices());
        let after = again.nearest_paths(again.devices());
        // Devices may come in another order: those with an address are found by it.
        let at = |id| {
            let address = machine.device(id).unwrap().pci;
            address.map_or(id, |address| again.device_at(address).unwrap())
        };
        for a in machine.device_ids() {
            for b in machine.device_ids() {
                let rate = |path: Option<&Option<piton_topology::NearestPath>>| {
                    path.unwrap().as_ref().map(|path| path.bottleneck)
                };
                let (before, after) = (
                    rate(before.get(a.index(), b.index())),
                    rate(after.get(at(a).index(), at(b).index())),
                );
                assert_eq!(before, after, "{a} to {b}");
            }
        }
        let cpus = |machine: &Machine| {
            machine
                .numa()
                .iter()
                .map(|numa| numa.cpus.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(cpus(&again), cpus(&machine));
    }
}

#[test]
fn every_file_gives_a_machine_or_says_where_it_is_wrong() {
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        match Machine::from_nccl_xml(&text) {
            Ok(machine) => {
                let json = machine.to_json().unwrap();
                assert_eq!(Machine::from_json(&json).unwrap(), machine);
            }
            Err(error) => {
                println!("{}: {error}", file.display());
                assert!(error.to_string().contains("line "), "{error}");
            }
        }
    }
}

/// Two devices under one switch, with NVLinks between them, one to itself, and a card with two ports.
const SMALL: &str = r#"
<system version="1">
  <cpu numaid="1" affinity="0f" arch="x86_64">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:02:00.0" count="1" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="" link_width="0">
        <gpu dev="1" sm="80"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
    </pci>
    <nic><net name="eth0"/><net name="eth1"/></nic>
  </cpu>
</system>"#;

fn changed(from: &str, to: &str) -> NcclError {
    assert!(SMALL.contains(from));
    Machine::from_nccl_xml(&SMALL.replacen(from, to, 1)).unwrap_err()
}

#[test]
fn a_small_file_is_read_with_its_oddities() {
    let machine = Machine::from_nccl_xml(SMALL).unwrap();
    assert_eq!(machine.device_count(), 2);
    let relations = machine.relations(machine.devices());
    assert_eq!(relations.get(0, 1).unwrap().to_string(), "NV4");
    let fabric = machine.links().iter().filter(|link| link.kind.is_fabric());
    assert_eq!(fabric.count(), 1);
    let itself = machine.devices()[0];
    assert!(
        machine
            .warnings()
            .contains(&Warning::SelfLink { node: itself })
    );
    let node = machine.devices()[1];
    assert!(machine.warnings().contains(&Warning::NoLinkSpeed { node }));
    assert_eq!(machine.numa()[0].cpus.to_string(), "0-3");
    let nics = machine
        .nodes()
        .iter()
        .filter(|node| node.kind == NodeKind::Nic);
    assert_eq!(nics.count(), 1);
    let switch = machine.links().iter().find(|link| link.a == NodeId::new(2));
    assert!(matches!(switch.unwrap().kind, LinkKind::Pcie(_)));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    assert!(matches!(
        changed(" class=\"0x060400\"", ""),
        NcclError::Attribute(AttributeError::Missing {
            line: 4,
            element: "pci",
            attribute: "class"
        })
    ));
    assert!(matches!(
        changed("0000:01:00.0", "zero"),
        NcclError::Attribute(AttributeError::Unreadable {
            attribute: "busid",
            ..
        })
    ));
    assert!(matches!(
        changed("version=\"1\"", "version=\"9\""),
        NcclError::Version { found: 9, line: 2 }
    ));
    assert!(matches!(
        changed("target=\"0000:03:00.0\"", "target=\"0000:04:00.0\""),
        NcclError::UnknownTarget { line: 7, .. }
    ));
    let other = Machine::from_nccl_xml("<topology/>");
    assert!(matches!(other, Err(NcclError::NoSystem { line: 1 })));
}

#[test]
fn entities_and_oversize_are_refused() {
    let bomb = "<!DOCTYPE a [<!ENTITY b \"c\">]><system version=\"1\">&b;</system>";
    assert!(matches!(
        Machine::from_nccl_xml(bomb),
        Err(NcclError::Xml(_))
    ));
    let long = " ".repeat(MAX_NCCL_BYTES + 1);
    assert!(matches!(
        Machine::from_nccl_xml(&long),
        Err(NcclError::TooLarge { .. })
    ));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let deep = 100_000;
    let open = "<pci busid=\"0000:01:00.0\" class=\"0x010000\">".repeat(deep);
    let text = format!(
        "<system version=\"1\"><cpu numaid=\"0\">{open}{}</cpu></system>",
        "</pci>".repeat(deep)
    );
    // Any answer will do.
    let _answer = Machine::from_nccl_xml(&text);
}

proptest! {
    #[test]
    fn a_file_cut_short_is_refused(at: prop::sample::Index) {
        let cut = &SMALL[..at.index(SMALL.len())];
        prop_assert!(Machine::from_nccl_xml(cut).is_err());
    }

    #[test]
    fn a_file_with_a_changed_byte_gives_an_answer(at: prop::sample::Index, byte in 0x20..0x7f_u8) {
        let mut bytes = SMALL.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(machine) = Machine::from_nccl_xml(std::str::from_utf8(&bytes).unwrap()) {
            prop_assert_eq!(machine.distances().side(), machine.device_count());
        }
    }

    #[test]
    fn any_text_gives_an_answer(text: String) {
        prop_assert!(Machine::from_nccl_xml(&text).is_err());
    }
}
