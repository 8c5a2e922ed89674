//! Links of the device fabric, as several sources have them.

use std::collections::BTreeMap;

use super::{FabricEnd, FabricFact, MergedField, Note, Origin, Partial};
use crate::builder::MachineBuilder;
use crate::error::BuildError;
use crate::id::NodeId;
use crate::link::Link;
use crate::machine::Machine;
use crate::pci::PciAddress;

/// Links by their ends, the smaller first, each with who says it and whom that overruled.
pub(super) type Links = BTreeMap<[FabricEnd; 2], (FabricFact, Origin, Option<Origin>)>;

/// The links that sources, the one to be believed first in front, say there are; with each the devices that its numbers
/// stand for.
pub(super) fn links(placed: &[(Partial, Vec<PciAddress>)]) -> Links {
    let mut links = Links::new();
    for (partial, numbers) in placed {
        for (ends, fact) in said(partial, numbers) {
            let known = links.entry(ends);
            known
                .and_modify(|(first, _, overruled)| {
                    if first.lanes != fact.lanes {
                        overruled.get_or_insert(partial.origin);
                    }
                })
                .or_insert((fact, partial.origin, None));
        }
    }
    links
}

/// What one source says: a link between two devices is often there from both ends, one to a switch once a switch.
fn said(partial: &Partial, devices: &[PciAddress]) -> BTreeMap<[FabricEnd; 2], FabricFact> {
    let mut links: BTreeMap<[FabricEnd; 2], FabricFact> = BTreeMap::new();
    for fact in &partial.fabric {
        let placed = fact.ends.map(|end| match end {
            FabricEnd::Numbered(number) => devices
                .get(usize::from(number))
                .map_or(end, |address| FabricEnd::At(*address)),
            // All switches of a source's are one node, as everywhere here.
            FabricEnd::LinkSwitch(_) => FabricEnd::LinkSwitch(0),
            other => other,
        });
        let is_back = placed[0] > placed[1];
        let (ends, rates) = match is_back {
            false => (placed, fact.rates),
            true => (
                [placed[1], placed[0]],
                fact.rates.map(|[there, back]| [back, there]),
            ),
        };
        let is_switched = ends
            .iter()
            .any(|end| matches!(end, FabricEnd::LinkSwitch(_)));
        let fact = FabricFact {
            ends,
            rates,
            ..*fact
        };
        let known = links.entry(ends);
        known
            .and_modify(|known| {
                known.lanes = if is_switched {
                    known.lanes.saturating_add(fact.lanes)
                } else {
                    known.lanes.max(fact.lanes)
                };
            })
            .or_insert(fact);
    }
    links
}

/// Adds the links to the machine of the PCI bus. Those that end at nothing it has are left out; the answer names both.
pub(super) fn join(machine: &Machine, links: Links) -> Result<(Machine, Vec<Note>), BuildError> {
    let mut builder = machine.to_builder();
    let mut notes = Vec::new();
    let mut switch = None;
    for (ends, (fact, origin, overruled)) in links {
        let mut nodes = [None; 2];
        for (node, end) in nodes.iter_mut().zip(ends) {
            *node = place(machine, &mut builder, &mut switch, end)?;
        }
        let [Some(a), Some(b)] = nodes else { continue };
        builder.link(link(&fact, a, b))?;
        for end in ends {
            if let FabricEnd::At(address) = end {
                let field = MergedField::Fabric;
                notes.push(Note {
                    address,
                    field,
                    origin,
                    overruled,
                });
            }
        }
    }
    Ok((builder.build()?, notes))
}

fn place(
    machine: &Machine,
    builder: &mut MachineBuilder,
    switch: &mut Option<NodeId>,
    end: FabricEnd,
) -> Result<Option<NodeId>, BuildError> {
    Ok(match end {
        FabricEnd::At(address) => machine
            .device_at(address)
            .and_then(|id| machine.device_node(id)),
        FabricEnd::Numbered(_) => None,
        FabricEnd::Numa(id) => machine.numa_node(id).map(|numa| numa.node),
        FabricEnd::LinkSwitch(_) => {
            let node = match *switch {
                Some(node) => node,
                None => builder.link_switch("link switch")?,
            };
            *switch = Some(node);
            Some(node)
        }
    })
}

fn link(fact: &FabricFact, a: NodeId, b: NodeId) -> Link {
    let mut link = Link::with_defaults(a, b, fact.kind, fact.lanes).declared();
    if let Some([there, back]) = fact.rates {
        (link.up, link.down) = (there, back);
    }
    link.latency = fact.latency.unwrap_or(link.latency);
    link
}
