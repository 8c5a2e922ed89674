//! What a whole machine says, taken apart again into facts.

use super::{FabricEnd, FabricFact, NumberedDevice, Origin, Partial};
use crate::id::NodeId;
use crate::link::{Link, LinkKind, PcieGeneration, Provenance};
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::pci::{PciAddress, PciIdentity};
use crate::search::Tree;
use crate::sysfs::{LinkStatus, NumaFacts, PciFunction, PortType, SysfsTree, stand_in_root};

pub(super) fn partial(origin: Origin, machine: &Machine) -> Partial {
    let functions = machine
        .node_ids()
        .filter_map(|node| function(machine, node));
    let mut functions: Vec<PciFunction> = functions.collect();
    functions.sort_by_key(|function| function.address);
    let is_numbered = machine
        .devices()
        .iter()
        .all(|node| address(machine, *node).is_none());
    let numbered = machine.device_ids().filter(|_| is_numbered);
    let numbered = numbered.map(|device| NumberedDevice {
        numa: machine.numa_affinity(device),
        cpus: None,
    });
    Partial {
        origin,
        numbered: numbered.collect(),
        fabric: fabric(machine),
        tree: SysfsTree {
            has_pci_bus: !functions.is_empty(),
            functions,
            numa: machine
                .numa()
                .iter()
                .map(|numa| NumaFacts {
                    id: numa.id,
                    cpus: numa.cpus.clone(),
                })
                .collect(),
        },
    }
}

/// The links of the device fabric.
pub(super) fn fabric(machine: &Machine) -> Vec<FabricFact> {
    let links = machine.links().iter().filter(|link| link.kind.is_fabric());
    let facts = links.filter_map(|link| {
        let is_said = link.up != link.down || link.provenance == Provenance::Measured;
        Some(FabricFact {
            ends: [end(machine, link.a)?, end(machine, link.b)?],
            kind: link.kind,
            lanes: link.lanes,
            rates: (is_said || !is_usual(link)).then_some([link.up, link.down]),
            latency: Some(link.latency),
        })
    });
    facts.collect()
}

fn is_usual(link: &Link) -> bool {
    link.kind.default_bandwidth(link.lanes) == Some(link.up)
}

fn end(machine: &Machine, node: NodeId) -> Option<FabricEnd> {
    Some(match machine.kind(node) {
        NodeKind::Device(device) => match address(machine, node) {
            Some(address) => FabricEnd::At(address),
            None => FabricEnd::Numbered(device.get()),
        },
        NodeKind::Memory(numa) => FabricEnd::Numa(numa),
        NodeKind::LinkSwitch => FabricEnd::LinkSwitch(node.get()),
        _ => return None,
    })
}

fn address(machine: &Machine, node: NodeId) -> Option<PciAddress> {
    machine.node(node)?.pci
}

fn function(machine: &Machine, id: NodeId) -> Option<PciFunction> {
    let node = machine.node(id)?;
    let is_switch = node.kind == NodeKind::Switch;
    let is_function = is_switch || node.kind.is_endpoint();
    let address = node.pci.filter(|_| is_function)?;
    let way = way_up(machine, id);
    let above = way.iter().filter_map(|(node, _)| above(machine, *node));
    let numa = match machine.nearest_numa_nodes(id)[..] {
        [only] => Some(only),
        _ => None,
    };
    Some(PciFunction {
        address,
        identity: node.identity.or(is_switch.then_some(BRIDGE)),
        ancestors: Some(above.collect()),
        buses: None,
        port: is_switch.then_some(PortType::Upstream),
        numa,
        local_cpus: None,
        current: way
            .first()
            .map_or(LinkStatus::default(), |(_, link)| status(link)),
        max: way
            .first()
            .map_or(LinkStatus::default(), |(_, link)| status(link)),
        names: if node.kind == NodeKind::Nic {
            vec![node.name.clone()]
        } else {
            Vec::new()
        },
    })
}

/// A bridge whose maker is not known.
const BRIDGE: PciIdentity = PciIdentity {
    vendor: 0,
    device: 0,
    class: 0x0604,
};

/// The nodes above one on the PCI bus up to its host bridge, each with the link to it; none if it has no host bridge.
fn way_up(machine: &Machine, id: NodeId) -> Vec<(NodeId, &Link)> {
    let tree = Tree::search(machine, id, 0_u16, |steps, step| {
        let from = machine.kind(step.from);
        let may_pass = step.from == id || from == NodeKind::Switch;
        (may_pass && matches!(step.link.kind, LinkKind::Pcie(_))).then(|| steps.saturating_add(1))
    });
    let bridges = machine
        .node_ids()
        .filter(|node| machine.kind(*node) == NodeKind::HostBridge);
    let nearest = bridges
        .filter_map(|node| Some((tree.label(node)?, node)))
        .min();
    let Some((_, bridge)) = nearest else {
        return Vec::new();
    };
    let mut at = id;
    let links = tree.path_to(bridge).into_iter();
    let steps = links.filter_map(|link| {
        let link = machine.link(link)?;
        at = link.other_end(at)?;
        Some((at, link))
    });
    steps.collect()
}

/// What stands for a node on somebody's way up.
fn above(machine: &Machine, id: NodeId) -> Option<PciAddress> {
    let node = machine.node(id)?;
    match node.kind {
        NodeKind::HostBridge => root_of(&node.name).or_else(|| stand_in_root(id.get())),
        _ => node.pci,
    }
}

/// The root bus that a host bridge is named after, as the reader of sysfs does.
fn root_of(name: &str) -> Option<PciAddress> {
    format!("{name}:00.0").parse().ok()
}

fn status(link: &Link) -> LinkStatus {
    let LinkKind::Pcie(generation) = link.kind else {
        return LinkStatus::default();
    };
    let megatransfers = match generation {
        PcieGeneration::Gen1 => 2_500,
        PcieGeneration::Gen2 => 5_000,
        PcieGeneration::Gen3 => 8_000,
        PcieGeneration::Gen4 => 16_000,
        PcieGeneration::Gen5 => 32_000,
        PcieGeneration::Gen6 => 64_000,
    };
    // What is a default was said by nobody.
    let is_said = link.provenance != Provenance::Default;
    LinkStatus {
        megatransfers: is_said.then_some(megatransfers),
        width: u8::try_from(link.lanes).ok().filter(|_| is_said),
    }
}
