//! How much traffic each link and node saw, as widths of lines.

use super::Highlight;
use crate::id::{LinkId, NodeId};
use crate::machine::Machine;

/// The thinnest and the additional width of a line with traffic, in tenths of a unit.
const THINNEST: u64 = 25;
const MORE: u128 = 45;

pub(super) struct Traffic {
    /// Weight on each link; `None` where no highlight passed.
    links: Vec<Option<u128>>,
    crossed: Vec<bool>,
    most: u128,
}

impl Traffic {
    pub(super) fn new(machine: &Machine, highlights: &[Highlight<'_>]) -> Self {
        let mut links = vec![None; machine.links().len()];
        let mut crossed = vec![false; machine.nodes().len()];
        for highlight in highlights {
            for hop in highlight.hops {
                // A hop of another machine is no hop here.
                let Some(link) = machine.link(*hop) else {
                    continue;
                };
                *links[hop.index()].get_or_insert(0) += u128::from(highlight.weight);
                crossed[link.a.index()] = true;
                crossed[link.b.index()] = true;
            }
        }
        let most = links.iter().copied().flatten().max().unwrap_or(0);
        Self {
            links,
            crossed,
            most,
        }
    }

    /// How wide to draw a link that carried traffic, in tenths of a unit.
    pub(super) fn tenths_wide(&self, link: LinkId) -> Option<u64> {
        let weight = self.links.get(link.index()).copied().flatten()?;
        let more = MORE * weight / self.most.max(1);
        Some(THINNEST + u64::try_from(more).unwrap_or(0))
    }

    /// Whether traffic started, ended or passed at a node.
    pub(super) fn crosses(&self, node: NodeId) -> bool {
        self.crossed.get(node.index()).copied().unwrap_or(false)
    }
}
