//! What one thread has of each size class, side by side: a magazine, which is the thread's, and counters, which anybody reads.
//!
//! # The idea
//! A request and a drop need both, and find both by the number of the class. Side by side they are found once, and what is
//! touched each time is one cache line.
//!
//! # Protocol
//! | what | who may touch it |
//! |---|---|
//! | a magazine | who has the [`Shelves`] alone: there is one of each thread's |
//! | counters | written by who has the shelves, read through a [`Tally`] by all |

#![expect(
    unsafe_code,
    reason = "what one thread has alone lies beside what all read"
)]

use crate::{
    class_counts::{ClassCount, ClassCounters},
    magazine::Magazine,
    record::Record,
};
use piton_sync::UnsafeCell;
use std::{fmt, sync::Arc};

/// One class of one thread. What the short ways touch comes first, and fills a line.
#[repr(C, align(64))]
struct Shelf {
    counters: ClassCounters,
    magazine: UnsafeCell<Magazine<Box<Record>>>,
}

// SAFETY: counters are atomic, and a magazine is reached only through the one `Shelves`; what is in it goes from thread to thread
// with that, and is `Send`.
unsafe impl Sync for Shelf {}

/// A thread's shelves, by number of the class, and a last one for blocks of none.
///
/// # Invariants
/// There is one of each array: others that have it have a [`Tally`], and look at no magazine.
pub(crate) struct Shelves(Arc<[Shelf]>);

/// A thread's counters, for reading.
#[derive(Clone)]
pub(crate) struct Tally(Arc<[Shelf]>);

impl Shelves {
    /// Empty ones, of `classes` classes and of none; `halves` says how many blocks make half a magazine, of those that have one.
    pub(crate) fn new(classes: usize, halves: &[usize]) -> Self {
        let half = |class: usize| halves.get(class).copied().unwrap_or(0);
        let shelf = |class| Shelf {
            counters: ClassCounters::default(),
            magazine: UnsafeCell::new(Magazine::new(half(class))),
        };
        // INVARIANT: this is the one.
        Self((0..=classes).map(shelf).collect())
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally(Arc::clone(&self.0))
    }

    /// What there is of a class.
    #[inline]
    pub(crate) fn get(
        &mut self,
        class: usize,
    ) -> Option<(&mut Magazine<Box<Record>>, &ClassCounters)> {
        let shelf = self.0.get(class)?;
        let magazine = shelf.magazine.with_mut(|magazine| {
            // SAFETY: there is one `Shelves` of this array (its invariant), and it is borrowed alone for as long as this is.
            unsafe { &mut *magazine }
        });
        Some((magazine, &shelf.counters))
    }

    /// The counters of a class, or of blocks of none.
    pub(crate) fn counters(&self, class: Option<usize>) -> Option<&ClassCounters> {
        let last = self.0.len().checked_sub(1)?;
        let shelf = self.0.get(class.unwrap_or(last))?;
        Some(&shelf.counters)
    }

    /// Puts other magazines in place of these, and these in place of the others. What is in these is counted as gone; how many
    /// that is. Allocates nothing.
    pub(crate) fn swap(&mut self, others: &mut [Magazine<Box<Record>>]) -> usize {
        let mut gone = 0;
        for (class, other) in others.iter_mut().enumerate() {
            if let Some((magazine, counters)) = self.get(class) {
                let blocks = magazine.len();
                counters.left(blocks);
                gone += blocks;
                std::mem::swap(magazine, other);
            }
        }
        gone
    }
}

impl Tally {
    /// What was counted, one entry a class and a last one for blocks of none.
    pub(crate) fn read(&self) -> impl Iterator<Item = ClassCount> {
        self.0.iter().map(|shelf| shelf.counters.read())
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is of the same thread.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Shelves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tally().fmt(f)
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.read()).finish()
    }
}
