//! The lanes of a program.
//!
//! Slots live in chunks that are made once and never move, so queries take no lock. Registering and retiring
//! lanes takes one lock; queries of the clock take the lock of the lane asked about.
//!
//! Lock order: `vacancies`, then a slot's `source`, then its `clock`. No two clocks are locked at once: what is
//! joined is copied out first.

use crate::{
    Frontier, Lane, LaneId, Progress, Reuse, TimelineError, Timepoint, WaitNeed, slot::Slot,
};
use piton_sync::Mutex;
use std::sync::{Arc, OnceLock};

#[cfg(not(loom))]
const CHUNK: u32 = 64;
#[cfg(not(loom))]
const CHUNKS: u32 = 1024;
#[cfg(loom)]
const CHUNK: u32 = 2;
#[cfg(loom)]
const CHUNKS: u32 = 1;

/// Slots that no lane owns.
#[derive(Debug, Default)]
struct Vacancies {
    /// Slots never used so far start here.
    next: u32,
    /// Slots whose lane was dropped; the oldest first. Some may still have work under way.
    retired: Vec<u32>,
}

/// All lanes that may wait for each other.
#[derive(Debug)]
pub struct Timeline {
    chunks: Vec<OnceLock<Box<[Slot]>>>,
    vacancies: Mutex<Vacancies>,
}

impl Timeline {
    /// How many lanes there can be at once.
    pub const LANES: u32 = CHUNK * CHUNKS;

    /// A timeline without lanes.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            vacancies: Mutex::new(Vacancies::default()),
        })
    }

    /// A new lane, whose completions come from `progress` or, without one, from [`Lane::complete`].
    ///
    /// # Errors
    /// [`TimelineError::TooManyLanes`] when [`Timeline::LANES`] are in use.
    pub fn register(
        self: &Arc<Self>,
        progress: Option<Arc<dyn Progress>>,
    ) -> Result<Lane, TimelineError> {
        let mut vacancies = self.vacancies.lock();
        let (index, is_first) = self.vacancy(&mut vacancies)?;
        let slot = self.slot_or_make(index);
        let (generation, base) = slot.settle(progress, is_first);
        drop(vacancies);
        Ok(Lane::new(
            Arc::clone(self),
            LaneId { index, generation },
            base,
        ))
    }

    /// Whether everything up to the point is done. Does not block: one load if it is known, else the lane's
    /// source is asked. A point of a lane that ended is done; a point that was never submitted is not.
    pub fn is_complete(&self, point: Timepoint) -> bool {
        let Some(slot) = self.slot(point.lane.index) else {
            return false;
        };
        slot.done() >= point.seq || slot.refresh() >= point.seq
    }

    /// As [`is_complete`](Self::is_complete), from what is known already: one Acquire load.
    pub fn is_known_complete(&self, point: Timepoint) -> bool {
        self.slot(point.lane.index)
            .is_some_and(|slot| slot.done() >= point.seq)
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

    /// What `lane` must do before work that depends on `point`. Does not block.
    pub fn wait_need(&self, lane: LaneId, point: Timepoint) -> WaitNeed {
        if self.is_known_complete(point) {
            WaitNeed::Done
        } else if self.is_ordered(point, lane) {
            WaitNeed::Ordered
        } else if self.is_complete(point) {
            WaitNeed::Done
        } else {
            WaitNeed::Wait(point)
        }
    }

    /// Notes that `lane` has enqueued a wait for `point`: its submissions after `after` are ordered behind it,
    /// and behind what `point` was itself ordered after. A lane that ended learns nothing.
    pub fn note_wait(&self, lane: LaneId, point: Timepoint, after: Timepoint) {
        let (Some(waiter), Some(awaited)) = (self.slot(lane.index), self.slot(point.lane.index))
        else {
            return;
        };
        let mut joined = awaited.clock.lock().at(point.seq);
        joined.push((point.lane.index, point.seq));
        let is_done = |index, seq| self.slot(index).is_some_and(|slot| slot.done() >= seq);
        let mut clock = waiter.clock.lock();
        // A new tenant's generation is written before the clock is cleared for it, under this lock.
        if waiter.generation() == lane.generation {
            clock.join(after.seq, &joined, is_done);
        }
    }

    /// Whether memory last used at `uses` may be used by `taker`. Does not block.
    ///
    /// Without a taker (host access, or memory handed to nobody in particular) the answer is `Now` or `No`.
    pub fn reuse(&self, uses: &Frontier, taker: Option<LaneId>) -> Reuse {
        let mut waits = Frontier::new();
        for point in uses.points() {
            match taker {
                Some(lane) => match self.wait_need(lane, *point) {
                    WaitNeed::Done | WaitNeed::Ordered => {}
                    WaitNeed::Wait(point) => waits.insert(point),
                },
                None if self.is_complete(*point) => {}
                None => return Reuse::No,
            }
        }
        if waits.is_empty() {
            Reuse::Now
        } else {
            Reuse::AfterWait(waits)
        }
    }

    fn is_ordered(&self, point: Timepoint, lane: LaneId) -> bool {
        if point.lane == lane {
            return true;
        }
        let Some(slot) = self.slot(lane.index) else {
            return false;
        };
        let clock = slot.clock.lock();
        slot.generation() == lane.generation && clock.covers(point.lane.index, point.seq)
    }

    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        let chunk = self.chunks.get((index / CHUNK) as usize)?.get()?;
        chunk.get((index % CHUNK) as usize)
    }

    pub(crate) fn retire(&self, index: u32) {
        if let Some(slot) = self.slot(index)
            && slot.is_drained()
        {
            slot.close();
        }
        self.vacancies.lock().retired.push(index);
    }

    fn slot_or_make(&self, index: u32) -> &Slot {
        let chunk = &self.chunks[(index / CHUNK) as usize];
        let slots = chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::new()).collect());
        &slots[(index % CHUNK) as usize]
    }

    /// A slot for a new lane, and whether it is its first.
    fn vacancy(&self, vacancies: &mut Vacancies) -> Result<(u32, bool), TimelineError> {
        let vacant = |index: &u32| self.slot(*index).is_some_and(Slot::is_vacant);
        if let Some(at) = vacancies.retired.iter().position(vacant) {
            return Ok((vacancies.retired.remove(at), false));
        }
        if vacancies.next >= Self::LANES {
            return Err(TimelineError::TooManyLanes { limit: Self::LANES });
        }
        vacancies.next += 1;
        Ok((vacancies.next - 1, true))
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Slot generation against a late signal, and publication of work through `done`.

    use super::*;
    use piton_sync::{
        UnsafeCell,
        atomic::{AtomicBool, Ordering},
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
