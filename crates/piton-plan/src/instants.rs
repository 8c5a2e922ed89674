//! Time with everything left out that makes no difference.
//!
//! Blocks overlap or not by the order of births and deaths alone. All births between two deaths are one *instant*: the
//! moment after the last of them, at which all of them live. Half a million events come down to as many instants as
//! there are changes from freeing to allocating, and every moment at which the most is live is among them.

use crate::block::Block;

/// A run of instants, from `first` up to and without `end`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Have the two an instant in common?
    pub(crate) fn meets(self, other: Self) -> bool {
        self.first < other.end && other.first < self.end
    }

    fn len(self) -> u32 {
        self.end - self.first
    }
}

/// The instants at which a block lives: one run, or one at each end of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// From the birth on.
    born: Span,
    /// From the start of time on, for a block that was carried over.
    carried: Span,
}

impl Lifetime {
    /// The runs that are not empty.
    pub(crate) fn spans(self) -> impl Iterator<Item = Span> {
        let both = [self.born, self.carried];
        both.into_iter().filter(|span| span.len() > 0)
    }

    /// Have the two an instant in common?
    pub(crate) fn meets(self, other: Self) -> bool {
        let meets = |span: Span| other.spans().any(|other| span.meets(other));
        self.spans().any(meets)
    }

    /// Instants in it.
    pub(crate) fn len(self) -> u32 {
        self.born.len() + self.carried.len()
    }
}

/// The lifetimes of blocks.
#[derive(Debug)]
pub(crate) struct Instants {
    /// In the order of the blocks.
    pub(crate) lifetimes: Vec<Lifetime>,
    /// How many instants there are.
    pub(crate) count: u32,
}

impl Instants {
    /// Sorts the births and deaths of blocks, of which there are fewer than 2^31.
    pub(crate) fn of(blocks: &[Block]) -> Self {
        let mut lifetimes = vec![Lifetime::default(); blocks.len()];
        let mut count = 0;
        let mut is_open = false;
        for change in changes(blocks) {
            let lifetime = &mut lifetimes[change.block as usize];
            if !change.is_birth {
                lifetime.born.end = count;
                is_open = false;
                continue;
            }
            if !is_open {
                count += 1;
                is_open = true;
            }
            lifetime.born.first = count - 1;
        }
        for (lifetime, block) in lifetimes.iter_mut().zip(blocks) {
            if block.is_carried_over() {
                lifetime.carried.end = lifetime.born.end;
                lifetime.born.end = count;
            }
        }
        Self { lifetimes, count }
    }

    /// Blocks that live at an instant, on average, rounded down.
    pub(crate) fn mean_live(&self) -> u32 {
        let total: u64 = self
            .lifetimes
            .iter()
            .map(|lifetime| u64::from(lifetime.len()))
            .sum();
        u32::try_from(total / u64::from(self.count.max(1))).unwrap_or(u32::MAX)
    }

    /// The most bytes that live at one instant.
    pub(crate) fn peak(&self, bytes: &[u64]) -> u64 {
        let mut born = vec![0_u64; self.count as usize + 1];
        let mut died = born.clone();
        for (lifetime, bytes) in self.lifetimes.iter().zip(bytes) {
            for span in lifetime.spans() {
                born[span.first as usize] += bytes;
                died[span.end as usize] += bytes;
            }
        }
        let mut live = 0;
        let mut peak = 0;
        for (born, died) in born.into_iter().zip(died) {
            live = live - died + born;
            peak = peak.max(live);
        }
        peak
    }
}

/// A birth or a death. The order of the fields is the order of changes: at equal times deaths come first, so that memory
/// may be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    time: u64,
    is_birth: bool,
    block: u32,
}

fn changes(blocks: &[Block]) -> Vec<Change> {
    let mut changes = Vec::with_capacity(2 * blocks.len());
    for (block, times) in (0_u32..).zip(blocks) {
        for (time, is_birth) in [(times.birth, true), (times.death, false)] {
            changes.push(Change {
                time,
                is_birth,
                block,
            });
        }
    }
    changes.sort_unstable();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(blocks: &[(u64, u64)]) -> Vec<Vec<(u32, u32)>> {
        let block = |&(birth, death)| Block {
            bytes: 1,
            birth,
            death,
        };
        let blocks: Vec<Block> = blocks.iter().map(block).collect();
        let of = |lifetime: &Lifetime| {
            lifetime
                .spans()
                .map(|span| (span.first, span.end))
                .collect()
        };
        Instants::of(&blocks).lifetimes.iter().map(of).collect()
    }

    #[test]
    fn births_without_a_death_between_them_are_one_instant() {
        assert_eq!(
            spans(&[(0, 9), (1, 9), (2, 9)]),
            [[(0, 1)], [(0, 1)], [(0, 1)]]
        );
        assert_eq!(spans(&[(0, 1), (1, 9)]), [[(0, 1)], [(1, 2)]]);
        assert_eq!(
            spans(&[(0, 2), (1, 9), (3, 9)]),
            [vec![(0, 1)], vec![(0, 2)], vec![(1, 2)]]
        );
    }

    #[test]
    fn a_block_that_is_carried_over_lives_at_both_ends() {
        assert_eq!(spans(&[(0, 1), (2, 3), (4, 1)])[2], [(2, 3), (0, 1)]);
        assert_eq!(
            spans(&[(3, 3)]),
            [[(0, 1)]],
            "nothing else is there to tell times apart"
        );
    }

    #[test]
    fn the_peak_is_the_most_that_lives_at_once() {
        let block = |bytes, birth, death| Block {
            bytes,
            birth,
            death,
        };
        let blocks = [
            block(5, 0, 2),
            block(3, 1, 4),
            block(4, 2, 3),
            block(2, 3, 1),
        ];
        let bytes: Vec<u64> = blocks.iter().map(|block| block.bytes).collect();
        assert_eq!(Instants::of(&blocks).peak(&bytes), 8);
    }
}
