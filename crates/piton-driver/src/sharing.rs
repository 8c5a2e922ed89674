//! Physical memory that several processes map.
//!
//! One process [exports](PageSharing::export) a handle and sends what it got to another, which
//! [imports](PageSharing::import) it: it then has a handle of its own to the same bytes, and maps it like any other. Who was
//! sent an export may import it; nobody else can.
//!
//! Nothing here is ordered with any queue, and no queue knows those of another process. A semaphore that both have
//! ([`SemaphoreSharing`](crate::SemaphoreSharing)) orders their queues; or the hosts do, of which one tells the other that bytes are
//! there when it has seen the command end that wrote them.

use crate::{DriverError, PhysicalHandle};

/// Physical memory on its way to another process. Opaque: only a driver of the same kind knows what to do with it.
#[non_exhaustive]
#[derive(Debug)]
pub enum ExportedPages {
    /// A file descriptor, to be sent over a socket (`SCM_RIGHTS`) or inherited. It keeps the memory while it is open, and
    /// closing it takes nothing from who has imported it.
    #[cfg(unix)]
    Descriptor(std::os::fd::OwnedFd),
}

/// A device's physical memory between processes. For devices with [`VirtualMemory`](crate::VirtualMemory), by which it is
/// mapped, unmapped and destroyed.
///
/// The memory stays until every handle to it is destroyed and mapped nowhere and no export of it is open, in all processes.
/// The device that it was created on counts it as used until its own handle is destroyed and unmapped, at least.
pub trait PageSharing: Send + Sync {
    /// Creates physical memory like [`VirtualMemory::create`](crate::VirtualMemory::create), which may be exported. Drivers
    /// want to know that when it is made.
    ///
    /// # Errors
    /// As there.
    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError>;

    /// Physical memory for another process, as often as one likes. The handle stays what it is.
    ///
    /// # Errors
    /// [`UnknownHandle`](crate::ErrorKind::UnknownHandle);
    /// [`NotShareable`](crate::ErrorKind::NotShareable) if it was not created for that, or came from another process.
    fn export(&self, handle: PhysicalHandle) -> Result<ExportedPages, DriverError>;

    /// A handle of this device to memory of `bytes` bytes that was exported, by this process or another. What was exported
    /// may be imported again.
    ///
    /// # Errors
    /// [`NotExported`](crate::ErrorKind::NotExported) where it is something else, or another size, as far as the driver can
    /// tell; [`InvalidSize`](crate::ErrorKind::InvalidSize), [`Misaligned`](crate::ErrorKind::Misaligned) as for
    /// [`create`](Self::create); [`OutOfResources`](crate::ErrorKind::OutOfResources),
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn import(&self, exported: &ExportedPages, bytes: u64) -> Result<PhysicalHandle, DriverError>;
}
