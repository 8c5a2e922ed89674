//! One lane's place in the timeline, and its counters.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `submitted` | the lane's owner or its source, by `fetch_max` | Release; pairs with Acquire loads in `retire` and queries |
//! | `done` | anyone who learnt of completions, by `fetch_max` | Release after the work; an Acquire load that reads it sees the work |
//! | `failed` | as `done`, by `fetch_min` | Release, before the `done` that covers it |
//! | `generation` | the timeline, under its lock, when a slot gets a new tenant | Release; read after the clock's words |
//!
//! **Numbers never go back, not even between tenants.** A new lane starts at the seq where the old one stopped
//! (`base`), so a late completion of the old lane raises `done` to at most `base`, and a stale timepoint is at
//! most `base`, hence complete. Nothing needs to read generation and counter together.
//!
//! That argument needs `done <= submitted` at all times. A device may end a command before its lane's owner has
//! announced it, so what a source says is cut at `submitted`; and it is published under the source's lock, the
//! lock under which the next tenant's base is read. A source that counts submissions raises `submitted` itself,
//! under that lock too; the owner announces them all before it drops the lane, so the base is no less.

use crate::{Timepoint, clock::Clock, facts::Fact, place::Place, timepoint::LaneId};
use piton_sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
use std::{fmt, mem, sync::Arc};

/// Where a lane's completions come from, when nobody calls [`Lane::complete`](crate::Lane::complete).
///
/// Whoever implements this is trusted with memory safety by the pools above: a number that comes too early
/// lets memory be reused under running work. The facade offers no way to implement it from outside.
pub trait Progress: Send + Sync {
    /// How many submissions of the source have ended, counted from 1. Never decreases. Does not block. What
    /// the work wrote is visible to the caller.
    fn completed(&self) -> u64;

    /// The first submission that failed, if one has. Does not block. Asked after [`completed`](Self::completed).
    fn failed(&self) -> Option<u64> {
        None
    }

    /// How many submissions there were, where the source counts them too: then the owner need not announce each,
    /// but all of them before it drops the lane. Does not block. Asked after [`completed`](Self::completed), and
    /// no less than that.
    fn submitted(&self) -> Option<u64> {
        None
    }
}

/// A lane has not failed while its word holds this.
const NOT_FAILED: u64 = u64::MAX;

/// The highest base a tenant gets: from here on each still has 2^47 submissions that a clock can tell apart.
const BASE_LIMIT: u64 = 1 << 47;

/// Whether a new lane may have the slot of one that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vacancy {
    /// Work of the old one is under way.
    Pending,
    /// It may.
    Free,
    /// None may ever: its seqs or generations are nearly used up.
    UsedUp,
}

struct Source {
    progress: Arc<dyn Progress>,
    /// The lane's seq at the source's zero.
    base: u64,
}

/// A new lane in a slot.
pub(crate) struct Settled {
    pub(crate) generation: u32,
    pub(crate) base: u64,
    /// The source of the lane before it, to be dropped under no lock: it may be the last handle of a queue, and of what
    /// the queue's commands keep.
    pub(crate) former: Option<Arc<dyn Progress>>,
}

/// The counters of one lane, in six cache lines: what others ask of it in the first, its clock in the rest. Only its own
/// waits write the clock.
#[repr(C, align(64))]
pub(crate) struct Slot {
    done: AtomicU64,
    submitted: AtomicU64,
    failed: AtomicU64,
    generation: AtomicU32,
    source: Mutex<Option<Source>>,
    clock: Clock,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("submitted", &self.submitted())
            .field("done", &self.done())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            done: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            failed: AtomicU64::new(NOT_FAILED),
            generation: AtomicU32::new(0),
            source: Mutex::new(None),
            clock: Clock::new(),
        }
    }

    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Pairs with the Release in [`complete`](Self::complete).
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn failed(&self) -> Option<u64> {
        let failed = self.failed.load(Ordering::Acquire);
        (failed != NOT_FAILED).then_some(failed)
    }

    pub(crate) fn submit(&self, seq: u64) {
        self.submitted.fetch_max(seq, Ordering::Release);
    }

    pub(crate) fn complete(&self, seq: u64) {
        self.done.fetch_max(seq, Ordering::Release);
    }

    pub(crate) fn fail(&self, seq: u64) {
        self.failed.fetch_min(seq, Ordering::Release);
    }

    /// Asks the source, if there is one, and returns what is done now. The source is called under the slot's
    /// source lock: it does not block by contract.
    ///
    /// The source is asked for its completions first and for its failure second, and they are published the
    /// other way round: whoever sees that failed work has ended sees that it failed. Nothing is written where
    /// nothing has ended since.
    // Not inlined: whoever asks looks at `done` first, and that is to stay a few instructions.
    #[inline(never)]
    pub(crate) fn refresh(&self) -> u64 {
        let source = self.source.lock();
        let known = self.done();
        let Some(Source { progress, base }) = &*source else {
            return known;
        };
        let completed = base.saturating_add(progress.completed());
        if completed <= known {
            return known;
        }
        if let Some(failed) = progress.failed() {
            self.fail(base.saturating_add(failed));
        }
        if let Some(submitted) = progress.submitted() {
            self.submit(base.saturating_add(submitted));
        }
        let done = completed.min(self.submitted());
        self.complete(done);
        done
    }

    /// Whether everything submitted is done.
    pub(crate) fn is_drained(&self) -> bool {
        let submitted = self.submitted();
        self.done() >= submitted || self.refresh() >= submitted
    }

    /// Whether a new tenant may have the slot of an ended lane.
    pub(crate) fn vacancy(&self) -> Vacancy {
        if !self.is_drained() {
            Vacancy::Pending
        } else if self.submitted() <= BASE_LIMIT && self.generation() < u32::MAX {
            Vacancy::Free
        } else {
            Vacancy::UsedUp
        }
    }

    /// Calls `learn` with every place that the tenant is known to be ordered after.
    pub(crate) fn known(&self, learn: impl FnMut(Place)) {
        self.clock.before(u64::MAX, learn);
    }

    /// Whether what `lane` submits from now on is ordered after seq `seq` of slot `other`. Takes no lock.
    ///
    /// The generation is read last: who reads a word that a new tenant's wait left sees that it is a new
    /// tenant's, since the generation is written before the tenant exists.
    #[inline]
    pub(crate) fn is_ordered(&self, lane: LaneId, other: u32, seq: u64) -> bool {
        self.clock.covers(other, seq) && self.generation() == lane.generation
    }

    /// Whether the submission `at` of the slot's lane is ordered after seq `seq` of slot `other`. Takes no lock; the generation
    /// is read last, as in [`is_ordered`](Self::is_ordered).
    pub(crate) fn was_ordered(&self, at: Timepoint, other: u32, seq: u64) -> bool {
        let mut is_known = false;
        let look = |place: Place| is_known |= place.covers(other, seq);
        self.clock.before(at.seq, look);
        is_known && self.generation() == at.lane.generation
    }

    /// Notes that `lane` has enqueued a wait for seq `seq` of slot `other`, whose own slot is `awaited`.
    pub(crate) fn note_wait(
        &self,
        lane: LaneId,
        after: u64,
        (other, seq, awaited): (u32, u64, &Self),
        is_done: impl Fn(Place) -> bool,
    ) {
        let mut pen = self.clock.lock();
        // A new tenant's generation is written before the clock is cleared for it, under this lock.
        if self.generation() != lane.generation {
            return;
        }
        let place = Place::new(other, seq);
        pen.wait(Fact { place, after }, &is_done);
        awaited.clock.before(seq, |place| {
            if place.slot() != lane.index {
                pen.hear(Fact { place, after }, &is_done);
            }
        });
    }

    /// Gives the drained slot to a new lane. Called under the timeline's lock.
    ///
    /// All under the source's lock, so that the old tenant's source can say nothing once the new tenant's
    /// words are being written.
    pub(crate) fn settle(&self, progress: Option<Arc<dyn Progress>>, is_first: bool) -> Settled {
        let mut source = self.source.lock();
        let base = self.submitted();
        let generation = self.generation().saturating_add(u32::from(!is_first));
        self.generation.store(generation, Ordering::Release);
        self.failed.store(NOT_FAILED, Ordering::Release);
        self.clock.lock().clear();
        let new = progress.map(|progress| Source { progress, base });
        let former = mem::replace(&mut *source, new);
        Settled {
            generation,
            base,
            former: former.map(|source| source.progress),
        }
    }

    /// Forgets the source of a drained lane.
    pub(crate) fn close(&self) {
        let source = self.source.lock().take();
        drop(source);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lane_takes_two_kilobytes_at_most() {
        let (slot, later) = (size_of::<Slot>(), Clock::LATER_BYTES);
        assert!(slot + later <= 2048, "{slot} + {later} bytes");
        assert!(slot <= 384, "{slot} bytes of a lane that never waited");
    }
}
