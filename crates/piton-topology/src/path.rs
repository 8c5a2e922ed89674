//! Paths for bytes: the widest and the quickest way between two nodes.
//!
//! Widest means the largest bottleneck, and among those the least latency. The two cannot be found
//! in one search: a prefix of the best such path need not be the best way to its own end. So the
//! widths come first, and then, for each different width, the quickest paths over links at least as wide.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::defaults;
use crate::id::{LinkId, NodeId};
use crate::machine::Machine;
use crate::matrix::Matrix;
use crate::quantity::{BytesPerSec, Nanos};
use crate::search::{Step, Tree};

/// Whether a path may pass through devices and network controllers on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transit {
    /// Only through switches, bridges and memory: what one copy does.
    HostOnly,
    /// Also through other devices: what relaying would add.
    Devices,
}

/// Which links a path may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Links of the device fabric.
    Fabric,
    /// Links of the host: PCIe, memory, sockets.
    Host,
    /// Either.
    Any,
}

/// A way from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) links: Vec<LinkId>,
    pub(crate) bottleneck: BytesPerSec,
    pub(crate) latency: Nanos,
}

/// Least latency first, then the widest, then the fewest links.
type Quickness = (Nanos, Reverse<BytesPerSec>, u16);

/// The start of every path: no time, no limit, no links.
const START: Quickness = (Nanos::ZERO, Reverse(BytesPerSec::MAX), 0);

/// Searches from one node, within one medium.
pub(crate) struct Paths<'m> {
    machine: &'m Machine,
    source: NodeId,
    medium: Medium,
    transit: Transit,
}

impl<'m> Paths<'m> {
    /// `source` must be a node of `machine`.
    pub(crate) const fn new(
        machine: &'m Machine,
        source: NodeId,
        medium: Medium,
        transit: Transit,
    ) -> Self {
        Self {
            machine,
            source,
            medium,
            transit,
        }
    }

    /// The quickest path to each of `targets`, in their order.
    pub(crate) fn quickest(&self, targets: &[NodeId]) -> Vec<Option<Path>> {
        let tree = self.quickest_over(BytesPerSec::new(0));
        targets.iter().map(|to| path(&tree, *to)).collect()
    }

    /// The widest path to each of `targets`, in their order; the quickest of several.
    pub(crate) fn widest(&self, targets: &[NodeId]) -> Vec<Option<Path>> {
        let widths = self.widths();
        let mut trees: BTreeMap<BytesPerSec, Tree<Quickness>> = BTreeMap::new();
        let mut widest = |to: &NodeId| {
            let Reverse(width) = widths.label(*to)?;
            let tree = trees
                .entry(width)
                .or_insert_with(|| self.quickest_over(width));
            path(tree, *to)
        };
        targets.iter().map(&mut widest).collect()
    }

    /// The largest bottleneck to every node.
    fn widths(&self) -> Tree<Reverse<BytesPerSec>> {
        let start = Reverse(BytesPerSec::MAX);
        Tree::search(self.machine, self.source, start, |label, step| {
            let rate = Reverse(step.link.bandwidth_from(step.from));
            self.allows(step).then(|| label.max(rate))
        })
    }

    /// The quickest paths over links of at least `floor`.
    fn quickest_over(&self, floor: BytesPerSec) -> Tree<Quickness> {
        Tree::search(self.machine, self.source, START, |label, step| {
            let rate = step.link.bandwidth_from(step.from);
            if rate < floor || !self.allows(step) {
                return None;
            }
            let (latency, Reverse(width), hops) = label;
            let latency = latency
                .saturating_add(self.time_inside(step.from))
                .saturating_add(step.link.latency);
            Some((latency, Reverse(width.min(rate)), hops.saturating_add(1)))
        })
    }

    fn allows(&self, step: &Step<'_>) -> bool {
        let endpoint = self.machine.kind(step.from).is_endpoint();
        if step.from != self.source && endpoint && self.transit == Transit::HostOnly {
            return false;
        }
        match self.medium {
            Medium::Fabric => step.link.kind.is_fabric(),
            Medium::Host => !step.link.kind.is_fabric(),
            Medium::Any => true,
        }
    }

    fn time_inside(&self, node: NodeId) -> Nanos {
        if node == self.source {
            return Nanos::ZERO;
        }
        defaults::transit_latency(self.machine.kind(node))
    }
}

fn path(tree: &Tree<Quickness>, to: NodeId) -> Option<Path> {
    let (latency, Reverse(bottleneck), _) = tree.label(to)?;
    Some(Path {
        links: tree.path_to(to),
        bottleneck,
        latency,
    })
}

impl Machine {
    /// The bottleneck of the widest path of each ordered pair of devices, `None` where there is none.
    /// A device reaches itself without any limit.
    #[must_use]
    pub fn bandwidths(&self, transit: Transit) -> Matrix<Option<BytesPerSec>> {
        let devices = self.devices();
        Matrix::by_rows(
            devices.len(),
            |row| Paths::new(self, devices[row], Medium::Any, transit).widest(devices),
            |paths, column| paths[column].as_ref().map(|path| path.bottleneck),
        )
    }

    /// The latency of the quickest path of each ordered pair of devices, `None` where there is none.
    #[must_use]
    pub fn latencies(&self, transit: Transit) -> Matrix<Option<Nanos>> {
        let devices = self.devices();
        Matrix::by_rows(
            devices.len(),
            |row| Paths::new(self, devices[row], Medium::Any, transit).quickest(devices),
            |paths, column| paths[column].as_ref().map(|path| path.latency),
        )
    }
}
