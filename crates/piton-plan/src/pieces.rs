//! The addresses of a plan cut into pieces: at every place where a planned block begins or ends, and nowhere else.
//!
//! Two planned blocks share bytes if and only if they share a piece. So what is handed out of a plan is a set of small
//! numbers, and whether a block's place is free is a look at a few bits that lie side by side.

use std::ops::Range;

use crate::plan::Expected;

/// The pieces of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// By request; empty for those without a place.
    ranges: Vec<Range<u32>>,
    /// Where pieces begin, and where the last ends; where nothing is placed begins a piece as well, which is nobody's.
    cuts: Vec<u64>,
}

impl Pieces {
    /// Cuts the addresses of these requests, of which there are fewer than 2^31.
    pub(crate) fn of(requests: &[Expected]) -> Self {
        let placed = |expected: &Expected| {
            let offset = expected.offset?;
            Some([offset, offset + expected.bytes])
        };
        let mut cuts: Vec<u64> = requests.iter().filter_map(placed).flatten().collect();
        cuts.sort_unstable();
        cuts.dedup();
        // There are no more cuts than ends of blocks, which `u32` counts.
        let number = |cut: u64| {
            u32::try_from(cuts.partition_point(|other| *other < cut)).unwrap_or(u32::MAX)
        };
        let range = |expected: &Expected| {
            placed(expected).map_or(0..0, |[start, end]| number(start)..number(end))
        };
        Self {
            ranges: requests.iter().map(range).collect(),
            cuts,
        }
    }

    pub(crate) fn of_request(&self, request: usize) -> Range<u32> {
        self.ranges.get(request).cloned().unwrap_or(0..0)
    }

    /// The piece that an offset lies in, if it lies in one.
    pub(crate) fn at(&self, offset: u64) -> Option<u32> {
        let piece = self
            .cuts
            .partition_point(|cut| *cut <= offset)
            .checked_sub(1)?;
        u32::try_from(piece)
            .ok()
            .filter(|piece| *piece < self.count())
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.cuts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

/// A set of pieces: a bit for each.
#[derive(Debug, Clone)]
pub(crate) struct PieceSet(Vec<u64>);

impl PieceSet {
    /// None of so many.
    pub(crate) fn new(count: u32) -> Self {
        Self(vec![0; count.div_ceil(u64::BITS) as usize])
    }

    /// The first of these that is in the set.
    pub(crate) fn first_in(&self, range: Range<u32>) -> Option<u32> {
        words(range).find_map(|(word, mask)| {
            let found = self.0[word] & mask;
            (found != 0).then(|| place(word) + found.trailing_zeros())
        })
    }

    /// The last of the pieces up to and with this one that is in the set.
    pub(crate) fn last_upto(&self, piece: u32) -> Option<u32> {
        let (last, mask) = words(piece..piece + 1).next()?;
        let below = mask | (mask - 1);
        (0..=last).rev().find_map(|word| {
            let found = self.0[word] & if word == last { below } else { u64::MAX };
            found.checked_ilog2().map(|bit| place(word) + bit)
        })
    }

    pub(crate) fn add(&mut self, range: Range<u32>) {
        words(range).for_each(|(word, mask)| self.0[word] |= mask);
    }

    pub(crate) fn remove(&mut self, range: Range<u32>) {
        words(range).for_each(|(word, mask)| self.0[word] &= !mask);
    }

    /// All that are in the set, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let all = 0..place(self.0.len());
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.first_in(from..all.end)?;
            from = found + 1;
            Some(found)
        })
    }
}

/// The first piece of a word.
fn place(word: usize) -> u32 {
    // Words hold pieces, which `u32` counts.
    u32::try_from(word * 64).unwrap_or(u32::MAX)
}

/// The words that a range reaches into, each with the bits that are in it.
fn words(range: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = range;
    let first = start / u64::BITS;
    (first..end.div_ceil(u64::BITS).max(first)).map(move |word| {
        let base = word * u64::BITS;
        let low = start.saturating_sub(base);
        let high = (end - base).min(u64::BITS);
        let upto = u64::MAX >> (u64::BITS - high);
        (word as usize, upto & (u64::MAX << low))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_pieces_agrees_with_a_set_of_numbers(
            acts in prop::collection::vec((any::<bool>(), 0_u32..300, 0_u32..150), 0..40),
        ) {
            const COUNT: u32 = 300;
            let mut set = PieceSet::new(COUNT);
            let mut model = BTreeSet::new();
            for (adds, start, len) in acts {
                let range = start..(start + len).min(COUNT);
                prop_assert_eq!(set.first_in(range.clone()), model.range(range.clone()).next().copied());
                prop_assert_eq!(set.last_upto(start), model.range(..=start).next_back().copied());
                if adds {
                    set.add(range.clone());
                    model.extend(range);
                } else {
                    set.remove(range.clone());
                    model.retain(|piece| !range.contains(piece));
                }
                prop_assert!(set.iter().eq(model.iter().copied()));
            }
        }
    }
}
