//! A set of a graph's nodes: a bit each.

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct NodeSet(Vec<u64>);

impl NodeSet {
    /// No nodes, of a graph of `nodes`.
    pub(crate) fn new(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, node: u32) {
        if let Some(word) = self.0.get_mut(node as usize / 64) {
            *word |= 1 << (node % 64);
        }
    }

    pub(crate) fn contains(&self, node: u32) -> bool {
        let word = self.0.get(node as usize / 64);
        word.is_some_and(|word| word & (1 << (node % 64)) != 0)
    }

    /// All that is in `other` is in it too.
    pub(crate) fn join(&mut self, other: &Self) {
        for (word, others) in self.0.iter_mut().zip(&other.0) {
            *word |= others;
        }
    }
}
