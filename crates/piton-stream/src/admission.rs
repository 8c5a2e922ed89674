//! How a command gets into a stream: tried once, or until there is room.
//!
//! # Protocol
//! A full queue has room again when its `completed` has grown. So the counter is read *before* the command is
//! offered, and a refusal is answered by waiting for one more than that: if room came between the offer and
//! the wait, the wait is over at once. Read after the refusal, the counter may already have grown for the
//! last time.
//!
//! No lock is held while a thread parks.

use crate::{Stream, StreamError, Submission, WhenFull, witness::Submitted};
use piton_driver::{Admission, DriverError, Origin, Position};
use piton_timeline::Timepoint;

/// One try to submit something. Called again after a refusal.
pub(crate) type Offer<'a> = &'a mut dyn FnMut() -> Result<Admission, DriverError>;

impl Stream {
    /// Submits, parking the thread while there is no room unless the stream's policy is to refuse.
    pub(crate) fn admit(
        &self,
        submitted: Submitted<'_>,
        origin: Origin,
        offer: Offer<'_>,
    ) -> Result<Timepoint, StreamError> {
        loop {
            let before = self.queue().completed();
            match self.try_admit(submitted, origin, offer)? {
                Submission::Accepted(point) => return Ok(point),
                Submission::Full if self.when_full() == WhenFull::Refuse => {
                    return Err(StreamError::Full {
                        capacity: self.capacity(),
                    });
                }
                Submission::Full => self.park(next(before))?,
            }
        }
    }

    /// Offers once. Every submission of a stream passes here; the queue's own count is the lane's, so there are
    /// no other books to keep.
    pub(crate) fn try_admit(
        &self,
        submitted: Submitted<'_>,
        origin: Origin,
        offer: Offer<'_>,
    ) -> Result<Submission, StreamError> {
        let attempt = match self.registry().witness() {
            None => None,
            Some(witness) => Some(witness.attempt(self, submitted, origin)?),
        };
        match offer()? {
            Admission::Full => Ok(Submission::Full),
            Admission::Accepted(position) => {
                let point = self.lane().at(position.get());
                if let Some(attempt) = attempt {
                    attempt.accepted(point);
                }
                Ok(Submission::Accepted(point))
            }
        }
    }

    /// Blocks until `position` has ended, which makes room.
    fn park(&self, position: Position) -> Result<(), StreamError> {
        self.state().may_block(self.state().point(position))?;
        let _reached = self.queue().wait(position, None)?;
        Ok(())
    }
}

/// The position whose end makes room, `before` being the last that had ended before the offer.
pub(crate) fn next(before: Position) -> Position {
    Position::new(before.get().saturating_add(1))
}
