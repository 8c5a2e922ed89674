//! Counters that the host or any queue signals and any queue waits for, before or after the signal.
//!
//! Work on a queue needs none of these to be waited for: a queue is its own counter. Semaphores are for what
//! comes from outside: the host, another process, a network card.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

use crate::{Admission, DriverError, Queue};
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
    /// [`NotMonotonic`](crate::ErrorKind::NotMonotonic) if `value` is not above the present one.
    fn signal(&self, value: u64) -> Result<(), DriverError>;
}

/// Semaphores of a device.
pub trait Semaphores: Send + Sync {
    /// A semaphore at `initial`.
    ///
    /// # Errors
    /// [`OutOfResources`](crate::ErrorKind::OutOfResources), [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn create(&self, initial: u64) -> Result<Arc<dyn Semaphore>, DriverError>;

    /// Later commands of `queue` start when `semaphore` has reached `value`. Holds no host thread.
    ///
    /// # Errors
    /// [`ForeignObject`](crate::ErrorKind::ForeignObject) for a queue or semaphore of another driver.
    fn wait(
        &self,
        queue: &dyn Queue,
        semaphore: &Arc<dyn Semaphore>,
        value: u64,
    ) -> Result<Admission, DriverError>;

    /// Raises `semaphore` to `value` when all earlier commands of `queue` have ended. A value not above the
    /// present one then leaves it alone. After a failure of the queue the signal is not given.
    ///
    /// # Errors
    /// As [`wait`](Semaphores::wait).
    fn signal(
        &self,
        queue: &dyn Queue,
        semaphore: &Arc<dyn Semaphore>,
        value: u64,
    ) -> Result<Admission, DriverError>;
}
