//! The device fabric, out of hwloc's matrices of bandwidths.
//!
//! A value is megabytes a second one way, the sum of all links of the pair. NVSwitches are functions of
//! their own there; here all are one node, as everywhere in this crate.

use std::collections::BTreeMap;

use super::object::{Objects, Target};
use crate::builder::MachineBuilder;
use crate::error::{BuildError, HwlocError};
use crate::id::NodeId;
use crate::link::{Link, LinkKind, NvLinkVersion, XgmiVersion};
use crate::machine::Machine;
use crate::xml::Element;

/// The most objects of a matrix that is read.
const MAX_OBJECTS: usize = 2_048;

/// What stands for "to itself" where a bandwidth would be.
const ITSELF: u64 = 1_000_000;

/// An end of a link, once the objects are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Node(NodeId),
    LinkSwitch,
}

pub(super) fn add_fabric(
    topology: Element<'_>,
    objects: &Objects,
    machine: Machine,
) -> Result<Machine, HwlocError> {
    let mut links = BTreeMap::new();
    for name in ["distances2", "distances2hetero"] {
        for matrix in topology.children(name) {
            let is_fabric = matrix.node.attribute("name").map(|name| match name {
                "NVLinkBandwidth" => Fabric::NvLink,
                "XGMIBandwidth" => Fabric::Xgmi,
                _ => Fabric::None,
            });
            let fabric = is_fabric.unwrap_or(Fabric::None);
            if fabric != Fabric::None {
                read(matrix, fabric, objects, &machine, &mut links)?;
            }
        }
    }
    if links.is_empty() {
        return Ok(machine);
    }
    Ok(join(machine.to_builder(), links)?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fabric {
    None,
    NvLink,
    Xgmi,
}

/// Kind and lanes of the link between two ends, the smaller first.
type Links = BTreeMap<(End, End), (LinkKind, u16)>;

fn read(
    matrix: Element<'_>,
    fabric: Fabric,
    objects: &Objects,
    machine: &Machine,
    links: &mut Links,
) -> Result<(), HwlocError> {
    let ends: Vec<Option<End>> = matrix
        .words("indexes")
        .take(MAX_OBJECTS)
        .map(|word| end(word, objects, machine))
        .collect();
    let values = matrix.words("u64values");
    let values: Vec<u64> = values.map_while(|word| word.parse().ok()).collect();
    if values.len() != ends.len() * ends.len() {
        return Err(HwlocError::Distances {
            line: matrix.line(),
            objects: ends.len(),
            values: values.len(),
        });
    }
    let (kind, rate) = kind_of(fabric, &values);
    for (position, value) in values.iter().enumerate() {
        let (a, b) = (ends[position / ends.len()], ends[position % ends.len()]);
        let (Some(a), Some(b)) = (a, b) else { continue };
        let lanes = u16::try_from(value / rate).unwrap_or(u16::MAX);
        // From both ends the same, so one direction will do; a value too small for a link is one.
        if a >= b || *value == 0 || *value == ITSELF {
            continue;
        }
        let known = &mut links.entry((a, b)).or_insert((kind, 0)).1;
        // Several switches are one node here: their links add up.
        *known = known.saturating_add(lanes.max(1));
    }
    Ok(())
}

/// The kind of link, and megabytes a second of one, that the values are multiples of.
fn kind_of(fabric: Fabric, values: &[u64]) -> (LinkKind, u64) {
    if fabric == Fabric::Xgmi {
        return (LinkKind::Xgmi(XgmiVersion::Gfx90a), 100_000);
    }
    let all = |rate| {
        values
            .iter()
            .all(|value| *value == ITSELF || value % rate == 0)
    };
    if all(50_000) {
        return (LinkKind::NvLink(NvLinkVersion::V5), 50_000);
    }
    if all(20_000) {
        return (LinkKind::NvLink(NvLinkVersion::V1), 20_000);
    }
    (LinkKind::NvLink(NvLinkVersion::V2), 25_000)
}

/// `OSDev:332`, `Package:3`, or a number alone.
fn end(word: &str, objects: &Objects, machine: &Machine) -> Option<End> {
    let number = word.rsplit(':').next()?.parse().ok()?;
    match *objects.targets.get(&number)? {
        Target::Numa(id) => machine.numa_node(id).map(|numa| End::Node(numa.node)),
        Target::Function(address) => match machine.device_at(address) {
            Some(device) => machine.device_node(device).map(End::Node),
            None => Some(End::LinkSwitch),
        },
    }
}

fn join(mut builder: MachineBuilder, links: Links) -> Result<Machine, BuildError> {
    let mut switch = None;
    for ((a, b), (kind, lanes)) in links {
        let End::Node(a) = a else { continue };
        let b = match (b, switch) {
            (End::Node(node), _) | (End::LinkSwitch, Some(node)) => node,
            (End::LinkSwitch, None) => {
                let node = builder.link_switch("NVSwitch")?;
                switch = Some(node);
                node
            }
        };
        builder.link(Link::with_defaults(a, b, kind, lanes).declared())?;
    }
    builder.build()
}
