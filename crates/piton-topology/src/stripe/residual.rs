//! What is free of each direction of each link.

use crate::id::{LinkId, NodeId};
use crate::machine::Machine;
use crate::quantity::BytesPerSec;

/// The free rates of a machine's links, in each direction.
///
/// More may be taken than a link has. Then nothing of it is free until as much has been given back.
///
/// # Invariants
/// A rate is the link's own less what is taken, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residual {
    whole: Vec<u64>,
    taken: Vec<u64>,
    rates: Vec<u64>,
    /// One end of each link.
    starts: Vec<NodeId>,
}

impl Residual {
    /// All links of `machine`, with everything free.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let both = machine.links().iter().flat_map(|link| [link.up, link.down]);
        let whole: Vec<u64> = both.map(BytesPerSec::get).collect();
        Self {
            rates: whole.clone(),
            taken: vec![0; whole.len()],
            whole,
            starts: machine.links().iter().map(|link| link.a).collect(),
        }
    }

    /// The free rate of `link` in the direction away from `from`. Zero for a link that does not exist.
    #[must_use]
    pub fn free(&self, link: LinkId, from: NodeId) -> BytesPerSec {
        let rate = self.direction(link, from).and_then(|at| self.rates.get(at));
        BytesPerSec::new(rate.copied().unwrap_or(0))
    }

    /// Takes `rate` of `link` in the direction away from `from`, even if that is more than is free.
    pub fn take(&mut self, link: LinkId, from: NodeId, rate: BytesPerSec) {
        if let Some(at) = self.direction(link, from) {
            self.set(at, self.taken[at].saturating_add(rate.get()));
        }
    }

    /// Gives back `rate` of what was taken.
    pub fn give_back(&mut self, link: LinkId, from: NodeId, rate: BytesPerSec) {
        if let Some(at) = self.direction(link, from) {
            self.set(at, self.taken[at].saturating_sub(rate.get()));
        }
    }

    fn set(&mut self, at: usize, taken: u64) {
        self.taken[at] = taken;
        self.rates[at] = self.whole[at].saturating_sub(taken);
    }

    pub(super) fn rates(&self) -> &[u64] {
        &self.rates
    }

    fn direction(&self, link: LinkId, from: NodeId) -> Option<usize> {
        let start = self.starts.get(link.index())?;
        Some(2 * link.index() + usize::from(*start != from))
    }
}
