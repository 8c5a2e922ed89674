//! Where private chunks lie in their block: apart if they live at the same time, over each other if they do not.
//!
//! # The rule
//! A chunk lives from the first node that names it to the last. Two chunks may share bytes if every node that names
//! the one comes before every node that names the other. Nodes of a body count as the node they belong to: a loop
//! runs its body again, so within it everything lives at once.
//!
//! Placed by first fit, the largest first. That is not always the smallest block (finding it is as hard as packing
//! bins), and mostly is.

use crate::order::Order;

/// Offsets are multiples of this: what kernels may want of a vector's address.
const ALIGNMENT: u64 = 256;

/// One private chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifetime {
    pub(crate) bytes: u64,
    /// The nodes of the outermost list that name it, or whose body does. Ascending.
    pub(crate) uses: Vec<u32>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Where each chunk starts in the block.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of the block.
    pub(crate) bytes: u64,
}

impl Layout {
    /// Places chunks; without an order all of them live at once.
    pub(crate) fn of(lifetimes: &[Lifetime], order: Option<&Order>) -> Self {
        let mut layout = Self {
            offsets: vec![0; lifetimes.len()],
            bytes: 0,
        };
        let mut largest_first: Vec<usize> = (0..lifetimes.len()).collect();
        largest_first.sort_by_key(|index| std::cmp::Reverse(lifetimes[*index].bytes));
        let mut placed: Vec<usize> = Vec::new();
        for index in largest_first {
            let own = &lifetimes[index];
            let taken = placed
                .iter()
                .filter(|other| conflict(own, &lifetimes[**other], order))
                .map(|other| {
                    let start = layout.offsets[*other];
                    (start, start + lifetimes[*other].bytes)
                });
            let start = first_fit(taken.collect(), own.bytes);
            layout.offsets[index] = start;
            layout.bytes = layout.bytes.max(start + own.bytes);
            placed.push(index);
        }
        debug_assert!(layout.check(lifetimes, order), "{layout:?}");
        layout
    }

    /// Whether chunks that live at the same time lie apart, aligned, within the block.
    pub(crate) fn check(&self, lifetimes: &[Lifetime], order: Option<&Order>) -> bool {
        let range = |index: usize| {
            let start = self.offsets[index];
            (start, start + lifetimes[index].bytes)
        };
        let is_well = |index: usize| {
            let (start, end) = range(index);
            let apart = (0..index).all(|other| {
                let (other_start, other_end) = range(other);
                end <= other_start
                    || other_end <= start
                    || !conflict(&lifetimes[index], &lifetimes[other], order)
            });
            start.is_multiple_of(ALIGNMENT) && end <= self.bytes && apart
        };
        self.offsets.len() == lifetimes.len() && (0..lifetimes.len()).all(is_well)
    }
}

/// The lowest place for `bytes` bytes beside these ranges.
fn first_fit(mut taken: Vec<(u64, u64)>, bytes: u64) -> u64 {
    taken.sort_unstable();
    let mut start: u64 = 0;
    for (other_start, other_end) in taken {
        if start.saturating_add(bytes) <= other_start {
            break;
        }
        start = start.max(other_end.next_multiple_of(ALIGNMENT));
    }
    start
}

/// Whether two chunks may live at the same time.
fn conflict(a: &Lifetime, b: &Lifetime, order: Option<&Order>) -> bool {
    let Some(order) = order else {
        return true;
    };
    let all_before = |first: &Lifetime, second: &Lifetime| {
        let mut pairs = first
            .uses
            .iter()
            .flat_map(|from| second.uses.iter().map(move |to| (*from, *to)));
        pairs.all(|(from, to)| order.precedes(from as usize, to as usize))
    };
    !all_before(a, b) && !all_before(b, a)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn lifetime(bytes: u64, uses: &[u32]) -> Lifetime {
        let uses = uses.to_vec();
        Lifetime { bytes, uses }
    }

    fn chain(count: u32) -> Order {
        let lists: Vec<Vec<u32>> = (0..count)
            .map(|node| node.checked_sub(1).into_iter().collect())
            .collect();
        Order::of(lists.iter().map(Vec::as_slice))
    }

    #[test]
    fn chunks_of_a_chain_take_as_much_as_live_at_once() {
        let order = chain(6);
        let lifetimes: Vec<_> = (0..5).map(|at| lifetime(1024, &[at, at + 1])).collect();
        let layout = Layout::of(&lifetimes, Some(&order));
        assert_eq!(layout.bytes, 2048, "two live at each node");
        assert_eq!(Layout::of(&lifetimes, None).bytes, 5 * 1024);
    }

    #[test]
    fn two_that_meet_at_a_node_are_apart() {
        let order = chain(3);
        let lifetimes = [lifetime(300, &[0, 1]), lifetime(10, &[1, 2])];
        let layout = Layout::of(&lifetimes, Some(&order));
        assert_eq!((layout.offsets[1], layout.bytes), (512, 522));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn chunks_that_live_at_once_never_share_a_byte(
            edges in vec(vec(any::<prop::sample::Index>(), 0..3), 1..24),
            chunks in vec((1_u64..5000, vec(any::<prop::sample::Index>(), 0..4)), 0..24),
        ) {
            let lists: Vec<Vec<u32>> = edges.iter().enumerate().map(|(node, edges)| {
                let earlier = edges.iter().filter(|_| node > 0);
                earlier.map(|index| u32::try_from(index.index(node)).unwrap_or(0)).collect()
            }).collect();
            let order = Order::of(lists.iter().map(Vec::as_slice));
            let lifetimes: Vec<Lifetime> = chunks.iter().map(|(bytes, uses)| {
                let uses = uses.iter().map(|use_| u32::try_from(use_.index(lists.len())).unwrap_or(0));
                Lifetime { bytes: *bytes, uses: uses.collect() }
            }).collect();
            let layout = Layout::of(&lifetimes, Some(&order));
            prop_assert!(layout.check(&lifetimes, Some(&order)));
            let all: u64 = lifetimes.iter().map(|own| own.bytes.next_multiple_of(ALIGNMENT)).sum();
            prop_assert!(layout.bytes <= all);
        }
    }
}
