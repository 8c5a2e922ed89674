//! Bins of one domain: free extents by size, found through two levels of bitmaps.
//!
//! Sizes below 32 units have a bin each; above, each doubling is cut into 32 bins of equal width. A set bit says that
//! a bin has an extent; the head of one without is `NIL`, so an emptied `Bins` can serve another domain without being
//! cleared.
//!
//! This file knows sizes and bits; links between extents are the records' (`records`).

use std::hint::select_unpredictable;

use crate::records::{NIL, Record, Records};

/// log2 of the bins in a doubling.
const STEP_BITS: u32 = 5;
const STEPS: u32 = 1 << STEP_BITS;
/// Doublings, the sizes below [`STEPS`] counting as one; rounded up to a power of two, so that a number that is cut to
/// its bits needs no comparison.
const LEVELS: usize = (Bin::of(u32::MAX).level() as usize + 1).next_power_of_two();
const _: () = assert!(LEVELS <= u32::BITS as usize);
const BINS: usize = LEVELS * STEPS as usize;

/// Number of a bin: doubling times 32 plus step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bin(u32);

impl Bin {
    /// The bin that extents of `units` units (at least one) hang in.
    // Without a branch: the smallest sizes are those that are shifted by nothing.
    #[inline]
    pub(crate) const fn of(units: u32) -> Self {
        let shift = (units | STEPS).ilog2() - STEP_BITS;
        Self(shift * STEPS + (units >> shift))
    }

    /// The bin of the next larger sizes.
    pub(crate) const fn above(self) -> Self {
        Self(self.0 + 1)
    }

    const fn level(self) -> u32 {
        self.0 / STEPS
    }

    /// Its doubling as a place in a table.
    #[inline]
    const fn level_at(self) -> usize {
        self.level() as usize % LEVELS
    }

    /// Its place in a table.
    #[inline]
    const fn at(self) -> usize {
        self.0 as usize % BINS
    }

    const fn step(self) -> u32 {
        self.0 % STEPS
    }
}

/// Extents of a bin that are looked at, unless the owner says otherwise.
pub(crate) const TRIES: u32 = 8;

/// The free extents of one domain.
#[derive(Debug)]
pub(crate) struct Bins {
    /// Bit per doubling that has an extent.
    levels: u32,
    /// Per doubling, bit per bin that has an extent.
    steps: [u32; LEVELS],
    /// First extent of each bin, or `NIL`.
    heads: Box<[u32; BINS]>,
    /// Oldest and newest extent in the order of stamps; used by lanes' domains only.
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
    /// Extents of a bin to look at before the best of them is taken, at least one.
    pub(crate) tries: u32,
    /// Units in the domain.
    pub(crate) free_units: u32,
    /// Extents in the domain.
    pub(crate) extents: u32,
}

impl Bins {
    /// No extents.
    pub(crate) fn new(tries: u32) -> Self {
        Self {
            levels: 0,
            steps: [0; LEVELS],
            heads: Box::new([NIL; BINS]),
            oldest: NIL,
            newest: NIL,
            tries,
            free_units: 0,
            extents: 0,
        }
    }

    /// First extent of `bin`, or `NIL`.
    #[inline]
    pub(crate) fn head(&self, bin: Bin) -> u32 {
        self.heads[bin.at()]
    }

    /// The first bin from `bin` upwards that has an extent.
    #[inline]
    pub(crate) fn first_from(&self, bin: Bin) -> Option<Bin> {
        let here = self.steps[bin.level_at()] & (u32::MAX << bin.step());
        let above = self.levels & (u32::MAX << 1 << bin.level_at());
        // Whether the size's own doubling has anything is as good as chance: both are looked at.
        let next = above.trailing_zeros();
        let steps = select_unpredictable(here != 0, here, self.steps[next as usize % LEVELS]);
        let level = select_unpredictable(here != 0, bin.level(), next);
        (here | above != 0).then(|| Self::bin(level, steps.trailing_zeros()))
    }

    #[inline]
    const fn bin(level: u32, step: u32) -> Bin {
        Bin(level * STEPS + step)
    }

    /// The bin of the largest extents.
    pub(crate) fn last(&self) -> Option<Bin> {
        let level = self.levels.checked_ilog2()?;
        Some(Bin(level * STEPS + self.steps[level as usize].ilog2()))
    }

    /// Hangs an extent of `units` units into the bin of its size.
    #[inline(always)]
    pub(crate) fn insert(&mut self, records: &mut Records, index: u32, units: u32) {
        self.link(records, index, Bin::of(units));
        self.free_units += units;
        self.extents += 1;
    }

    /// Makes an extent the head of a bin, and leaves the counts to the caller.
    #[inline(always)]
    pub(crate) fn link(&mut self, records: &mut Records, index: u32, bin: Bin) {
        let head = std::mem::replace(&mut self.heads[bin.at()], index);
        let record = records.at_mut(index);
        record.bin_prev = NIL;
        record.bin_next = head;
        records.at_mut(head).bin_prev = index;
        self.steps[bin.level_at()] |= 1 << bin.step();
        self.levels |= 1 << bin.level_at();
    }

    /// Takes an extent out of the bin of its size.
    #[inline(always)]
    pub(crate) fn remove(&mut self, records: &mut Records, index: u32) {
        let units = records.at(index).units;
        self.unlink(records, index, Bin::of(units));
        self.free_units -= units;
        self.extents -= 1;
    }

    /// Takes an extent out of its bin, and leaves the counts to the caller.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, records: &mut Records, index: u32, bin: Bin) {
        let Record {
            bin_prev, bin_next, ..
        } = *records.at(index);
        records.at_mut(bin_next).bin_prev = bin_prev;
        records.at_mut(bin_prev).bin_next = bin_next;
        self.skip_head(bin, index, bin_next);
    }

    /// Makes `next` the head of a bin if `index` is. By arithmetic: whether it is, and whether the bin becomes empty, is as
    /// good as chance.
    #[inline]
    fn skip_head(&mut self, bin: Bin, index: u32, next: u32) {
        let head = &mut self.heads[bin.at()];
        *head = select_unpredictable(*head == index, next, *head);
        let is_empty = *head == NIL;
        let steps = &mut self.steps[bin.level_at()];
        *steps &= !(u32::from(is_empty) << bin.step());
        self.levels &= !(u32::from(*steps == 0) << bin.level_at());
    }

    /// Whether the bit of a doubling agrees with the bits of its bins, for all of them; for `check`.
    pub(crate) fn bits_agree(&self) -> bool {
        (0u32..)
            .zip(self.steps.iter())
            .all(|(level, &steps)| (steps != 0) == (self.levels & (1 << level) != 0))
    }

    /// The bins that have extents, in order of size; for `check` and walks.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = Bin> {
        let mut next = self.first_from(Bin(0));
        std::iter::from_fn(move || {
            let bin = next?;
            next = self.first_from(bin.above());
            Some(bin)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_sizes_without_gaps() {
        let mut last = Bin::of(1);
        for units in 2..100_000 {
            let bin = Bin::of(units);
            assert!(bin == last || bin == last.above(), "{units} units");
            last = bin;
        }
        assert_eq!(Bin::of(u32::MAX).level(), 27);
    }

    #[test]
    fn a_bin_above_the_smallest_sizes_spans_a_thirtysecond_of_its_doubling() {
        assert_eq!(Bin::of(1 << 10), Bin::of((1 << 10) + 31));
        assert_ne!(Bin::of(1 << 10), Bin::of((1 << 10) + 32));
    }
}
