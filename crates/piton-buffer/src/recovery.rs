//! Ending a stream's work early, and going on after a failure.

use crate::{BufferError, Stream};
use piton_stream::StreamFailure;
use std::sync::Arc;

impl Stream {
    /// Ends every command that was submitted and has not started with
    /// [`Aborted`](piton_driver::ErrorKind::Aborted), which poisons the stream like any failure. Does not block.
    ///
    /// A command that runs ends as it will, and a wait for another stream when that one has got there; a wait for a
    /// value ends at once. Buffers stay in use until then. What other streams have submitted behind an aborted use of a
    /// buffer fails in its turn.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) where the device cannot.
    pub fn abort(&self) -> Result<(), BufferError> {
        Ok(self.raw().abort()?)
    }

    /// The first command that failed, once one has, until it is [cleared](Self::clear_error). Unless the stream is to
    /// [continue](piton_driver::OnFailure::Continue), everything after it ends without running.
    pub fn failure(&self) -> Option<Arc<StreamFailure>> {
        self.raw().failure()
    }

    /// Forgets the stream's failure, so that what is submitted from now on runs, and returns it. Does not block;
    /// nothing happens where nothing failed. Takes the stream alone, so that nobody submits meanwhile.
    /// [`synchronize`](Self::synchronize), and events recorded from now on, tell only of what comes.
    ///
    /// Events and transfers of work from the one that failed to the last submitted go on telling the failure. What that
    /// work was to write was not written: buffers hold what was in them before.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) with [`NotDrained`](piton_stream::StreamError::NotDrained) while anything
    /// submitted has not ended: nothing was forgotten; and where the device cannot, or is lost.
    #[track_caller]
    pub fn clear_error(&mut self) -> Result<Option<Arc<StreamFailure>>, BufferError> {
        Ok(self.raw_mut().clear_error()?)
    }
}
