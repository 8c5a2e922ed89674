//! Semaphores that several processes raise and wait for.
//!
//! A queue is its own counter within its driver; what orders queues of different processes is a semaphore that both have. One
//! process [exports](SemaphoreSharing::export) it and sends what it got to another, which
//! [imports](SemaphoreSharing::import) it and has a semaphore like any: its queues wait for it and signal it, its host too.
//! Who was sent an export may import it, raise it as far as it likes, and send it on; nobody else can.
//!
//! **A process that ends signals nothing.** Queues that wait for it wait on, as for any signal that does not come: whoever
//! starts other processes and sees one end aborts what waits for it, or signals in its place.

use crate::{DriverError, Semaphore};
use std::sync::Arc;

/// A semaphore on its way to another process. Opaque: only piton's drivers know what to do with it.
#[non_exhaustive]
#[derive(Debug)]
pub enum ExportedSemaphore {
    /// A file descriptor, to be sent over a socket (`SCM_RIGHTS`) or inherited. Closing it takes nothing from who has imported
    /// it.
    #[cfg(unix)]
    Descriptor(std::os::fd::OwnedFd),
}

/// A device's semaphores between processes. For devices with [`Semaphores`](crate::Semaphores), which they are used as.
///
/// Each may be signalled by the host and by queues, in every process. It lives until the last process has dropped its handles, its
/// exports and the commands that name it.
pub trait SemaphoreSharing: Send + Sync {
    /// A semaphore at `initial` that may be exported. It has a thread of its own, which sleeps while nobody signals.
    ///
    /// # Errors
    /// [`OutOfResources`](crate::ErrorKind::OutOfResources), [`System`](crate::ErrorKind::System),
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn create(&self, initial: u64) -> Result<Arc<dyn Semaphore>, DriverError>;

    /// The semaphore for another process, as often as one likes; one that was imported too.
    ///
    /// # Errors
    /// [`PrivateSemaphore`](crate::ErrorKind::PrivateSemaphore) if it was not created for that;
    /// [`ForeignObject`](crate::ErrorKind::ForeignObject), [`System`](crate::ErrorKind::System),
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn export(&self, semaphore: &dyn Semaphore) -> Result<ExportedSemaphore, DriverError>;

    /// The semaphore that was exported, by this process or another, for queues of this driver. What was exported may be imported
    /// again.
    ///
    /// # Errors
    /// [`NotASemaphore`](crate::ErrorKind::NotASemaphore) where it is something else; those of [`create`](Self::create).
    fn import(&self, exported: &ExportedSemaphore) -> Result<Arc<dyn Semaphore>, DriverError>;
}
