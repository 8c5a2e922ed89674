//! Maximum flow by Dinic's algorithm, over the directions of links.
//!
//! Direction `2 × link` leads from the link's `a` to its `b`, the next one back: what flows one way may be
//! taken back by the other, so each is the other's residual arc and nothing is stored twice.

use crate::id::{LinkId, NodeId};
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::path::Transit;

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) direction: u32,
    pub(super) to: NodeId,
}

impl Arc {
    pub(super) const fn index(self) -> usize {
        self.direction as usize
    }

    pub(super) const fn link(self) -> LinkId {
        LinkId::new(self.direction / 2)
    }
}

/// The directions leading away from each node.
#[derive(Clone, Debug)]
pub(super) struct Arcs {
    offsets: Vec<usize>,
    arcs: Vec<Arc>,
    /// Whether a flow may pass through a node.
    passable: Vec<bool>,
}

const UNREACHED: u32 = u32::MAX;

/// How far the search for augmenting paths has come.
struct Search {
    levels: Vec<u32>,
    /// The next arc to try, by node.
    next: Vec<usize>,
    queue: Vec<NodeId>,
    path: Vec<(Arc, NodeId)>,
}

impl Arcs {
    pub(super) fn new(machine: &Machine, transit: Transit) -> Self {
        let mut offsets = vec![0];
        let mut arcs = Vec::with_capacity(2 * machine.links().len());
        for node in machine.node_ids() {
            for &(link, to) in machine.neighbours(node) {
                let back = machine.link(link).is_some_and(|link| link.a != node);
                let direction = link.get() * 2 + u32::from(back);
                arcs.push(Arc { direction, to });
            }
            offsets.push(arcs.len());
        }
        let passable = |id| match machine.kind(id) {
            NodeKind::Nic => false,
            NodeKind::Device(_) => transit == Transit::Devices,
            _ => true,
        };
        Self {
            offsets,
            arcs,
            passable: machine.node_ids().map(passable).collect(),
        }
    }

    /// The arcs leading away from a node.
    pub(super) fn of(&self, node: NodeId) -> &[Arc] {
        &self.arcs[self.offsets[node.index()]..self.offsets[node.index() + 1]]
    }

    pub(super) fn is_passable(&self, node: NodeId) -> bool {
        self.passable[node.index()]
    }

    pub(super) fn nodes(&self) -> usize {
        self.passable.len()
    }

    /// Sends as much as it can, at most `limit`, from `source` to another node; takes it from `rates`.
    pub(super) fn max_flow(
        &self,
        rates: &mut [u64],
        source: NodeId,
        sink: NodeId,
        limit: u64,
    ) -> u64 {
        let mut search = Search {
            levels: vec![UNREACHED; self.nodes()],
            next: vec![0; self.nodes()],
            queue: Vec::with_capacity(self.nodes()),
            path: Vec::new(),
        };
        let mut flow = 0;
        while flow < limit && self.find_levels(rates, source, sink, &mut search) {
            while flow < limit {
                let sent = self.augment(rates, source, sink, limit - flow, &mut search);
                if sent == 0 {
                    break;
                }
                flow += sent;
            }
        }
        flow
    }

    /// How many arcs with room lead to each node; whether any lead to `sink`.
    fn find_levels(
        &self,
        rates: &[u64],
        source: NodeId,
        sink: NodeId,
        search: &mut Search,
    ) -> bool {
        search.levels.fill(UNREACHED);
        search.next.fill(0);
        search.queue.clear();
        search.queue.push(source);
        search.levels[source.index()] = 0;
        let mut looked = 0;
        while let Some(&node) = search.queue.get(looked) {
            looked += 1;
            let level = search.levels[node.index()] + 1;
            // Nothing behind the sink's level is of use.
            if search.levels[sink.index()] <= level {
                continue;
            }
            for arc in self.of(node) {
                let to = arc.to.index();
                if rates[arc.index()] == 0 || search.levels[to] != UNREACHED {
                    continue;
                }
                if arc.to == sink || self.passable[to] {
                    search.levels[to] = level;
                    search.queue.push(arc.to);
                }
            }
        }
        search.levels[sink.index()] != UNREACHED
    }

    /// Sends what one path carries; 0 if none is left on these levels.
    fn augment(
        &self,
        rates: &mut [u64],
        source: NodeId,
        sink: NodeId,
        limit: u64,
        search: &mut Search,
    ) -> u64 {
        search.path.clear();
        let mut at = source;
        while at != sink {
            let arcs = self.of(at);
            let level = search.levels[at.index()] + 1;
            let onward = arcs[search.next[at.index()]..]
                .iter()
                .position(|arc| rates[arc.index()] > 0 && search.levels[arc.to.index()] == level);
            if let Some(skipped) = onward {
                search.next[at.index()] += skipped;
                let arc = arcs[search.next[at.index()]];
                search.path.push((arc, at));
                at = arc.to;
                continue;
            }
            search.next[at.index()] = arcs.len();
            let Some((_, from)) = search.path.pop() else {
                return 0;
            };
            search.next[from.index()] += 1;
            at = from;
        }
        let widths = search.path.iter().map(|(arc, _)| rates[arc.index()]);
        let sent = widths.min().unwrap_or(0).min(limit);
        for (arc, _) in &search.path {
            rates[arc.index()] -= sent;
            rates[arc.index() ^ 1] = rates[arc.index() ^ 1].saturating_add(sent);
        }
        sent
    }
}
