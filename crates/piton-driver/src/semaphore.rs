//! Counters that the host or any queue signals and any queue waits for, before or after the signal.
//!
//! Work on a queue needs none of these to be waited for: a queue is its own counter. Semaphores are for what
//! comes from outside: the host, another process, a network card.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

use crate::DriverError;
use std::{any::Any, fmt::Debug, sync::Arc};

/// A number that only grows.
///
/// # Safety
/// Implementers promise that [`value`](Semaphore::value) never decreases and, read as `n`, happens after
/// everything that was ordered before the signal of `n` (it is an Acquire load).
pub unsafe trait Semaphore: Any + Send + Sync + Debug {
    /// The value now. Does not block.
    fn value(&self) -> u64;

    /// Raises the value from the host. Does not block; wakes what waits for it.
    ///
    /// # Errors
    /// [`NotMonotonic`](crate::ErrorKind::NotMonotonic) if `value` is not above the present one;
    /// [`NotForHost`](crate::ErrorKind::NotForHost) where only queues may.
    fn signal(&self, value: u64) -> Result<(), DriverError>;
}

/// Who may raise a semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SignalledBy {
    /// The host and queues. A wait nobody has signalled yet is never taken for a deadlock.
    #[default]
    Anyone,
    /// Queues alone; the host's [`signal`](Semaphore::signal) is refused. A device may then find queues that wait
    /// for each other in a circle, and fail them. It takes every signal that will break the wait to be submitted
    /// before the circle closes: before its last queue stalls and its last signal is submitted.
    Queues,
}

/// Semaphores of a device. Queues wait for them and signal them with
/// [`Command::WaitSemaphore`](crate::Command::WaitSemaphore) and
/// [`Command::SignalSemaphore`](crate::Command::SignalSemaphore).
pub trait Semaphores: Send + Sync {
    /// A semaphore at `initial`.
    ///
    /// # Errors
    /// [`OutOfResources`](crate::ErrorKind::OutOfResources), [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn create(
        &self,
        initial: u64,
        signalled_by: SignalledBy,
    ) -> Result<Arc<dyn Semaphore>, DriverError>;
}
