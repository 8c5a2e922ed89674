//! What is to be known of a block to take it back: one word, in its handle.
//!
//! # The idea
//! A block's record was last touched by the thread that had the block before, and its lines lie in that core's cache. So that
//! neither a request nor a drop has to fetch them, the handle carries what they need: what was asked for, the size class,
//! and whether a use was ever recorded. The record is looked at when somebody uses the block.
//!
//! # Protocol
//! The use bit is set by whoever has a shared reference to the handle, Relaxed: it is read by whoever has the handle
//! alone, so after all of them. The rest never changes.

use piton_suballoc::SizeClass;
use piton_sync::atomic::{AtomicU64, Ordering};

/// Bytes that a label can say were asked for.
pub(crate) const MOST_BYTES: u64 = (1 << CLASS_AT) - 1;

/// Where the index of the class begins; below it, the bytes asked for.
const CLASS_AT: u32 = 54;
/// In place of the index of a class, for exact sizes: more than any.
const NONE: usize = 0x1ff;
const USED: u64 = 1 << 63;

/// The word.
#[derive(Debug)]
pub(crate) struct Label(AtomicU64);

impl Label {
    /// Of a block handed out for a request of `asked` bytes, at most [`MOST_BYTES`].
    #[inline]
    pub(crate) fn new(asked: u64, class: Option<SizeClass>) -> Self {
        Self::of(asked, class.map_or(NONE, SizeClass::index))
    }

    /// As [`new`](Self::new), with the index of the class.
    #[inline]
    pub(crate) fn of(asked: u64, class: usize) -> Self {
        debug_assert!(asked <= MOST_BYTES && class <= NONE);
        Self(AtomicU64::new(asked | (class as u64) << CLASS_AT))
    }

    /// What it says now: all there is to know, for whoever has the handle alone.
    #[inline]
    pub(crate) fn read(&self) -> Known {
        Known(self.0.load(Ordering::Relaxed))
    }

    /// A use is about to be recorded.
    pub(crate) fn note_use(&self) {
        self.0.fetch_or(USED, Ordering::Relaxed);
    }
}

/// What a label said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known(u64);

impl Known {
    /// Bytes asked for.
    #[inline]
    pub(crate) fn asked(self) -> u64 {
        self.0 & MOST_BYTES
    }

    /// The index of the size class; more than any for an exact size.
    #[inline]
    pub(crate) fn class(self) -> usize {
        ((self.0 & !USED) >> CLASS_AT) as usize
    }

    /// Whether a use was ever recorded.
    #[inline]
    pub(crate) fn is_used(self) -> bool {
        self.0 & USED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_what_was_put_into_it() {
        for class in SizeClass::all().map(Some).chain([None]) {
            for asked in [1, 4096, MOST_BYTES] {
                let label = Label::new(asked, class);
                let index = class.map_or(NONE, SizeClass::index);
                assert_eq!(index >= SizeClass::COUNT, class.is_none());
                let known = label.read();
                assert_eq!((known.asked(), known.class()), (asked, index));
                assert!(!known.is_used());
                label.note_use();
                let known = label.read();
                assert_eq!((known.asked(), known.class()), (asked, index));
                assert!(known.is_used());
            }
        }
    }
}
