//! The set of units at which chunks begin, and the greatest of them at or below any unit.
//!
//! A tree with [`FAN`] branches a node. A node has a bit for each branch in which there is a start; in a node of the lowest
//! level a bit is a start. Nodes are made by need, lie side by side in the order in which they were needed, and stay: a
//! program that allocates in large steps has few.
//!
//! # Protocol
//! One writer at a time, readers at any. A start is inserted from the top to the bottom and removed from the bottom to the top, so
//! the branches above one that stays are never cleared. A reader may meet a branch with a bit and nothing in it, which is
//! about to get its start or has just lost it, and goes on with the next lower one.

use piton_sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::arena::Arena;

/// Branches of a node, as a power of two.
const FAN_BITS: u32 = if cfg!(loom) { 1 } else { 6 };
const FAN: usize = 1 << FAN_BITS;
/// Enough for a unit's 32 bits; fewer where a model has few units.
const LEVELS: usize = if cfg!(loom) { 2 } else { 6 };
const ROOT: u32 = 0;

#[derive(Debug)]
struct Node {
    /// Branches in which there is a start.
    bits: AtomicU64,
    /// By branch, the node below; 0, which is nobody's child, if there is none. At the lowest level, the number of the chunk.
    to: [AtomicU32; FAN],
}

impl Default for Node {
    fn default() -> Self {
        Self {
            bits: AtomicU64::new(0),
            to: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Starts {
    nodes: Arena<Node>,
    /// Nodes made. The writer's.
    made: AtomicU32,
}

/// The branch of a node at `level` that a unit lies in; the lowest level is 0.
#[inline]
const fn branch(unit: u32, level: usize) -> usize {
    (unit as u64 >> (FAN_BITS as usize * level)) as usize % FAN
}

impl Starts {
    pub(super) fn new() -> Self {
        let nodes = Arena::default();
        nodes.make(ROOT);
        Self {
            nodes,
            made: AtomicU32::new(ROOT + 1),
        }
    }

    /// A chunk of this number begins at the unit. One writer at a time.
    #[inline]
    pub(super) fn insert(&self, unit: u32, number: u32) {
        let Some(mut node) = self.nodes.get(ROOT) else {
            return;
        };
        for level in (1..LEVELS).rev() {
            let at = branch(unit, level);
            let to = node.to[at].load(Ordering::Relaxed);
            let below = match to {
                ROOT => self.grow(node, at),
                made => self.nodes.get(made),
            };
            node.set(at);
            // Past the last number of nodes, which takes more units than there are.
            let Some(below) = below else { return };
            node = below;
        }
        let at = branch(unit, 0);
        node.to[at].store(number, Ordering::Release);
        node.set(at);
    }

    #[cold]
    fn grow(&self, node: &Node, at: usize) -> Option<&Node> {
        let number = self.made.load(Ordering::Relaxed);
        let made = self.nodes.make(number)?;
        self.made.store(number + 1, Ordering::Relaxed);
        node.to[at].store(number, Ordering::Release);
        Some(made)
    }

    /// No chunk begins at the unit any more. One writer at a time.
    #[inline]
    pub(super) fn remove(&self, unit: u32) {
        let Some(root) = self.nodes.get(ROOT) else {
            return;
        };
        let mut path = [root; LEVELS];
        for level in (1..LEVELS).rev() {
            let to = path[level].to[branch(unit, level)].load(Ordering::Relaxed);
            match self.nodes.get(to) {
                Some(below) if to != ROOT => path[level - 1] = below,
                _ => return,
            }
        }
        for (level, node) in path.into_iter().enumerate() {
            if node.clear(branch(unit, level)) > 0 {
                return;
            }
        }
    }

    /// The number of the chunk that begins at the greatest start at or below a unit.
    #[inline]
    pub(super) fn at_or_below(&self, unit: u32) -> Option<u32> {
        let mut node = self.nodes.get(ROOT)?;
        let mut level = LEVELS - 1;
        // Branches that are still to be looked at, by level, and their nodes.
        let mut rest = [0; LEVELS];
        let mut path = [node; LEVELS];
        rest[level] = node.bits_up_to(branch(unit, level));
        let mut on_path = true;
        loop {
            let Some(at) = rest[level].checked_ilog2() else {
                // Nothing here: what is next lower lies below another branch of a node above.
                on_path = false;
                level += 1;
                node = path.get(level).copied()?;
                continue;
            };
            let at = at as usize;
            rest[level] &= !(1 << at);
            on_path = on_path && at == branch(unit, level);
            let to = node.to[at].load(Ordering::Acquire);
            if level == 0 {
                return Some(to);
            }
            level -= 1;
            node = self.nodes.get(to)?;
            path[level] = node;
            let last = if on_path {
                branch(unit, level)
            } else {
                FAN - 1
            };
            rest[level] = node.bits_up_to(last);
        }
    }

    /// All starts, counted. For `check`, while nobody writes.
    pub(super) fn count(&self) -> u64 {
        self.nodes
            .get(ROOT)
            .map_or(0, |root| self.count_below(root, LEVELS - 1))
    }

    fn count_below(&self, node: &Node, level: usize) -> u64 {
        let bits = node.bits.load(Ordering::Acquire);
        if level == 0 {
            return u64::from(bits.count_ones());
        }
        let below = (0..FAN).filter(|at| bits & (1 << at) != 0);
        let below = below.filter_map(|at| self.nodes.get(node.to[at].load(Ordering::Acquire)));
        below.map(|node| self.count_below(node, level - 1)).sum()
    }
}

impl Node {
    #[inline]
    fn set(&self, at: usize) {
        let bits = self.bits.load(Ordering::Relaxed);
        if bits & (1 << at) == 0 {
            self.bits.store(bits | 1 << at, Ordering::Release);
        }
    }

    /// The bits that are left.
    #[inline]
    fn clear(&self, at: usize) -> u64 {
        let bits = self.bits.load(Ordering::Relaxed) & !(1 << at);
        self.bits.store(bits, Ordering::Release);
        bits
    }

    /// Bits of the branches up to this one.
    #[inline]
    fn bits_up_to(&self, at: usize) -> u64 {
        self.bits.load(Ordering::Acquire) & (u64::MAX >> (63 - at))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn units() -> impl Strategy<Value = u32> {
        prop_oneof![
            0u32..200,
            (0u32..32, -2i64..3)
                .prop_map(|(bits, by)| { u32::try_from((1_i64 << bits) + by).unwrap_or(0) }),
            any::<u32>(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn the_greatest_start_below_is_that_of_an_ordered_map(
            steps in prop::collection::vec((any::<bool>(), units(), any::<prop::sample::Index>()), 1..120),
        ) {
            let (starts, mut model) = (Starts::new(), BTreeMap::new());
            for (number, (inserts, unit, pick)) in (0u32..).zip(steps) {
                if inserts || model.is_empty() {
                    starts.insert(unit, number);
                    model.insert(unit, number);
                } else {
                    let gone = *model.keys().nth(pick.index(model.len())).unwrap();
                    starts.remove(gone);
                    model.remove(&gone);
                }
                prop_assert_eq!(starts.count(), model.len() as u64);
                let around = model.keys().flat_map(|at| [at.saturating_sub(1), *at, at.saturating_add(1)]);
                for at in around.chain([0, unit, u32::MAX]) {
                    let expected = model.range(..=at).next_back().map(|(_, number)| *number);
                    prop_assert_eq!(starts.at_or_below(at), expected, "at {}", at);
                }
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! A start that stays, looked for while others come and go around it.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    #[test]
    fn a_live_allocation_is_found_while_its_neighbours_come_and_go() {
        model(|| {
            let starts = Arc::new(Starts::new());
            starts.insert(0, 10);
            starts.insert(2, 12);
            let reader = {
                let starts = Arc::clone(&starts);
                thread::spawn(move || (starts.at_or_below(1), starts.at_or_below(3)))
            };
            starts.insert(3, 13);
            starts.remove(2);
            starts.remove(3);
            let (first, second) = reader.join().unwrap();
            assert_eq!(first, Some(10), "it stays");
            assert!(matches!(second, Some(10 | 12 | 13)), "{second:?}");
        });
    }
}
