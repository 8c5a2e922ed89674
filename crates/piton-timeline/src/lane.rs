//! The owner's handle of one lane.

use crate::{
    LaneId, Timeline, Timepoint, WaitNeed,
    slot::Slot,
    timeline::{Chunk, place_of},
};
use std::{fmt, sync::Arc};

/// One in-order sequence of work, owned by a stream.
///
/// Dropping it retires the lane: its timepoints stay valid, its slot is given to another lane once everything
/// submitted is done.
pub struct Lane {
    timeline: Arc<Timeline>,
    /// The slots among which its own is, at hand: asking for `now` looks nothing up.
    chunk: Chunk,
    id: LaneId,
    base: u64,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("id", &self.id)
            .field("base", &self.base)
            .field("slot", self.slot())
            .finish_non_exhaustive()
    }
}

impl Lane {
    pub(crate) fn new(timeline: Arc<Timeline>, chunk: Chunk, id: LaneId, base: u64) -> Self {
        Self {
            timeline,
            chunk,
            id,
            base,
        }
    }

    /// Which lane this is.
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// The timeline it belongs to.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The seq before the lane's first submission: what its slot's earlier lanes had reached.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The place after everything announced so far. One Acquire load. A source that
    /// [counts submissions](crate::Progress::submitted) knows of more.
    #[inline]
    pub fn now(&self) -> Timepoint {
        Timepoint {
            lane: self.id,
            seq: self.slot().submitted(),
        }
    }

    /// The place after the `n`-th submission of this lane, from 1. Zero is its beginning.
    #[inline]
    pub fn at(&self, n: u64) -> Timepoint {
        Timepoint {
            lane: self.id,
            seq: self.base.saturating_add(n),
        }
    }

    /// Says that `n` submissions were made in all. Smaller numbers than before change nothing.
    pub fn submit(&self, n: u64) -> Timepoint {
        let point = self.at(n);
        self.slot().submit(point.seq);
        point
    }

    /// Says that the first `n` submissions are done. For lanes without a [`Progress`](crate::Progress).
    ///
    /// What the work wrote must be visible to the caller; whoever sees the completion sees it too.
    pub fn complete(&self, n: u64) {
        let slot = self.slot();
        slot.complete(self.at(n).seq.min(slot.submitted()));
    }

    /// Says that submission `n` failed. Comes before the `complete` that covers it.
    pub fn fail(&self, n: u64) {
        self.slot().fail(self.at(n).seq);
    }

    /// As [`Timeline::wait_need`] for this lane, without looking its slot up.
    pub fn wait_need(&self, point: Timepoint) -> WaitNeed {
        self.timeline.need(self.id, || Some(self.slot()), point)
    }

    /// Notes that this lane has enqueued a wait for `point`: its submissions after `after` are ordered behind it, and
    /// behind what `point` was itself ordered after.
    ///
    /// Memory passes to this lane by what is said here, so only who has the lane can say it.
    ///
    /// Allocates nothing, but for two tables that a lane's clock gets once: a small one when it first replaces what it
    /// knew, and one of a kilobyte when it first knows of more than sixteen others.
    #[inline]
    pub fn note_wait(&self, point: Timepoint, after: Timepoint) {
        self.timeline
            .note(self.id, || Some(self.slot()), point, after);
    }

    /// Whether what this lane submits from now on is ordered after the point: because the point is its own, or by
    /// waits, its own or others'. Takes no lock, and does not ask whether the point is done.
    #[inline]
    pub fn is_ordered_after(&self, point: Timepoint) -> bool {
        point.lane == self.id || self.slot().is_ordered(self.id, point.lane.index, point.seq)
    }

    /// Asks the source of this lane, and of everything that it is ordered after, how far it is. After that whatever of it has
    /// ended is [known](Timeline::is_known_complete) to have: all of it, if the lane has drained.
    pub fn look_again(&self) {
        self.slot().refresh();
        self.slot().known(|place| {
            if let Some(slot) = self.timeline.slot(place.slot()) {
                slot.refresh();
            }
        });
    }

    #[inline]
    fn slot(&self) -> &Slot {
        &self.chunk[place_of(self.id.index).1]
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            return;
        }
        self.timeline.retire(self.id.index, self.slot());
    }
}
