//! The lanes of a program.
//!
//! Slots live in chunks that are made once and never move, so queries take no lock, of completion and of order
//! alike; only a point that is not known to be done makes its lane's source be asked, under that slot's source
//! lock. Registering and retiring lanes takes one lock, noting a wait the waiting lane's.
//!
//! Lock order: `vacancies`, then a slot's `source`, then its clock. No two slots' locks are held at once.

use crate::{
    Frontier, Lane, LaneId, Progress, Reuse, TimelineError, Timepoint, WaitNeed, Watch,
    place::Place,
    slot::{Slot, Vacancy},
    vacancies::Vacancies,
};
use piton_sync::{ForkMark, Mutex};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

#[cfg(not(loom))]
const CHUNK: u32 = 64;
#[cfg(not(loom))]
const CHUNKS: u32 = 1024;
#[cfg(loom)]
const CHUNK: u32 = 2;
#[cfg(loom)]
const CHUNKS: u32 = 1;

/// Slots that are made together.
pub(crate) type Chunk = Arc<[Slot]>;

/// All lanes that may wait for each other.
pub struct Timeline {
    chunks: Box<[OnceLock<Chunk>; CHUNKS as usize]>,
    vacancies: Mutex<Vacancies>,
    fork: ForkMark,
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("vacancies", &self.vacancies)
            .finish_non_exhaustive()
    }
}

impl Timeline {
    /// How many lanes there can be at once.
    pub const LANES: u32 = CHUNK * CHUNKS;

    /// A timeline without lanes.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            chunks: Box::new([const { OnceLock::new() }; CHUNKS as usize]),
            vacancies: Mutex::new(Vacancies::default()),
            fork: ForkMark::new(),
        })
    }

    /// Whether this process is a fork of the one that made the timeline. In a fork, locks of the timeline and of all that
    /// is ordered by it may be held by threads that are not there: destructors ask this first, and take none then.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.fork.is_fork()
    }

    /// A new lane, whose completions come from `progress` or, without one, from [`Lane::complete`].
    ///
    /// # Errors
    /// [`TimelineError::TooManyLanes`] when [`Timeline::LANES`] are in use.
    pub fn register(
        self: &Arc<Self>,
        progress: Option<Arc<dyn Progress>>,
    ) -> Result<Lane, TimelineError> {
        let limit = Self::LANES;
        let mut vacancies = self.vacancies.lock();
        let given = vacancies
            .take(limit, |index| self.vacancy(index))
            .ok_or(TimelineError::TooManyLanes { limit })?;
        let (chunk, at) = place_of(given.index);
        let chunk = self.chunks[chunk].get_or_init(make_chunk);
        let settled = chunk[at].settle(progress, given.is_first);
        drop(vacancies);
        drop(settled.former);
        let id = LaneId {
            index: given.index,
            generation: settled.generation,
        };
        let (timeline, chunk) = (Arc::clone(self), Arc::clone(chunk));
        Ok(Lane::new(timeline, chunk, id, settled.base))
    }

    /// Whether everything up to the point is done. Does not block: one load if it is known, else the lane's
    /// source is asked. A point of a lane that ended is done; a point that was never submitted is not.
    #[inline]
    pub fn is_complete(&self, point: Timepoint) -> bool {
        self.slot(point.lane.index)
            .is_some_and(|slot| slot.done() >= point.seq || slot.refresh() >= point.seq)
    }

    /// As [`is_complete`](Self::is_complete), from what is known already: one Acquire load.
    #[inline]
    pub fn is_known_complete(&self, point: Timepoint) -> bool {
        self.slot(point.lane.index)
            .is_some_and(|slot| slot.done() >= point.seq)
    }

    /// The lane's slot at hand, for who asks often whether its points are [known complete](Self::is_known_complete); `None` where
    /// the timeline has no such slot as yet.
    pub fn watch(&self, lane: LaneId) -> Option<Watch> {
        let (chunk, _) = place_of(lane.index);
        let chunk = self.chunks.get(chunk)?.get()?;
        Some(Watch::new(Arc::clone(chunk), lane.index))
    }

    /// Whether the point is at or past its lane's first failure. Once the lane's slot has a new tenant the
    /// failure is forgotten.
    pub fn has_failed(&self, point: Timepoint) -> bool {
        let Some(slot) = self.slot(point.lane.index) else {
            return false;
        };
        slot.generation() == point.lane.generation
            && slot.failed().is_some_and(|failed| failed <= point.seq)
    }

    /// Whether the point's lane has its slot still and is known to have submitted so much. One that is not known
    /// may have been announced by nobody yet.
    pub fn is_known_submitted(&self, point: Timepoint) -> bool {
        self.slot(point.lane.index).is_some_and(|slot| {
            let submitted = slot.submitted();
            submitted >= point.seq && slot.generation() == point.lane.generation
        })
    }

    /// What `lane` must do before work that depends on `point`. Does not block. Takes no lock, unless neither
    /// what is known to be done nor the clock answers and the point's source must be asked.
    #[inline]
    pub fn wait_need(&self, lane: LaneId, point: Timepoint) -> WaitNeed {
        self.need(lane, || self.slot(lane.index), point)
    }

    /// As [`wait_need`](Self::wait_need), for a lane whose slot `waiter` finds if it matters.
    #[inline]
    pub(crate) fn need<'a>(
        &'a self,
        lane: LaneId,
        waiter: impl FnOnce() -> Option<&'a Slot>,
        point: Timepoint,
    ) -> WaitNeed {
        let Some(awaited) = self.slot(point.lane.index) else {
            return WaitNeed::Wait(point);
        };
        if awaited.done() >= point.seq {
            return WaitNeed::Done;
        }
        let is_ordered = |slot: &Slot| slot.is_ordered(lane, point.lane.index, point.seq);
        if point.lane == lane || waiter().is_some_and(is_ordered) {
            return WaitNeed::Ordered;
        }
        if awaited.refresh() >= point.seq {
            return WaitNeed::Done;
        }
        WaitNeed::Wait(point)
    }

    /// Whether a lane's own submission `at` is known to come after `point`, by waits that stood before it. Takes no lock.
    /// What the clock has forgotten, or never learnt, it does not claim; nor anything of a lane that ended.
    pub fn is_known_behind(&self, at: Timepoint, point: Timepoint) -> bool {
        if at.lane == point.lane {
            return at.seq >= point.seq;
        }
        self.slot(at.lane.index)
            .is_some_and(|slot| slot.was_ordered(at, point.lane.index, point.seq))
    }

    /// What [`Lane::note_wait`] says, for a lane whose slot `waiter` finds.
    #[inline]
    pub(crate) fn note<'a>(
        &'a self,
        lane: LaneId,
        waiter: impl FnOnce() -> Option<&'a Slot>,
        point: Timepoint,
        after: Timepoint,
    ) {
        let (Some(waiter), Some(awaited)) = (waiter(), self.slot(point.lane.index)) else {
            return;
        };
        if lane.index == point.lane.index {
            // Its own work, or that of a lane which had the slot before and has drained.
            return;
        }
        let is_done = |place: Place| {
            let slot = self.slot(place.slot());
            slot.is_some_and(|slot| slot.done() >= place.seq())
        };
        let awaited = (point.lane.index, point.seq, awaited);
        waiter.note_wait(lane, after.seq, awaited, is_done);
    }

    /// Whether memory last used at `uses` may be used by `taker`. Does not block; allocates only to name more
    /// than two points that must be waited for.
    ///
    /// Without a taker (host access, or memory handed to nobody in particular) the answer is `Now` or `No`.
    #[inline]
    pub fn reuse(&self, uses: &Frontier, taker: Option<LaneId>) -> Reuse {
        // Most memory was last used at one place, by which most of it is free: no calls, and nothing to keep over them.
        if let (Some(lane), Some(point)) = (taker, uses.single())
            && self.is_known_free(lane, point)
        {
            return Reuse::Now;
        }
        self.reuse_of_any(uses, taker)
    }

    /// Asks the lane's source how far it is. After that, whatever of the lane has ended is
    /// [known](Self::is_known_complete) to have. Does not block; for whoever has many questions about few lanes.
    pub fn refresh(&self, lane: LaneId) {
        if let Some(slot) = self.slot(lane.index) {
            slot.refresh();
        }
    }

    /// Whether `lane` may use memory that was last used at the point, from what is known: no source is asked. Takes no lock.
    #[inline]
    pub fn is_known_free(&self, lane: LaneId, point: Timepoint) -> bool {
        let Some(awaited) = self.slot(point.lane.index) else {
            return false;
        };
        let is_ordered = |slot: &Slot| slot.is_ordered(lane, point.lane.index, point.seq);
        awaited.done() >= point.seq
            || point.lane == lane
            || self.slot(lane.index).is_some_and(is_ordered)
    }

    /// As [`reuse`](Self::reuse), for any number of points, asking sources.
    fn reuse_of_any(&self, uses: &Frontier, taker: Option<LaneId>) -> Reuse {
        let points = uses.points();
        let Some(lane) = taker else {
            return if points.iter().all(|point| self.is_complete(*point)) {
                Reuse::Now
            } else {
                Reuse::No
            };
        };
        match points.iter().position(|point| self.holds_up(lane, point)) {
            None => Reuse::Now,
            Some(first) => self.after_waits(lane, &points[first..]),
        }
    }

    /// Whether `lane` must wait before it takes memory that was used at the point.
    #[inline]
    fn holds_up(&self, lane: LaneId, point: &Timepoint) -> bool {
        let waiter = || self.slot(lane.index);
        point.lane != lane && matches!(self.need(lane, waiter, *point), WaitNeed::Wait(_))
    }

    /// The answer where the first of `points` must be waited for. Apart, so that `Now` costs no more than finding out.
    #[inline(never)]
    fn after_waits(&self, lane: LaneId, points: &[Timepoint]) -> Reuse {
        let Some((first, rest)) = points.split_first() else {
            return Reuse::Now;
        };
        let mut waits = Frontier::from(*first);
        let needed = rest.iter().filter(|point| self.holds_up(lane, point));
        needed.for_each(|point| waits.insert(*point));
        Reuse::AfterWait(waits)
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        let (chunk, at) = place_of(index);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// The lane that had the slot was dropped.
    pub(crate) fn retire(&self, index: u32, slot: &Slot) {
        let vacancy = slot.vacancy();
        if vacancy != Vacancy::Pending {
            slot.close();
        }
        self.vacancies.lock().retire(index, vacancy);
    }

    fn vacancy(&self, index: u32) -> Vacancy {
        self.slot(index).map_or(Vacancy::UsedUp, Slot::vacancy)
    }
}

/// The chunk of a slot, and where in the chunk it is.
#[inline]
pub(crate) fn place_of(index: u32) -> (usize, usize) {
    ((index / CHUNK) as usize, (index % CHUNK) as usize)
}

fn make_chunk() -> Chunk {
    (0..CHUNK).map(|_| Slot::new()).collect()
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Slot generation against a late signal or a late question, and memory taken against its last reader.

    use super::*;
    use piton_sync::{
        UnsafeCell,
        atomic::{AtomicBool, AtomicU64, Ordering},
        model, thread,
    };

    struct Cell(UnsafeCell<u32>);

    /// A device that ends one command more than was announced, the first of which failed.
    #[derive(Default)]
    struct RunsAhead(AtomicBool);

    impl Progress for RunsAhead {
        fn completed(&self) -> u64 {
            if self.0.load(Ordering::Acquire) { 2 } else { 0 }
        }

        fn failed(&self) -> Option<u64> {
            self.0.load(Ordering::Acquire).then_some(1)
        }
    }

    #[test]
    fn a_late_look_at_the_old_source_says_nothing_of_the_next_tenant() {
        model(|| {
            let timeline = Timeline::new();
            let source = Arc::new(RunsAhead::default());
            let first = timeline.register(Some(source.clone())).unwrap();
            let stale = first.submit(1);
            let unborn = first.at(2);
            let late = Arc::clone(&timeline);
            let looker = thread::spawn(move || {
                source.0.store(true, Ordering::Release);
                late.is_complete(unborn)
            });
            drop(first);
            let second = timeline.register(None).unwrap();
            looker.join().unwrap();
            let point = second.submit(1);
            assert!(!timeline.is_complete(point));
            second.complete(1);
            assert!(!timeline.has_failed(point));
            assert!(timeline.is_complete(stale));
        });
    }

    /// A device that counts what it was given, all of which has ended.
    struct CountsBoth(u64);

    impl Progress for CountsBoth {
        fn completed(&self) -> u64 {
            self.0
        }

        fn submitted(&self) -> Option<u64> {
            Some(self.0)
        }
    }

    #[test]
    fn a_source_that_counts_submissions_counts_none_of_the_next_tenant() {
        model(|| {
            let timeline = Timeline::new();
            let first = timeline.register(Some(Arc::new(CountsBoth(2)))).unwrap();
            let last = first.at(2);
            let late = Arc::clone(&timeline);
            let looker = thread::spawn(move || late.is_complete(last));
            first.submit(2);
            drop(first);
            let second = timeline.register(None).unwrap();
            assert_eq!(second.now(), second.at(0));
            let point = second.submit(1);
            assert!(!timeline.is_complete(point));
            assert!(looker.join().unwrap());
            assert!(!timeline.is_complete(point));
        });
    }

    #[test]
    fn a_late_completion_never_completes_the_next_tenant() {
        model(|| {
            let timeline = Timeline::new();
            let first = timeline.register(None).unwrap();
            let stale = first.submit(1);
            first.complete(1);
            let late = Arc::clone(&timeline);
            let completer = thread::spawn(move || {
                if let Some(slot) = late.slot(stale.lane.index) {
                    slot.complete(stale.seq);
                }
            });
            drop(first);
            let second = timeline.register(None).unwrap();
            let point = second.submit(1);
            assert!(!timeline.is_complete(point));
            completer.join().unwrap();
            assert!(!timeline.is_complete(point));
            assert!(timeline.is_complete(stale));
        });
    }

    #[test]
    fn an_ended_lane_is_told_nothing_of_what_its_slot_learns() {
        model(|| {
            let timeline = Timeline::new();
            let other = timeline.register(None).unwrap();
            let pending = other.submit(1);
            let ended = timeline.register(None).unwrap();
            let stale = ended.id();
            let late = Arc::clone(&timeline);
            let asker = thread::spawn(move || late.wait_need(stale, pending));
            drop(ended);
            let tenant = timeline.register(None).unwrap();
            assert_eq!(tenant.id().index, stale.index);
            tenant.note_wait(pending, tenant.now());
            assert_eq!(asker.join().unwrap(), WaitNeed::Wait(pending));
        });
    }

    /// A reader's device reads a block and ends; two threads want the block for the taker's lane. Whoever gets
    /// it writes it once the taker's commands so far have ended.
    #[test]
    fn whoever_may_take_a_block_never_races_its_last_reader() {
        model(|| {
            let timeline = Timeline::new();
            let reader = timeline.register(None).unwrap();
            let taker = timeline.register(None).unwrap();
            let uses = Frontier::from(reader.submit(1));
            let block = Arc::new(Cell(UnsafeCell::new(0)));
            // Commands on the taker's lane, the first a wait for the reader: a plain number, since only what the
            // timeline says may carry it to other threads.
            let enqueued = Arc::new(AtomicU64::new(0));
            let device = {
                let block = Arc::clone(&block);
                thread::spawn(move || {
                    block.0.with(|_| ());
                    reader.complete(1);
                    reader
                })
            };
            let asker = {
                let (timeline, enqueued) = (Arc::clone(&timeline), Arc::clone(&enqueued));
                let (uses, id) = (uses.clone(), taker.id());
                thread::spawn(move || {
                    let is_free = timeline.reuse(&uses, Some(id)) == Reuse::Now;
                    if is_free && enqueued.load(Ordering::Relaxed) == 0 {
                        // No wait is on the lane, so only the end of the reader's work allows this.
                        block.0.with_mut(|_| ());
                    }
                })
            };
            enqueued.store(1, Ordering::Relaxed);
            taker.note_wait(uses.points()[0], taker.now());
            asker.join().unwrap();
            drop(device.join().unwrap());
        });
    }

    #[test]
    fn completion_publishes_the_work() {
        model(|| {
            let timeline = Timeline::new();
            let lane = timeline.register(None).unwrap();
            let point = lane.submit(1);
            let cell = Arc::new(Cell(UnsafeCell::new(0)));
            let worker = {
                let cell = Arc::clone(&cell);
                thread::spawn(move || {
                    cell.0.with_mut(|_| ());
                    lane.complete(1);
                    lane
                })
            };
            if timeline.is_complete(point) {
                cell.0.with(|_| ());
            }
            drop(worker.join().unwrap());
        });
    }
}
