//! Which free extent a request gets: best fit in effect, in a bounded number of steps.
//!
//! Of the bin of the request's own size, and of the first bin above it that has extents, up to eight extents are
//! looked at, or as many as the owner says; the smallest that fits wins, the lowest offset among equals. On recorded traces that places within a
//! thousandth of true best fit. If neither bin yields a fit, an alignment larger than a unit tries the first bin in
//! which anything fits wherever it starts. Only when the answer would be "none" are the bins in between looked
//! through to their ends: that costs a walk, but "none" makes the caller ask a driver, which costs far more.

use std::hint::select_unpredictable;

use crate::bins::{Bin, Bins, TRIES};
use crate::records::{NIL, Record, Records};

/// A request in units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// Length, at least one.
    pub(crate) units: u32,
    /// Alignment of the start, a power of two, less one.
    pub(crate) mask: u32,
}

impl Fit {
    /// Where in the extent the request would start, if it fits.
    #[inline]
    pub(crate) fn start_in(self, record: &Record) -> Option<u32> {
        let start = record.offset.checked_add(self.mask)? & !self.mask;
        let needed = start.checked_add(self.units)?;
        (needed <= record.end()).then_some(start)
    }

    /// The extent to place the request in, and the bin it hangs in.
    // Twice, so that the usual search has loops of a length that the compiler knows.
    #[inline(always)]
    pub(crate) fn find(self, bins: &Bins, records: &Records) -> Option<(u32, Bin)> {
        if bins.tries == TRIES {
            self.find_among(bins, records, TRIES)
        } else {
            self.find_as_told(bins, records)
        }
    }

    #[cold]
    fn find_as_told(self, bins: &Bins, records: &Records) -> Option<(u32, Bin)> {
        self.find_among(bins, records, bins.tries)
    }

    #[inline(always)]
    fn find_among(self, bins: &Bins, records: &Records, tries: u32) -> Option<(u32, Bin)> {
        let own = Bin::of(self.units);
        let mut bin = bins.first_from(own)?;
        if bin == own {
            let looked = self.best_in(bins, records, own, tries);
            if looked.best != NIL {
                return Some((looked.best, own));
            }
            match bins.first_from(own.above()) {
                Some(above) => bin = above,
                // Nothing was left out.
                None if looked.rest == NIL => return None,
                None => return self.find_at_length(bins, records, own),
            }
        }
        let found = self.best_in(bins, records, bin, tries).best;
        if found != NIL {
            return Some((found, bin));
        }
        self.find_at_length(bins, records, own)
    }

    /// What is left to look at where the two likely bins yield nothing.
    #[cold]
    fn find_at_length(self, bins: &Bins, records: &Records, own: Bin) -> Option<(u32, Bin)> {
        let index = self.look_further(bins, records, own)?;
        Some((index, Bin::of(records.at(index).units)))
    }

    fn look_further(self, bins: &Bins, records: &Records, own: Bin) -> Option<u32> {
        let Some(largest) = self.units.checked_add(self.mask) else {
            return self.search_from(bins, records, own, None);
        };
        // Everything above this bin fits wherever it starts.
        let last_unsure = Bin::of(largest);
        if self.mask > 0
            && let Some(sure) = bins.first_from(last_unsure.above())
        {
            return self.best_in(bins, records, sure, bins.tries).found();
        }
        self.search_from(bins, records, own, Some(last_unsure))
    }

    /// The smallest extent that is long enough, wherever it starts; the lowest among equals.
    pub(crate) fn find_smallest(self, bins: &Bins, records: &Records) -> Option<u32> {
        let anywhere = Self { mask: 0, ..self };
        anywhere.search_from(bins, records, Bin::of(self.units), None)
    }

    /// Looks through whole bins, smallest first, up to and including `last`.
    fn search_from(
        self,
        bins: &Bins,
        records: &Records,
        first: Bin,
        last: Option<Bin>,
    ) -> Option<u32> {
        let mut bin = bins.first_from(first)?;
        loop {
            if last.is_some_and(|last| bin > last) {
                return None;
            }
            let found = self.best_in(bins, records, bin, u32::MAX).best;
            if found != NIL {
                return Some(found);
            }
            bin = bins.first_from(bin.above())?;
        }
    }

    #[inline(always)]
    fn best_in(self, bins: &Bins, records: &Records, bin: Bin, tries: u32) -> Looked {
        if self.mask == 0 {
            return self.least_in(bins, records, bin, tries);
        }
        let mut least = u64::MAX;
        let mut best = NIL;
        let mut index = bins.head(bin);
        for _ in 0..tries {
            if index == NIL {
                break;
            }
            let record = records.at(index);
            let key = record.length_and_place();
            if key < least && self.start_in(record).is_some() {
                (least, best) = (key, index);
            }
            index = record.bin_next;
        }
        Looked { best, rest: index }
    }

    /// The same where any start will do: what is long enough and what is best is one comparison.
    #[inline(always)]
    fn least_in(self, bins: &Bins, records: &Records, bin: Bin, tries: u32) -> Looked {
        let wanted = u64::from(self.units) << u32::BITS;
        // What is too short comes out at or above this.
        let mut least = wanted.wrapping_neg();
        let mut best = NIL;
        let mut index = bins.head(bin);
        for _ in 0..tries {
            if index == NIL {
                break;
            }
            let record = records.at(index);
            let beyond = record.length_and_place().wrapping_sub(wanted);
            let is_better = beyond < least;
            // Which of a bin's is best is as good as chance.
            least = select_unpredictable(is_better, beyond, least);
            best = select_unpredictable(is_better, index, best);
            index = record.bin_next;
        }
        Looked { best, rest: index }
    }
}

/// What looking through a bin yielded.
#[derive(Clone, Copy, Debug)]
struct Looked {
    /// The best that fits, or `NIL`.
    best: u32,
    /// The first that was not looked at, or `NIL`.
    rest: u32,
}

impl Looked {
    fn found(self) -> Option<u32> {
        (self.best != NIL).then_some(self.best)
    }
}
