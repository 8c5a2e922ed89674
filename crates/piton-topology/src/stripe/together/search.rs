//! The cheapest paths at present prices, over which devices may send.
//!
//! Whether a path may reach a device depends on the device that it set out from last. So where peer access is refused anywhere a
//! place of the search is a node and that device; where it is not, a node alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Ground, Market};
use crate::id::{DeviceId, NodeId};
use crate::node::NodeKind;
use crate::stripe::dinic::Arc;

/// What a search found: for each place its price, and the arc and place it was reached by.
pub(super) struct Found {
    prices: Vec<f64>,
    came_by: Vec<Option<(Arc, usize)>>,
}

impl Found {
    /// What one byte to a device pays; `None` where there is no path with room.
    pub(super) fn price(&self, sink: NodeId) -> Option<f64> {
        let price = self.prices[sink.index()];
        (price < f64::MAX).then_some(price)
    }

    /// The directions of the path to a device.
    pub(super) fn path(&self, sink: NodeId) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = sink.index();
        while let Some((arc, from)) = self.came_by[at] {
            path.push(arc.direction);
            at = from;
        }
        path.reverse();
        path
    }
}

impl Ground<'_> {
    fn device(&self, node: NodeId) -> Option<DeviceId> {
        match self.kinds[node.index()] {
            NodeKind::Device(device) => Some(device),
            _ => None,
        }
    }

    /// Whether each device of a path may access the next one's memory.
    pub(super) fn allows(&self, (source, sink): (NodeId, NodeId), through: &[NodeId]) -> bool {
        let nodes = [&[source], through, &[sink]].concat();
        let devices = nodes.iter().filter_map(|node| self.device(*node));
        let devices: Vec<DeviceId> = devices.collect();
        let legs = devices.windows(2);
        legs.into_iter()
            .all(|leg| self.peers.allows(leg[0], leg[1]))
    }

    /// Whether any device may not access another.
    pub(super) fn refuses_any(&self) -> bool {
        let devices = self.kinds.iter().filter_map(|kind| match kind {
            NodeKind::Device(device) => Some(*device),
            _ => None,
        });
        let devices: Vec<DeviceId> = devices.collect();
        let refuses = |from: &DeviceId| devices.iter().any(|to| !self.peers.allows(*from, *to));
        devices.iter().any(refuses)
    }

    /// The devices that a path sets out from: its source, and those on it.
    pub(super) fn starts(&self, source: NodeId, directions: &[u32]) -> Vec<NodeId> {
        let through = self.arcs.flow_path(source, directions, 0).through;
        let relays = through.into_iter();
        let relays = relays.filter(|node| self.device(*node).is_some());
        std::iter::once(source).chain(relays).collect()
    }

    /// Whether bytes that last set out from one device may be sent to a node.
    fn may_reach(&self, last: NodeId, node: NodeId) -> bool {
        match (self.device(last), self.device(node)) {
            (Some(from), Some(to)) => self.peers.allows(from, to),
            _ => true,
        }
    }
}

impl Market<'_> {
    /// The price of reaching nodes, until all of so many `wanted` devices are reached.
    pub(super) fn cheapest(
        &self,
        source: NodeId,
        wanted: usize,
        is_wanted: impl Fn(NodeId) -> bool,
    ) -> Found {
        let ground = self.ground;
        let nodes = ground.arcs.nodes();
        let is_device = |node: NodeId| ground.device(node).is_some();
        // A device has one place, since the path sets out from it anew; so the first `nodes` places are the devices'.
        let place = |node: NodeId, last: NodeId| {
            let layer = if self.is_refused && !is_device(node) {
                last.index()
            } else {
                0
            };
            layer * nodes + node.index()
        };
        let places = if self.is_refused {
            nodes * nodes
        } else {
            nodes
        };
        let mut found = Found {
            prices: vec![f64::MAX; places],
            came_by: vec![None; places],
        };
        found.prices[source.index()] = 0.0;
        let mut left = wanted;
        // Prices are above zero, so their bits sort as they do.
        let mut queue = BinaryHeap::from([Reverse((0_u64, source, source))]);
        while let Some(Reverse((bits, node, last))) = queue.pop() {
            let (price, from) = (f64::from_bits(bits), place(node, last));
            if price > found.prices[from] {
                continue;
            }
            left -= usize::from(is_wanted(node));
            if left == 0 {
                break;
            }
            if node != source && !ground.arcs.is_passable(node) {
                continue;
            }
            let last = if is_device(node) { node } else { last };
            let price = price + self.price_of_engines(node);
            for arc in ground.arcs.of(node) {
                let (next, to) = (price + self.prices[arc.index()], place(arc.to, last));
                let has_room = self.rates[arc.index()] > 0 && next < found.prices[to];
                if has_room && ground.may_reach(last, arc.to) {
                    found.prices[to] = next;
                    found.came_by[to] = Some((*arc, from));
                    queue.push(Reverse((next.to_bits(), arc.to, last)));
                }
            }
        }
        found
    }

    fn price_of_engines(&self, node: NodeId) -> f64 {
        self.engines[node.index()].map_or(0.0, |at| self.prices[at as usize])
    }
}
