//! Shortest paths over the machine's graph, whatever "short" means.
//!
//! One search (Dijkstra's) serves every question: how far apart two nodes are in classes, which path
//! is widest, which has the least latency. The question is a *label*: an ordered value that a step
//! over a link may only keep or make larger. Smaller is better.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::{LinkId, NodeId};
use crate::link::Link;
use crate::machine::Machine;

/// One step of a search: over `link`, away from `from`.
pub(crate) struct Step<'a> {
    pub(crate) link: &'a Link,
    pub(crate) from: NodeId,
}

/// What a search found: for each node its best label and the step that gave it.
pub(crate) struct Tree<L> {
    best: Vec<Option<L>>,
    came_by: Vec<Option<(LinkId, NodeId)>>,
}

impl<L: Copy + Ord> Tree<L> {
    /// Searches from `source`, which has label `start`. `advance` gives the label after a step, or
    /// `None` where the step is not allowed; it must never give a smaller label than it was given.
    pub(crate) fn search(
        machine: &Machine,
        source: NodeId,
        start: L,
        advance: impl Fn(L, &Step<'_>) -> Option<L>,
    ) -> Self {
        let nodes = machine.nodes().len();
        let mut tree = Self {
            best: vec![None; nodes],
            came_by: vec![None; nodes],
        };
        tree.best[source.index()] = Some(start);
        let mut queue = BinaryHeap::from([Reverse((start, source))]);
        while let Some(Reverse((label, from))) = queue.pop() {
            // A better label reached this node after the entry was queued.
            if tree.best[from.index()] != Some(label) {
                continue;
            }
            for &(id, to) in machine.neighbours(from) {
                let link = &machine.links()[id.index()];
                let Some(next) = advance(label, &Step { link, from }) else {
                    continue;
                };
                if tree.best[to.index()].is_none_or(|known| next < known) {
                    tree.best[to.index()] = Some(next);
                    tree.came_by[to.index()] = Some((id, from));
                    queue.push(Reverse((next, to)));
                }
            }
        }
        tree
    }

    /// The best label of a node, or `None` if it was not reached.
    pub(crate) fn label(&self, node: NodeId) -> Option<L> {
        self.best.get(node.index()).copied().flatten()
    }

    /// The links from the source to `node`, in order. Empty for the source and for unreached nodes.
    pub(crate) fn path_to(&self, node: NodeId) -> Vec<LinkId> {
        let mut links = Vec::new();
        let mut at = node;
        while let Some((link, from)) = self.came_by[at.index()] {
            links.push(link);
            at = from;
        }
        links.reverse();
        links
    }
}
