//! Takes a flow apart into paths.
//!
//! A walk from the source follows whatever flows until it is at the sink; that is a path, as wide as its
//! narrowest arc, and the flow is less by it. A walk that comes back to where it was went round a circle, which
//! carries nothing to anybody: it is taken off and the walk goes on.

use super::dinic::{Arc, Arcs};
use crate::id::{LinkId, NodeId};

/// One path of a flow.
pub(super) struct FlowPath {
    pub(super) links: Vec<LinkId>,
    /// The nodes between the two ends.
    pub(super) through: Vec<NodeId>,
    pub(super) rate: u64,
}

/// The paths of the flow that turned the rates `before` into those `after`.
pub(super) fn paths(
    arcs: &Arcs,
    before: &[u64],
    after: &[u64],
    source: NodeId,
    sink: NodeId,
) -> Vec<FlowPath> {
    let flows = before.iter().zip(after);
    let mut walk = Walk {
        arcs,
        flow: flows
            .map(|(before, after)| before.saturating_sub(*after))
            .collect(),
        next: vec![0; arcs.nodes()],
        place: vec![None; arcs.nodes()],
        path: Vec::new(),
    };
    let mut paths = Vec::new();
    while let Some(path) = walk.path(source, sink) {
        paths.push(path);
    }
    paths
}

impl Arcs {
    /// The directions of a path that leads from `source` over `links`.
    pub(super) fn directions(&self, source: NodeId, links: &[LinkId]) -> Vec<u32> {
        let mut at = source;
        let directions = links.iter().map_while(|link| {
            let arc = self.of(at).iter().find(|arc| arc.link() == *link)?;
            at = arc.to;
            Some(arc.direction)
        });
        directions.collect()
    }

    /// The path that leads from `source` over `directions`.
    pub(super) fn flow_path(&self, source: NodeId, directions: &[u32], rate: u64) -> FlowPath {
        let mut path = FlowPath {
            links: Vec::with_capacity(directions.len()),
            through: Vec::new(),
            rate,
        };
        let mut at = source;
        for &direction in directions {
            if at != source {
                path.through.push(at);
            }
            let arc = self.of(at).iter().find(|arc| arc.direction == direction);
            let Some(arc) = arc else { break };
            path.links.push(arc.link());
            at = arc.to;
        }
        path
    }
}

struct Walk<'a> {
    arcs: &'a Arcs,
    /// What is left of the flow, by direction.
    flow: Vec<u64>,
    /// The first arc of a node over which something may flow; never goes back, as flow only gets less.
    next: Vec<usize>,
    /// Where on the path a node is.
    place: Vec<Option<usize>>,
    path: Vec<(Arc, NodeId)>,
}

impl Walk<'_> {
    fn path(&mut self, source: NodeId, sink: NodeId) -> Option<FlowPath> {
        self.path.clear();
        self.place.fill(None);
        let mut at = source;
        while at != sink {
            if let Some(place) = self.place[at.index()] {
                self.cut_circle(place);
            }
            self.place[at.index()] = Some(self.path.len());
            let arc = self.arc_from(at)?;
            self.path.push((arc, at));
            at = arc.to;
        }
        let rate = self.take(0);
        Some(FlowPath {
            links: self.path.iter().map(|(arc, _)| arc.link()).collect(),
            through: self.path.iter().skip(1).map(|(_, from)| *from).collect(),
            rate,
        })
    }

    fn arc_from(&mut self, node: NodeId) -> Option<Arc> {
        let arcs = self.arcs.of(node);
        let next = &mut self.next[node.index()];
        while let Some(arc) = arcs.get(*next) {
            if self.flow[arc.index()] > 0 {
                return Some(*arc);
            }
            *next += 1;
        }
        None
    }

    /// Takes the narrowest of the path from `place` on off all of it.
    fn take(&mut self, place: usize) -> u64 {
        let path = &self.path[place..];
        let rates = path.iter().map(|(arc, _)| self.flow[arc.index()]);
        let rate = rates.min().unwrap_or(0);
        for (arc, _) in path {
            self.flow[arc.index()] -= rate;
        }
        rate
    }

    fn cut_circle(&mut self, place: usize) {
        self.take(place);
        for (_, node) in self.path.drain(place..) {
            self.place[node.index()] = None;
        }
    }
}
