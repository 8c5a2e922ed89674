//! A place on a slot, in one word.
//!
//! Sixteen bits of slot and forty-eight of seq, so that a clock's entry is read and written whole. A seq that
//! does not fit is cut to the largest that does: whoever is ordered after a place is ordered after every
//! earlier one of its slot, so the cut claims less and never more.

use crate::Timeline;

const SEQ_BITS: u32 = 48;
const SEQ_MAX: u64 = (1 << SEQ_BITS) - 1;
const _: () = assert!(Timeline::LANES as u64 <= 1 << (u64::BITS - SEQ_BITS));

/// After the `seq`-th submission of a slot. Zero, the default, is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const NOWHERE: Self = Self(0);

    /// The place, or the last one that can be told of its slot.
    pub(crate) fn new(slot: u32, seq: u64) -> Self {
        Self((u64::from(slot) << SEQ_BITS) | seq.min(SEQ_MAX))
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn slot(self) -> u32 {
        (self.0 >> SEQ_BITS) as u32
    }

    pub(crate) fn seq(self) -> u64 {
        self.0 & SEQ_MAX
    }

    /// Whether the place says nothing: no submission is numbered zero.
    pub(crate) fn is_nowhere(self) -> bool {
        self.seq() == 0
    }

    /// Whether it says something about the slot.
    pub(crate) fn is_on(self, slot: u32) -> bool {
        self.slot() == slot && !self.is_nowhere()
    }

    /// Whether whoever is ordered after this place is ordered after seq `seq` of slot `slot`.
    pub(crate) fn covers(self, slot: u32, seq: u64) -> bool {
        self.slot() == slot && self.seq() >= seq
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_seq_that_does_not_fit_claims_less() {
        let place = Place::new(65_535, u64::MAX);
        assert_eq!((place.slot(), place.seq()), (65_535, SEQ_MAX));
        assert!(place.covers(65_535, SEQ_MAX));
        assert!(!place.covers(65_535, SEQ_MAX + 1));
        assert!(!place.covers(65_534, 1));
    }
}
