//! A fixed table of facts, written by one thread at a time and read by any without a lock.
//!
//! # The idea
//! A *fact* is: "submissions after `after` are ordered after `place`". Each is true by itself, so a reader need
//! not see a table as it was at one moment; it only must not put one fact's place beside another's `after`.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `after` | whoever holds the clock's lock; only raised, for as long as the slot lives | Release, before `place` |
//! | `place` | whoever holds the clock's lock | Release; both pair with the Acquire loads of every reader |
//!
//! **A reader loads `place` first and `after` second.** It then sees the `after` that belongs to the place or
//! a later, larger one, and a larger `after` claims less. Raising is possible because a lane's numbers never
//! go back, not even between tenants of a slot.
//!
//! Who reads a place happens after whoever wrote it, and so after the wait that made it true was enqueued.
//!
//! A slot's facts stand in one bucket of [`WAYS`] cells, chosen by its number.

use crate::place::Place;
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{array, ops::Range};

/// Cells a bucket.
#[cfg(not(loom))]
pub(crate) const WAYS: usize = 4;
#[cfg(loom)]
pub(crate) const WAYS: usize = 1;

/// Submissions after `after` are ordered after `place`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) place: Place,
    pub(crate) after: u64,
}

/// See the module. Places and afters stand apart, so that a bucket's places are half a cache line.
#[derive(Debug)]
pub(crate) struct Facts<const CELLS: usize> {
    places: [AtomicU64; CELLS],
    afters: [AtomicU64; CELLS],
}

impl<const CELLS: usize> Facts<CELLS> {
    const BUCKETS: usize = CELLS / WAYS;

    pub(crate) fn new() -> Self {
        Self {
            places: array::from_fn(|_| AtomicU64::new(Place::NOWHERE.word())),
            afters: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The cells in which facts about a slot stand.
    ///
    /// Slots that follow each other fall into different buckets, and so do those that are a power of two apart:
    /// lanes are often made in turn for each of several devices.
    #[inline]
    pub(crate) fn bucket(slot: u32) -> Range<usize> {
        let folded = (slot ^ (slot >> 4) ^ (slot >> 8) ^ (slot >> 12)) as usize;
        let first = folded % Self::BUCKETS * WAYS;
        first..first + WAYS
    }

    /// Whether some fact says that later submissions are ordered after seq `seq` of slot `slot`.
    #[inline]
    pub(crate) fn covers(&self, slot: u32, seq: u64) -> bool {
        let bucket = &self.places[Self::bucket(slot)];
        bucket
            .iter()
            .any(|place| Place::from_word(place.load(Ordering::Acquire)).covers(slot, seq))
    }

    /// The cell in which a fact about the slot stands.
    pub(crate) fn find(&self, slot: u32) -> Option<usize> {
        Self::bucket(slot).find(|cell| self.place(*cell).is_on(slot))
    }

    /// The place that stands in a cell.
    pub(crate) fn place(&self, cell: usize) -> Place {
        Place::from_word(self.places[cell].load(Ordering::Acquire))
    }

    /// Every fact there is.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Fact> + '_ {
        let cells = self.places.iter().zip(&self.afters);
        cells.filter_map(|(place, after)| {
            let place = Place::from_word(place.load(Ordering::Acquire));
            // Second, as the module says.
            (!place.is_nowhere()).then(|| Fact {
                place,
                after: after.load(Ordering::Acquire),
            })
        })
    }

    /// What stands in a cell.
    pub(crate) fn get(&self, cell: usize) -> Fact {
        Fact {
            place: self.place(cell),
            after: self.afters[cell].load(Ordering::Acquire),
        }
    }

    /// Writes a cell. Under the clock's lock.
    pub(crate) fn set(&self, cell: usize, fact: Fact) {
        let after = self.afters[cell].load(Ordering::Relaxed).max(fact.after);
        self.afters[cell].store(after, Ordering::Release);
        self.places[cell].store(fact.place.word(), Ordering::Release);
    }

    /// Forgets everything. Under the clock's lock.
    pub(crate) fn clear(&self) {
        for place in &self.places {
            place.store(Place::NOWHERE.word(), Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn most_in_one_bucket(slots: impl Iterator<Item = u32>) -> usize {
        let mut counts = BTreeMap::new();
        for slot in slots {
            *counts.entry(Facts::<64>::bucket(slot).start).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    #[test]
    fn sixty_four_slots_in_a_row_fill_the_buckets_evenly() {
        for first in [0, 64, 1024, 65_472] {
            assert_eq!(most_in_one_bucket(first..first + 64), WAYS);
        }
    }

    #[test]
    fn every_eighth_slot_fills_the_buckets_evenly_too() {
        assert_eq!(most_in_one_bucket((0..64).map(|n| 3 + 8 * n)), WAYS);
    }

    #[test]
    fn an_after_is_never_lowered() {
        let facts = Facts::<WAYS>::new();
        let place = Place::new(1, 5);
        facts.set(0, Fact { place, after: 7 });
        let place = Place::new(2, 9);
        facts.set(0, Fact { place, after: 3 });
        assert_eq!(facts.get(0), Fact { place, after: 7 });
    }
}
