//! Waits for a counter that the host or another stream raises, in a stream's order.

use crate::{BufferError, Stream};
use piton_stream::Semaphore;

impl Stream {
    /// Later work of this stream starts when the semaphore has reached `value`, whether it is raised before or after
    /// this call. Holds no host thread. Nothing bounds the wait but an [`abort`](Self::abort), or a
    /// [watchdog](crate::DeviceContext::watchdog).
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) where the device has no semaphores, and what the stream refuses.
    #[track_caller]
    pub fn wait_semaphore(&self, semaphore: &Semaphore, value: u64) -> Result<(), BufferError> {
        self.raw().wait_semaphore(semaphore, value)?;
        Ok(())
    }

    /// Raises the semaphore to `value` when all earlier work of this stream has ended. A value not above the present
    /// one leaves it alone; after a failure of the stream it is not raised.
    ///
    /// # Errors
    /// As [`wait_semaphore`](Self::wait_semaphore).
    #[track_caller]
    pub fn signal_semaphore(&self, semaphore: &Semaphore, value: u64) -> Result<(), BufferError> {
        self.raw().signal_semaphore(semaphore, value)?;
        Ok(())
    }
}
