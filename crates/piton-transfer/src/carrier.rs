//! A lane that carries one leg of a part, or of a pattern.

use crate::{
    TransferError,
    end::{End, Ends},
    way::Leg,
};
use piton_driver::Priority;
use piton_stream::{Stream, StreamError};
use piton_sync::atomic::{AtomicBool, Ordering};
use piton_timeline::Timepoint;

/// A lane that carries one leg.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) leg: Leg,
    pub(crate) lane: Stream,
    /// Its last command.
    last: Option<Timepoint>,
    /// Said by its last command, which is skipped if any before it failed.
    ended_well: AtomicBool,
    /// It was aborted as it took too long.
    overdue: AtomicBool,
}

impl Carrier {
    /// A lane of this device for a leg, as urgent as said, nothing submitted.
    pub(crate) fn on(end: &End, leg: Leg, urgency: Priority) -> Result<Self, TransferError> {
        Ok(Self {
            leg,
            lane: end.lanes.take(urgency)?,
            last: None,
            ended_well: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
        })
    }

    /// Its last command ends at `point`.
    pub(crate) fn reaches(&mut self, point: Timepoint) {
        self.last = Some(point);
    }

    pub(crate) fn last(&self) -> Option<Timepoint> {
        self.last
    }

    /// All it was given has ended well.
    pub(crate) fn note_well(&self) {
        self.ended_well.store(true, Ordering::Relaxed);
    }

    /// Asked when the lane has ended, which whoever asks has learnt through something that orders it.
    pub(crate) fn has_ended_well(&self) -> bool {
        self.ended_well.load(Ordering::Relaxed)
    }

    /// Ends what it has not begun and what hangs.
    pub(crate) fn abort(&self) -> Result<(), StreamError> {
        self.overdue.store(true, Ordering::Relaxed);
        self.lane.abort()
    }

    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }

    /// Its lane is for others. All it was given has ended.
    pub(crate) fn give_back(self, ends: &Ends) {
        if let Ok(end) = ends.get(self.lane.device().info().id) {
            end.lanes.give_back(self.lane);
        }
    }
}
