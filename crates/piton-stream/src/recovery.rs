//! Ending a stream's work early, and going on after a failure.
//!
//! # The idea
//! A failure is a range of places, and stays one: from the command that failed to the last that was submitted when it
//! was forgotten. What lies in such a range answers with its failure for ever; what comes after is new.

use crate::{Stream, StreamError, StreamFailure};
use std::sync::Arc;

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
    /// Places from the failed command to the last submitted go on telling the failure; later ones do not. So until
    /// something is submitted, [`synchronize`](Self::synchronize) and its like still tell it. Takes the
    /// stream alone, so that nobody submits meanwhile what would belong to neither.
    ///
    /// # Errors
    /// [`NotDrained`](StreamError::NotDrained) while anything submitted has not ended: nothing was forgotten;
    /// [`Driver`](StreamError::Driver) where the device cannot, or is lost.
    pub fn clear_error(&mut self) -> Result<Option<Arc<StreamFailure>>, StreamError> {
        // Told while the streams that it came from still tell theirs.
        let _told = self.failure();
        self.state().clear_failure()
    }
}
