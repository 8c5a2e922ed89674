//! The nearest path of each pair: fewest links first, then the widest.
//!
//! It is the path behind the word of the matrix (`NV4`, `PIX`), and the one that communication libraries
//! take. A copy may do better: [`Router`](crate::Router).

use std::cmp::Reverse;

use crate::id::{LinkId, NodeId};
use crate::machine::Machine;
use crate::matrix::Matrix;
use crate::node::NodeKind;
use crate::quantity::BytesPerSec;
use crate::search::Tree;

/// A pair's nearest path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestPath {
    /// Its links in order.
    pub links: Box<[LinkId]>,
    /// The least rate of any of them.
    pub bottleneck: BytesPerSec,
}

impl Machine {
    /// The nearest path of each ordered pair of `nodes`, through no other device; `None` for a node and itself
    /// and where there is no path.
    #[must_use]
    pub fn nearest_paths(&self, nodes: &[NodeId]) -> Matrix<Option<NearestPath>> {
        Matrix::by_rows(
            nodes.len(),
            |row| self.nearest_from(nodes[row]),
            |tree, column| {
                let (_, Reverse(bottleneck)) = tree.as_ref()?.label(nodes[column])?;
                let links = tree.as_ref()?.path_to(nodes[column]).into_boxed_slice();
                (!links.is_empty()).then_some(NearestPath { links, bottleneck })
            },
        )
    }

    fn nearest_from(&self, source: NodeId) -> Option<Tree<(u16, Reverse<BytesPerSec>)>> {
        self.node(source)?;
        let start = (0, Reverse(BytesPerSec::MAX));
        Some(Tree::search(self, source, start, |label, step| {
            let from = self.kind(step.from);
            if step.from != source && from.is_endpoint() {
                return None;
            }
            let (links, Reverse(width)) = label;
            let rate = step.link.bandwidth_from(step.from);
            // A host bridge with its memory is one place here: tools count neither the link between
            // them nor who has one and who several.
            let is_inside = step.link.kind == crate::link::LinkKind::MemoryBus
                && matches!(from, NodeKind::Memory(_) | NodeKind::HostBridge);
            let links = if is_inside { links } else { links + 1 };
            Some((links, Reverse(width.min(rate))))
        }))
    }
}
