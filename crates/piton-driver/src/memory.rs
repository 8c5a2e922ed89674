//! Device memory as every driver has it: take some, give it back.
//!
//! These calls are slow on real hardware (10 us to 1 ms, some synchronise the device), which is why pools
//! exist. They are not ordered with any queue.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

use crate::{DevicePtr, DriverError};

/// How much of a device's memory is in use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// In all.
    pub capacity: u64,
    /// Not backing anything now. Other processes may take it at any time on real hardware.
    pub free: u64,
}

/// Plain device memory.
///
/// # Safety
/// Implementers promise that a successful [`allocate`](Memory::allocate) returns memory that overlaps no
/// other live allocation, reservation or mapping of the device, stays valid until freed, and is reachable by
/// every queue and kernel of the device.
pub unsafe trait Memory: Send + Sync {
    /// Sizes are rounded up to a multiple of this many bytes; a power of two.
    fn granularity(&self) -> u64;

    /// Every allocation starts at a multiple of this many bytes; a power of two.
    fn alignment(&self) -> u64;

    /// Allocates `bytes` bytes. Their content is undefined. May block; may synchronise the device.
    ///
    /// # Errors
    /// [`InvalidSize`](crate::ErrorKind::InvalidSize) for zero;
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) or
    /// [`OutOfAddressSpace`](crate::ErrorKind::OutOfAddressSpace), and nothing has changed;
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError>;

    /// Gives an allocation back. May block; may synchronise the device.
    ///
    /// # Safety
    /// No command that has not ended, on any device, names the memory, and none will.
    ///
    /// # Errors
    /// [`UnknownAddress`](crate::ErrorKind::UnknownAddress) if `ptr` is not the start of a live allocation.
    /// After any other error the allocation is still live and may be freed again, unless the device is lost.
    unsafe fn free(&self, ptr: DevicePtr) -> Result<(), DriverError>;

    /// How much is in use. May block shortly.
    ///
    /// # Errors
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn usage(&self) -> Result<MemoryUsage, DriverError>;
}
