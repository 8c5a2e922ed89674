//! The owner's handle of one lane.

use crate::{LaneId, Timeline, Timepoint};
use std::sync::Arc;

/// One in-order sequence of work, owned by a stream.
///
/// Dropping it retires the lane: its timepoints stay valid, its slot is given to another lane once everything
/// submitted is done.
#[derive(Debug)]
pub struct Lane {
    timeline: Arc<Timeline>,
    id: LaneId,
    base: u64,
}

impl Lane {
    pub(crate) fn new(timeline: Arc<Timeline>, id: LaneId, base: u64) -> Self {
        Self { timeline, id, base }
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

    /// The place after everything submitted so far.
    pub fn now(&self) -> Timepoint {
        let seq = self
            .timeline
            .slot(self.id.index)
            .map_or(self.base, |slot| slot.submitted());
        Timepoint { lane: self.id, seq }
    }

    /// The place after the `n`-th submission of this lane, from 1. Zero is its beginning.
    pub fn at(&self, n: u64) -> Timepoint {
        Timepoint {
            lane: self.id,
            seq: self.base.saturating_add(n),
        }
    }

    /// Says that `n` submissions were made in all. Smaller numbers than before change nothing.
    pub fn submit(&self, n: u64) -> Timepoint {
        let point = self.at(n);
        if let Some(slot) = self.timeline.slot(self.id.index) {
            slot.submit(point.seq);
        }
        point
    }

    /// Says that the first `n` submissions are done. For lanes without a [`Progress`](crate::Progress).
    ///
    /// What the work wrote must be visible to the caller; whoever sees the completion sees it too.
    pub fn complete(&self, n: u64) {
        if let Some(slot) = self.timeline.slot(self.id.index) {
            slot.complete(self.at(n).seq.min(slot.submitted()));
        }
    }

    /// Says that submission `n` failed. Comes before the `complete` that covers it.
    pub fn fail(&self, n: u64) {
        if let Some(slot) = self.timeline.slot(self.id.index) {
            slot.fail(self.at(n).seq);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.timeline.retire(self.id.index);
    }
}
