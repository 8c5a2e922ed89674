//! The links of each node, in one flat array (compressed sparse rows).

use crate::id::{LinkId, NodeId};
use crate::link::Link;

/// For each node, its links and the node at the other end.
///
/// # Invariants
/// `offsets` has one entry a node and one more, does not decrease, and ends at `edges.len()`; the
/// edges of node `n` are `edges[offsets[n]..offsets[n + 1]]`, by link id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adjacency {
    offsets: Vec<usize>,
    edges: Vec<(LinkId, NodeId)>,
}

impl Adjacency {
    /// Sorts the ends of `links`, which must all be below `nodes`, by node.
    pub(crate) fn new(nodes: usize, links: &[Link]) -> Self {
        let mut ends: Vec<(NodeId, LinkId, NodeId)> = (0..)
            .map(LinkId::new)
            .zip(links)
            .flat_map(|(id, link)| [(link.a, id, link.b), (link.b, id, link.a)])
            .collect();
        ends.sort_unstable();
        let mut offsets = vec![0; nodes + 1];
        for (node, ..) in &ends {
            offsets[node.index() + 1] += 1;
        }
        for node in 0..nodes {
            offsets[node + 1] += offsets[node];
        }
        let edges = ends.into_iter().map(|(_, link, to)| (link, to)).collect();
        Self { offsets, edges }
    }

    /// The links of `node`, each with its other end. Empty for a node that does not exist.
    pub(crate) fn of(&self, node: NodeId) -> &[(LinkId, NodeId)] {
        let range = self.offsets.get(node.index()..node.index() + 2);
        range.map_or(&[], |range| &self.edges[range[0]..range[1]])
    }
}
