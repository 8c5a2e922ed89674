//! Ending a stream's work early, and going on after a failure.
//!
//! # The idea
//! A failure is a range of places, and stays one: from the command that failed to the last that was submitted when it
//! was forgotten. What lies in such a range answers with its failure for ever; what comes after is new. So that the
//! stream's present place is new too, a command that does nothing is put behind the range: places taken from then on,
//! by an event or as the origin of memory, tell of what comes and not of what was forgotten.
//!
//! What the stream had waited for has ended, as has the stream. That is made known of all of it, the stream's own places
//! too, since a wait is left out only for what is pending as far as is known: who waits again for what had failed is told
//! of it again, and so is who comes after the stream's new places and then waits for the failed ones.
//!
//! A stream keeps the ranges of its last failures, as [`ClearedFailures`](piton_driver::ClearedFailures) says: where it
//! has forgotten more than so many, a few places between two of them that had ended well are told as failed.

#![expect(unsafe_code, reason = "submits a command that names no memory")]

use crate::{Stream, StreamError, StreamFailure, Submission, witness::Submitted};
use piton_driver::{Command, Origin, Position};
use std::{panic::Location, sync::Arc};

impl Stream {
    /// Ends every command that was submitted and has not started with [`Aborted`], which poisons the stream like any
    /// failure. Does not block. Nothing happens where nothing is left to end.
    ///
    /// A command that runs is told and ends as it will, so memory stays in use until
    /// [`query`](Self::query) or [`synchronize`](Self::synchronize) says that everything has ended. A wait for another
    /// stream still ends only when that one has got there: places after it would lie about what is over otherwise.
    ///
    /// [`Aborted`]: piton_driver::ErrorKind::Aborted
    ///
    /// # Errors
    /// [`Driver`](StreamError::Driver) with [`Unsupported`](piton_driver::ErrorKind::Unsupported) where the device
    /// cannot.
    pub fn abort(&self) -> Result<(), StreamError> {
        Ok(self.queue().abort()?)
    }

    /// Forgets the stream's failure, so that what is submitted from now on runs, and returns it. Does not block;
    /// nothing happens where nothing failed.
    ///
    /// Places from the failed command to the last submitted go on telling the failure; the stream's present place,
    /// and later ones, do not: it is behind one command more, which does nothing. So [`synchronize`](Self::synchronize)
    /// and its like say that all is well, once that has ended. Takes the stream alone, so that nobody submits meanwhile
    /// what would belong to neither.
    ///
    /// # Errors
    /// [`NotDrained`](StreamError::NotDrained) while anything submitted has not ended: nothing was forgotten;
    /// [`Driver`](StreamError::Driver) where the device cannot, or is lost. Where it forgot and then refused the command
    /// that does nothing, the present place still tells the failure, and another call tries that again.
    #[track_caller]
    pub fn clear_error(&mut self) -> Result<Option<Arc<StreamFailure>>, StreamError> {
        // Told while the streams that it came from still tell theirs.
        let _told = self.failure();
        let forgotten = self.state().clear_failure()?;
        // A clock leaves out waits for what is pending, since those it knows of bring its failure. Once the failure is
        // forgotten, a wait for a later place does not.
        self.lane().look_again();
        self.leave_spoilt_places(Location::caller())?;
        Ok(forgotten)
    }

    /// Makes the present place one that no failure spoils.
    fn leave_spoilt_places(&self, origin: Origin) -> Result<(), StreamError> {
        if !self.state().has_failed(self.now()) {
            return Ok(());
        }
        let nothing = Command::WaitQueue {
            queue: self.queue(),
            position: Position::START,
            inherits: false,
        };
        let put = self.put(Submitted::Command(&nothing), origin, || {
            // SAFETY: the command names no memory.
            unsafe { self.queue().submit(&nothing, origin) }
        })?;
        match put {
            Submission::Accepted(_) => Ok(()),
            // Nothing is in it, so this device takes nothing at all.
            Submission::Full => Err(StreamError::Full {
                capacity: self.capacity(),
            }),
        }
    }
}
