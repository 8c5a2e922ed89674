//! What a graph touches, and which of its nodes no edge orders.
//!
//! # The idea
//! A replay is one command, so to the rest of the program a graph is all that its nodes touch, each with its own
//! place. Among themselves the nodes are a program of their own, with edges instead of streams, and that is the same
//! at every replay: it is looked at once.
//!
//! # Invariants
//! Parts are numbered as [`ExecutableGraph::update`](piton_driver::ExecutableGraph::update) numbers nodes: in order,
//! those of a body right behind the node they belong to. A part comes after lower numbers only.

use crate::{
    Footprint, Report, Site, Space,
    node_set::NodeSet,
    shadow::{Past, Shadow},
    uses::{Doer, Reach},
};
use piton_driver::{Command, DeviceId, GraphNode, Launch, NodeWork, Operation, Origin};
use piton_timeline::{LaneId, Timepoint};

/// Nodes up to here are compared with each other: what comes before each is a bit a node, 32 MiB in all.
const MOST_COMPARED: usize = 1 << 14;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operation: Operation,
    pub(crate) origin: Origin,
    pub(crate) footprint: Footprint,
    /// The node whose body it is in.
    within: Option<u32>,
    /// The nodes of its list that it comes after.
    after: Vec<u32>,
    /// The number behind those of its body.
    end: u32,
}

/// What a graph's nodes touch, and their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphFootprint {
    device: DeviceId,
    parts: Vec<Part>,
}

impl GraphFootprint {
    /// Of nodes as a device is given them.
    pub fn of(nodes: &[GraphNode], device: DeviceId) -> Self {
        let mut graph = Self {
            device,
            parts: Vec::new(),
        };
        graph.list(nodes, None);
        graph
    }

    /// A node was given other ends or arguments.
    pub fn update(&mut self, node: u32, work: &NodeWork) {
        let footprint = footprint(work, self.device);
        if let Some(part) = self.parts.get_mut(node as usize) {
            part.footprint = footprint;
        }
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Nodes that touch the same bytes and that no edge orders; nothing for graphs too large to compare.
    pub(crate) fn races(&self, reach: Reach<'_>) -> Vec<Report> {
        let mut met = Vec::new();
        if self.parts.len() > MOST_COMPARED {
            return met;
        }
        let (mut shadow, before) = (Shadow::default(), self.before());
        for (number, (part, before)) in (0..).zip(self.parts.iter().zip(&before)) {
            let past = Past::Graph { number, before };
            let doer = Doer {
                point: at(number),
                label: None,
                operation: part.operation,
                origin: part.origin,
            };
            let uses = doer.uses(&part.footprint, reach).into_iter().flatten();
            uses.for_each(|used| shadow.note(used, past, &mut met));
        }
        met.iter_mut().for_each(unplace);
        met
    }

    fn list(&mut self, nodes: &[GraphNode], within: Option<u32>) {
        let mut numbers = Vec::with_capacity(nodes.len());
        for node in nodes {
            let number = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            numbers.push(number);
            let named = node.after.iter().filter_map(|n| numbers.get(*n as usize));
            self.parts.push(Part {
                operation: node.work.operation(),
                origin: node.origin,
                footprint: footprint(&node.work, self.device),
                within,
                after: named.copied().filter(|other| *other != number).collect(),
                end: number,
            });
            self.list(node.work.body().unwrap_or_default(), Some(number));
            let end = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            self.parts[number as usize].end = end;
        }
    }

    /// What comes before each node: what comes before the node it is in the body of, that node's look at its
    /// condition, and what its edges name, bodies and all.
    fn before(&self) -> Vec<NodeSet> {
        let mut sets: Vec<NodeSet> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let mut set = NodeSet::new(self.parts.len());
            for &other in part.within.iter().chain(&part.after) {
                set.insert(other);
                set.join(&sets[other as usize]);
            }
            for &other in &part.after {
                let body = other + 1..self.parts[other as usize].end;
                body.for_each(|inner| set.insert(inner));
            }
            sets.push(set);
        }
        sets
    }
}

/// What a node itself touches; what its body does is the body's.
fn footprint(work: &NodeWork, device: DeviceId) -> Footprint {
    match work {
        NodeWork::If { condition, .. } | NodeWork::While { condition, .. } => {
            Footprint::default().read(Space::Device(device), *condition, 4)
        }
        work => command(work).map_or_else(Footprint::default, |it| Footprint::of(&it, device)),
    }
}

/// The node as a command; `None` for those that touch no memory.
fn command(work: &NodeWork) -> Option<Command<'_>> {
    Some(match *work {
        NodeWork::Launch {
            ref kernel,
            grid,
            ref arguments,
            ref extents,
        } => Command::Launch(Launch {
            kernel,
            grid,
            arguments,
            extents,
        }),
        NodeWork::CopyToDevice { dst, src, bytes } => Command::CopyToDevice { dst, src, bytes },
        NodeWork::CopyToHost { dst, src, bytes } => Command::CopyToHost { dst, src, bytes },
        NodeWork::CopyOnDevice { dst, src, bytes } => Command::CopyOnDevice { dst, src, bytes },
        NodeWork::CopyPeer { dst, src, bytes } => Command::CopyPeer { dst, src, bytes },
        NodeWork::Fill {
            dst,
            pattern,
            bytes,
        } => Command::Fill {
            dst,
            pattern,
            bytes,
        },
        _ => return None,
    })
}

/// A node stands for a lane with one command while nodes are compared.
fn at(number: u32) -> Timepoint {
    let lane = LaneId {
        index: number,
        generation: 0,
    };
    Timepoint { lane, seq: 1 }
}

/// Nodes are on no stream.
fn unplace(report: &mut Report) {
    let unplace = |site: &mut Site| site.point = None;
    unplace(&mut report.first);
    unplace(&mut report.second);
    report.ordered_up_to = None;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Hazard;
    use piton_driver::{Access, DevicePtr, FillPattern};
    use std::panic::Location;

    fn node(work: NodeWork, after: &[u32]) -> GraphNode {
        GraphNode {
            work,
            after: after.to_vec(),
            origin: Location::caller(),
        }
    }

    fn fill(at: u64) -> NodeWork {
        NodeWork::Fill {
            dst: DevicePtr::new(at),
            pattern: FillPattern::Byte(0),
            bytes: 8,
        }
    }

    fn races(nodes: &[GraphNode]) -> Vec<Hazard> {
        let graph = GraphFootprint::of(nodes, DeviceId(0));
        let races = graph.races(&|_, _| None);
        assert!(races.iter().all(|race| race.first.point.is_none()));
        races.iter().map(|race| race.kind).collect()
    }

    #[test]
    fn nodes_that_edges_order_do_not_race_and_others_do() {
        let chain = [node(fill(0), &[]), node(fill(8), &[0]), node(fill(0), &[1])];
        assert_eq!(races(&chain), []);
        let apart = [node(fill(0), &[]), node(fill(8), &[]), node(fill(0), &[1])];
        assert_eq!(races(&apart), [Hazard::WriteWrite]);
    }

    #[test]
    fn a_body_comes_after_its_condition_and_before_what_comes_after_its_node() {
        let condition = DevicePtr::new(0);
        let choice = |after: &[u32]| {
            let body = vec![node(fill(0), &[]), node(fill(8), &[])];
            node(NodeWork::While { condition, body }, after)
        };
        let ordered = [node(fill(0), &[]), choice(&[0]), node(fill(8), &[1])];
        assert_eq!(races(&ordered), []);
        // The body's second node against the last, which only comes after the start.
        let loose = [node(fill(0), &[]), choice(&[0]), node(fill(8), &[0])];
        assert_eq!(races(&loose), [Hazard::WriteWrite]);
    }

    #[test]
    fn an_update_is_of_the_node_it_names() {
        let body = vec![node(fill(8), &[])];
        let condition = DevicePtr::new(64);
        let nodes = [
            node(NodeWork::If { condition, body }, &[]),
            node(fill(16), &[]),
        ];
        let mut graph = GraphFootprint::of(&nodes, DeviceId(0));
        assert_eq!(graph.races(&|_, _| None), []);
        graph.update(1, &fill(16));
        assert_eq!(graph.races(&|_, _| None).len(), 1);
        assert_eq!(graph.parts()[0].footprint.touched()[0].access, Access::Read);
    }
}
