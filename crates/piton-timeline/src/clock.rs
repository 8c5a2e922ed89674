//! What a lane is ordered after: the happens-before clock.
//!
//! # The idea
//! A lane that waits for point (l, s) is from then on ordered after everything lane l did up to s, and after
//! everything that l itself was ordered after *at s*. So a lane keeps facts, each with the seq of its own from
//! which on it holds ([`Facts`]): the newest about each slot, and of those that newer ones replaced a few, for
//! whoever waits for an older point.
//!
//! # Bounds
//! The newest facts about [`NEAR`] slots are kept in the lane's slot; those about [`FAR`] more, and [`PAST`] replaced
//! ones, in tables that are made when they are first needed, as most lanes never wait. What is done is dropped where
//! room is needed. When a bucket is full of what is not done, the oldest fact that came from another lane gives way.
//! **Forgetting a fact makes the clock claim less**: sound, not complete. What the lane waited for itself gives
//! way only to a newer such fact, so that it takes waits for the unfinished work of more than eighty lanes in a
//! row, or of more than eight that share a bucket, to forget one.
//!
//! # Invariants
//! - Of one slot there is at most one newest fact, and its seq only grows until it is dropped.
//! - A fact is among the replaced ones before the fact that replaces it can be seen.
//! - A cell of `near` with a fact has its bit in `used` by the time the right to write is given back.
//!
//! # Protocol
//! Readers take no lock: [`Facts`] says why. Writers hold `books`. A writer reads another lane's facts as any
//! reader does, so no two clocks are ever locked at once.

use crate::{
    facts::{Fact, Facts},
    place::Place,
};
use piton_sync::{
    Brief, BriefGuard,
    atomic::{AtomicU16, Ordering},
};
use std::{iter, ops::Range, sync::OnceLock};

/// Slots known without a second table.
#[cfg(not(loom))]
const NEAR: usize = 16;
/// Slots known in the second table.
#[cfg(not(loom))]
const FAR: usize = 64;
/// Replaced facts remembered. A point that is waited for is rarely older than a few waits.
#[cfg(not(loom))]
const PAST: usize = 16;
#[cfg(loom)]
const NEAR: usize = 1;
#[cfg(loom)]
const FAR: usize = 1;
#[cfg(loom)]
const PAST: usize = 1;
const _: () = assert!(256 % PAST == 0, "counted in a byte");

/// What only writers know.
#[derive(Debug, Default)]
struct Books {
    /// How many facts were replaced, as far as it fits: which cell of `past` is overwritten next.
    replaced: u8,
    /// A bit for each cell whose slot the lane itself has waited for.
    near_direct: u16,
    far_direct: u64,
}

const _: () = assert!(NEAR <= 16 && FAR <= 64, "a bit a cell");

impl Books {
    fn is_direct(&self, cell: Cell) -> bool {
        match cell.0.checked_sub(NEAR) {
            None => self.near_direct & (1 << cell.0) != 0,
            Some(at) => self.far_direct & (1 << at) != 0,
        }
    }

    fn set_direct(&mut self, cell: Cell, is_direct: bool) {
        match cell.0.checked_sub(NEAR) {
            None => {
                self.near_direct &= !(1 << cell.0);
                self.near_direct |= u16::from(is_direct) << cell.0;
            }
            Some(at) => {
                self.far_direct &= !(1 << at);
                self.far_direct |= u64::from(is_direct) << at;
            }
        }
    }
}

/// One lane's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    near: Facts<NEAR>,
    /// A bit for each cell of `near` that was ever used by the slot's lane, so that whoever waits for a lane that knows of few
    /// others looks at few cells. Set after the cell: who misses a bit learns less.
    used: AtomicU16,
    far: OnceLock<Box<Facts<FAR>>>,
    past: OnceLock<Box<Facts<PAST>>>,
    books: Brief<Books>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            near: Facts::new(),
            used: AtomicU16::new(0),
            far: OnceLock::new(),
            past: OnceLock::new(),
            books: Brief::new(Books::default()),
        }
    }

    /// Whether the lane's submissions to come are ordered after seq `seq` of slot `slot`.
    #[inline]
    pub(crate) fn covers(&self, slot: u32, seq: u64) -> bool {
        self.near.covers(slot, seq) || self.far.get().is_some_and(|far| far.covers(slot, seq))
    }

    /// Calls `learn` with every place that the lane's own submission `at` is known to be ordered after; of one
    /// slot perhaps several.
    pub(crate) fn before(&self, at: u64, mut learn: impl FnMut(Place)) {
        let far = self.far.get().into_iter().flat_map(|far| far.iter());
        let mut has_newer = false;
        for fact in self.near_facts().chain(far) {
            if fact.after < at {
                learn(fact.place);
            } else {
                has_newer = true;
            }
        }
        if has_newer && let Some(past) = self.past.get() {
            let past = past.iter().filter(|fact| fact.after < at);
            past.for_each(|fact| learn(fact.place));
        }
    }

    fn near_facts(&self) -> impl Iterator<Item = Fact> + '_ {
        let mut used = self.used.load(Ordering::Acquire);
        let cells = iter::from_fn(move || {
            let cell = (used != 0).then(|| used.trailing_zeros() as usize)?;
            used &= used - 1;
            Some(cell)
        });
        let facts = cells.map(|cell| self.near.get(cell));
        facts.filter(|fact| !fact.place.is_nowhere())
    }

    /// The right to write.
    pub(crate) fn lock(&self) -> Pen<'_> {
        Pen {
            clock: self,
            books: self.books.lock(),
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) const LATER_BYTES: usize = size_of::<Facts<FAR>>() + size_of::<Facts<PAST>>();
}

/// Who holds it writes the clock.
pub(crate) struct Pen<'a> {
    clock: &'a Clock,
    books: BriefGuard<'a, Books>,
}

/// A cell of `near`, or one of `far` counted from where `near` ends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cell(usize);

impl Pen<'_> {
    /// The lane has waited for a place itself.
    pub(crate) fn wait(&mut self, fact: Fact, is_done: impl Fn(Place) -> bool) {
        if let Some(cell) = self.put(fact, true, is_done) {
            self.books.set_direct(cell, true);
        }
    }

    /// The awaited lane was ordered after a place.
    pub(crate) fn hear(&mut self, fact: Fact, is_done: impl Fn(Place) -> bool) {
        let _cell = self.put(fact, false, is_done);
    }

    /// Forgets everything: a new lane has the slot.
    pub(crate) fn clear(&mut self) {
        self.clock.used.store(0, Ordering::Release);
        self.clock.near.clear();
        if let Some(past) = self.clock.past.get() {
            past.clear();
        }
        if let Some(far) = self.clock.far.get() {
            far.clear();
        }
        (self.books.near_direct, self.books.far_direct) = (0, 0);
    }

    /// Writes a fact down. What is done may be dropped for it. Returns where the newest fact about its slot
    /// stands, if there is one now.
    fn put(
        &mut self,
        fact: Fact,
        is_direct: bool,
        is_done: impl Fn(Place) -> bool,
    ) -> Option<Cell> {
        if fact.place.is_nowhere() {
            return None;
        }
        let slot = fact.place.slot();
        let Some(cell) = self.find(slot) else {
            let cell = self.room(slot, is_direct, is_done)?;
            self.books.set_direct(cell, false);
            self.set(cell, fact);
            return Some(cell);
        };
        let known = self.get(cell);
        if known.place.seq() < fact.place.seq() {
            if known.after < fact.after {
                self.remember(known);
            }
            self.set(cell, fact);
        }
        Some(cell)
    }

    fn remember(&mut self, fact: Fact) {
        let past = self.clock.past.get_or_init(|| Box::new(Facts::new()));
        past.set(usize::from(self.books.replaced) % PAST, fact);
        self.books.replaced = self.books.replaced.wrapping_add(1);
    }

    /// Where the newest fact about a slot stands.
    fn find(&self, slot: u32) -> Option<Cell> {
        self.clock.near.find(slot).map(Cell).or_else(|| {
            let far = self.clock.far.get()?;
            far.find(slot).map(|cell| Cell(NEAR + cell))
        })
    }

    /// A cell that may be overwritten with a fact about the slot.
    fn room(&self, slot: u32, is_direct: bool, is_done: impl Fn(Place) -> bool) -> Option<Cell> {
        let is_free = |cell: &Cell| self.get(*cell).place.is_nowhere();
        let is_over = |cell: &Cell| is_done(self.get(*cell).place);
        near_cells(slot)
            .find(is_free)
            .or_else(|| near_cells(slot).find(is_over))
            .or_else(|| far_cells(slot).find(is_free))
            .or_else(|| far_cells(slot).find(is_over))
            .or_else(|| self.least(slot, is_direct))
    }

    /// The fact that is missed least: the oldest of those that came from other lanes. What the lane waited for
    /// itself gives way only to another such.
    fn least(&self, slot: u32, is_direct: bool) -> Option<Cell> {
        near_cells(slot)
            .chain(far_cells(slot))
            .filter(|cell| is_direct || !self.is_direct(*cell))
            .min_by_key(|cell| (self.is_direct(*cell), self.get(*cell).after))
    }

    fn is_direct(&self, cell: Cell) -> bool {
        self.books.is_direct(cell)
    }

    fn get(&self, cell: Cell) -> Fact {
        match cell.0.checked_sub(NEAR) {
            None => self.clock.near.get(cell.0),
            Some(at) => self.far().get(at),
        }
    }

    fn set(&self, cell: Cell, fact: Fact) {
        match cell.0.checked_sub(NEAR) {
            None => {
                self.clock.near.set(cell.0, fact);
                let used = self.clock.used.load(Ordering::Relaxed);
                self.clock.used.store(used | 1 << cell.0, Ordering::Release);
            }
            Some(at) => self.far().set(at, fact),
        }
    }

    /// The second table, made if it is the first time.
    fn far(&self) -> &Facts<FAR> {
        self.clock.far.get_or_init(|| Box::new(Facts::new()))
    }
}

fn near_cells(slot: u32) -> impl Iterator<Item = Cell> {
    Facts::<NEAR>::bucket(slot).map(Cell)
}

fn far_cells(slot: u32) -> impl Iterator<Item = Cell> {
    let Range { start, end } = Facts::<FAR>::bucket(slot);
    (NEAR + start..NEAR + end).map(Cell)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fact(slot: u32, seq: u64, after: u64) -> Fact {
        Fact {
            place: Place::new(slot, seq),
            after,
        }
    }

    fn never(_: Place) -> bool {
        false
    }

    fn wait(clock: &Clock, fact: Fact) {
        clock.lock().wait(fact, never);
    }

    /// What the lane was ordered after at its own seq, slot and seq, the largest of each slot.
    fn at(clock: &Clock, at: u64) -> Vec<(u32, u64)> {
        let mut known = std::collections::BTreeMap::new();
        clock.before(at, |place| {
            let seq = known.entry(place.slot()).or_insert(0);
            *seq = place.seq().max(*seq);
        });
        known.into_iter().collect()
    }

    #[test]
    fn a_waiter_learns_only_what_held_at_the_point() {
        let clock = Clock::new();
        wait(&clock, fact(1, 5, 10));
        wait(&clock, fact(2, 7, 20));
        wait(&clock, fact(1, 6, 30));
        assert_eq!(at(&clock, 10), []);
        assert_eq!(at(&clock, 11), [(1, 5)]);
        assert_eq!(at(&clock, 21), [(1, 5), (2, 7)]);
        assert_eq!(at(&clock, 31), [(1, 6), (2, 7)]);
    }

    #[test]
    fn forgotten_history_claims_nothing() {
        let clock = Clock::new();
        for after in 1..=40 {
            wait(&clock, fact(1, after, after));
        }
        assert_eq!(at(&clock, 2), []);
        assert_eq!(at(&clock, 40), [(1, 39)]);
        assert_eq!(at(&clock, 41), [(1, 40)]);
    }

    #[test]
    fn eighty_lanes_in_a_row_are_remembered_whatever_others_tell() {
        let clock = Clock::new();
        for slot in 0..80 {
            wait(&clock, fact(slot, 1, u64::from(slot)));
        }
        for slot in 80..300 {
            clock.lock().hear(fact(slot, 1, 100), never);
        }
        assert!((0..80).all(|slot| clock.covers(slot, 1)));
    }

    #[test]
    fn what_is_done_gives_way_first() {
        let clock = Clock::new();
        for slot in 0..80 {
            wait(&clock, fact(slot, 1, 100 - u64::from(slot)));
        }
        clock
            .lock()
            .wait(fact(80, 1, 200), |place| place.slot() == 20);
        assert!(clock.covers(80, 1));
        assert!((0..80).all(|slot| clock.covers(slot, 1) == (slot != 20)));
    }

    #[test]
    fn a_cleared_clock_knows_nothing() {
        let clock = Clock::new();
        for slot in 0..80 {
            wait(&clock, fact(slot, 1, 1));
            wait(&clock, fact(slot, 2, 2));
        }
        clock.lock().clear();
        assert!((0..80).all(|slot| !clock.covers(slot, 1)));
        assert_eq!(at(&clock, 3), []);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Readers without a lock against a writer that replaces what they read.

    use super::*;
    use piton_sync::{
        atomic::{AtomicU64, Ordering},
        model, thread,
    };
    use std::sync::Arc;

    fn fact(slot: u32, seq: u64, after: u64) -> Fact {
        Fact {
            place: Place::new(slot, seq),
            after,
        }
    }

    // The spawned thread reads in each of them, so that loom runs the writer first: it remembers one access a
    // word, and a writer that looks before it writes would hide an earlier read of another thread.

    #[test]
    fn whoever_joins_an_old_point_learns_nothing_of_later_waits() {
        model(|| {
            let clock = Arc::new(Clock::new());
            clock.lock().wait(fact(1, 5, 0), |_| false);
            let reader = {
                let clock = Arc::clone(&clock);
                thread::spawn(move || {
                    // The lane's own seq 2 came before it waited for (1, 9) and after it waited for (1, 5).
                    let mut learnt = 0;
                    clock.before(2, |place| learnt = place.seq().max(learnt));
                    learnt
                })
            };
            clock.lock().wait(fact(1, 9, 3), |_| false);
            let learnt = reader.join().unwrap();
            assert_eq!(learnt, 5, "the old fact is somewhere, the new not true");
        });
    }

    #[test]
    fn a_cell_given_to_another_slot_never_claims_what_held_later() {
        model(|| {
            let clock = Arc::new(Clock::new());
            clock.lock().wait(fact(1, 5, 0), |_| false);
            let reader = {
                let clock = Arc::clone(&clock);
                let only = Place::new(1, 5);
                thread::spawn(move || clock.before(2, |place| assert_eq!(place, only)))
            };
            clock.lock().wait(fact(2, 9, 3), |_| true);
            reader.join().unwrap();
        });
    }

    #[test]
    fn whoever_is_told_of_an_order_sees_the_wait_that_made_it() {
        model(|| {
            let clock = Arc::new(Clock::new());
            let enqueued = Arc::new(AtomicU64::new(0));
            let asker = {
                let (clock, enqueued) = (Arc::clone(&clock), Arc::clone(&enqueued));
                thread::spawn(move || {
                    if clock.covers(1, 5) {
                        assert_eq!(enqueued.load(Ordering::Relaxed), 1);
                    }
                })
            };
            enqueued.store(1, Ordering::Relaxed);
            clock.lock().wait(fact(1, 5, 0), |_| false);
            asker.join().unwrap();
        });
    }
}
