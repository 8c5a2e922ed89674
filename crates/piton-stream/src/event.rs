//! Events: a place in a stream's order, kept.

use crate::{
    Completion, Offence, StreamError, capture::CapturedPlace, lane_state::LaneState,
    timestamp::Stamp,
};
use piton_driver::WaitOutcome;
use piton_timeline::Timepoint;
use std::{panic::Location, sync::Arc, time::Instant};

/// A place in a stream's order. Made by [`Stream::record`](crate::Stream::record); never moves.
///
/// Cloning it clones a reference or two. It outlives its stream: when the stream is gone and another has its
/// lane's slot, the event goes on saying how its own work ended.
#[derive(Clone, Debug)]
pub struct Event {
    state: Arc<LaneState>,
    point: Timepoint,
    stamp: Option<Arc<Stamp>>,
    /// Its place in a capture, if it was recorded in one.
    captured: Option<Arc<CapturedPlace>>,
}

impl Drop for Event {
    #[inline]
    fn drop(&mut self) {
        if let Some(stamp) = self.stamp.take() {
            self.state.stamps.take_back(stamp);
        }
    }
}

impl Event {
    pub(crate) fn new(state: Arc<LaneState>, point: Timepoint, stamp: Option<Arc<Stamp>>) -> Self {
        Self {
            state,
            point,
            stamp,
            captured: None,
        }
    }

    /// The event as one recorded in a capture, if there is a place.
    pub(crate) fn with_capture(mut self, captured: Option<Arc<CapturedPlace>>) -> Self {
        self.captured = captured;
        self
    }

    /// Its place in a capture, if it was recorded in one.
    pub(crate) fn captured(&self) -> Option<&Arc<CapturedPlace>> {
        self.captured.as_ref()
    }

    /// The place.
    pub fn timepoint(&self) -> Timepoint {
        self.point
    }

    /// Whether everything before it has ended. Does not block: one load if that is known.
    ///
    /// # Errors
    /// [`Poisoned`](StreamError::Poisoned) if it has, and a command up to here failed or was skipped. While
    /// the answer is `false` the device may still use what those commands named, even if one has failed.
    /// [`Capture`](StreamError::Capture) if it was recorded in a capture, as for every question to such an event.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool, StreamError> {
        if self.captured.is_none() && self.state.is_known_well(self.point) {
            return Ok(true);
        }
        self.ask()
    }

    /// [`query`](Self::query), where the answer is not lying there.
    #[track_caller]
    fn ask(&self) -> Result<bool, StreamError> {
        self.not_captured(Offence::QueryEvent, Location::caller())?;
        self.state.query(self.point)
    }

    /// Blocks the calling thread until everything before it has ended. To make a stream wait and no thread:
    /// [`Stream::wait`](crate::Stream::wait).
    ///
    /// # Errors
    /// As [`query`](Self::query); [`WouldDeadlock`](StreamError::WouldDeadlock) inside a host function of the
    /// same stream; [`Driver`](StreamError::Driver) where the device is lost or knows of a deadlock.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), StreamError> {
        self.not_captured(Offence::WaitOnHost, Location::caller())?;
        self.state.wait(self.point, None).map(drop)
    }

    /// As [`synchronize`](Self::synchronize), until `deadline` at most. One that has passed answers at once.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize). That the deadline passed is no error:
    /// [`DeadlinePassed`](WaitOutcome::DeadlinePassed).
    #[track_caller]
    pub fn synchronize_until(&self, deadline: Instant) -> Result<WaitOutcome, StreamError> {
        self.not_captured(Offence::WaitOnHost, Location::caller())?;
        self.state.wait(self.point, Some(deadline))
    }

    /// A future that ends when everything before it has.
    #[track_caller]
    pub fn completion(&self) -> Completion {
        let refused = self.not_captured(Offence::Completion, Location::caller());
        Completion::new(Some(Arc::clone(&self.state)), self.point).unless(refused)
    }

    /// Whether a time is recorded with it.
    pub fn is_timed(&self) -> bool {
        self.stamp.is_some()
    }

    /// When it was reached, in nanoseconds of the device's clock; `None` until it is. Does not block.
    ///
    /// # Errors
    /// [`NotTimed`](StreamError::NotTimed); [`Poisoned`](StreamError::Poisoned): then no time was written.
    #[track_caller]
    pub fn time_ns(&self) -> Result<Option<u64>, StreamError> {
        let Some(stamp) = &self.stamp else {
            return Err(StreamError::NotTimed { point: self.point });
        };
        self.state.not_forked()?;
        if !self.query()? {
            return Ok(None);
        }
        Ok(stamp.read()?)
    }

    /// Nanoseconds from `start` to `end` on their device's clock, negative if `end` came first; `None` until
    /// both are reached. Does not block.
    ///
    /// # Errors
    /// As [`time_ns`](Self::time_ns); [`DifferentClocks`](StreamError::DifferentClocks) for events of two
    /// devices.
    #[track_caller]
    pub fn elapsed_ns(start: &Self, end: &Self) -> Result<Option<i64>, StreamError> {
        let (from, to) = (start.state.device(), end.state.device());
        if from != to {
            return Err(StreamError::DifferentClocks {
                start: from,
                end: to,
            });
        }
        Ok(match (start.time_ns()?, end.time_ns()?) {
            (Some(from), Some(to)) => Some(difference(from, to)),
            _ => None,
        })
    }

    pub(crate) fn state(&self) -> &Arc<LaneState> {
        &self.state
    }
}

/// `to - from`, at the ends of the range where it does not fit.
fn difference(from: u64, to: u64) -> i64 {
    if to >= from {
        i64::try_from(to - from).unwrap_or(i64::MAX)
    } else {
        i64::try_from(from - to).map_or(i64::MIN, |earlier| -earlier)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_difference_stays_in_range() {
        assert_eq!(difference(5, 7), 2);
        assert_eq!(difference(7, 5), -2);
        assert_eq!(difference(0, u64::MAX), i64::MAX);
        assert_eq!(difference(u64::MAX, 0), i64::MIN);
    }
}
