//! What comes before what in a list of nodes, and the edges that say no more than others do.

/// Lists longer than this keep all their edges: the table of what comes before what would take more than 8 MiB.
const MOST_REDUCED: usize = 8192;

/// For each node, the set of nodes it comes after, directly or not.
#[derive(Debug)]
pub(crate) struct Order {
    words: usize,
    before: Vec<u64>,
    count: usize,
}

impl Order {
    /// The order that `after` makes, which names earlier nodes only.
    pub(crate) fn of<'a>(after: impl ExactSizeIterator<Item = &'a [u32]>) -> Self {
        let count = after.len();
        let words = count.div_ceil(64);
        let mut order = Self {
            words,
            before: vec![0; words * count],
            count,
        };
        for (node, after) in after.enumerate() {
            for &earlier in after {
                order.follow(node, earlier as usize);
            }
        }
        order
    }

    /// Whether a list of this length has an order worth its memory.
    pub(crate) fn is_affordable(count: usize) -> bool {
        count <= MOST_REDUCED
    }

    fn follow(&mut self, node: usize, earlier: usize) {
        if earlier >= node || node >= self.count {
            return;
        }
        let (past, own) = self.before.split_at_mut(node * self.words);
        let past = &past[earlier * self.words..(earlier + 1) * self.words];
        for (own, past) in own.iter_mut().zip(past) {
            *own |= past;
        }
        own[earlier / 64] |= 1 << (earlier % 64);
    }

    /// Whether `node` comes after `earlier`.
    pub(crate) fn precedes(&self, earlier: usize, node: usize) -> bool {
        let word = self.before.get(node * self.words + earlier / 64);
        earlier < self.count && word.is_some_and(|word| word >> (earlier % 64) & 1 == 1)
    }

    /// The edges of a node that the others do not imply.
    pub(crate) fn reduced(&self, after: &[u32]) -> Vec<u32> {
        let is_implied = |edge: u32| {
            let mut others = after.iter().filter(|other| **other != edge);
            others.any(|other| self.precedes(edge as usize, *other as usize))
        };
        let mut kept: Vec<u32> = after.to_vec();
        kept.retain(|edge| !is_implied(*edge));
        kept.sort_unstable();
        kept.dedup();
        kept
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn order(lists: &[Vec<u32>]) -> Order {
        Order::of(lists.iter().map(Vec::as_slice))
    }

    /// What comes before each node, by walking.
    fn walked(lists: &[Vec<u32>]) -> Vec<Vec<bool>> {
        let mut all = Vec::new();
        for start in 0..lists.len() {
            let mut seen = vec![false; lists.len()];
            let mut open = lists[start].clone();
            while let Some(node) = open.pop() {
                if !std::mem::replace(&mut seen[node as usize], true) {
                    open.extend(&lists[node as usize]);
                }
            }
            all.push(seen);
        }
        all
    }

    #[test]
    fn an_edge_that_others_imply_goes() {
        let lists = [vec![], vec![0], vec![0, 1], vec![0, 1, 2]];
        let order = order(&lists);
        assert_eq!(order.reduced(&lists[3]), [2]);
        assert_eq!(order.reduced(&lists[2]), [1]);
        assert_eq!(order.reduced(&[0, 0]), [0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn reduction_keeps_the_order_and_nothing_more(raw in vec(vec(any::<prop::sample::Index>(), 0..6), 1..80)) {
            let lists: Vec<Vec<u32>> = raw.iter().enumerate().map(|(node, edges)| {
                let earlier = edges.iter().filter(|_| node > 0);
                earlier.map(|index| u32::try_from(index.index(node)).unwrap_or(0)).collect()
            }).collect();
            let before = order(&lists);
            let expected = walked(&lists);
            for (node, row) in expected.iter().enumerate() {
                for (earlier, is_before) in row.iter().enumerate() {
                    prop_assert_eq!(before.precedes(earlier, node), *is_before);
                }
            }
            let reduced: Vec<_> = lists.iter().map(|after| before.reduced(after)).collect();
            prop_assert_eq!(walked(&reduced), expected);
            for node in 0..reduced.len() {
                for gone in reduced[node].clone() {
                    let mut fewer = reduced.clone();
                    fewer[node].retain(|edge| *edge != gone);
                    prop_assert_ne!(walked(&fewer), walked(&reduced));
                }
            }
        }
    }
}
