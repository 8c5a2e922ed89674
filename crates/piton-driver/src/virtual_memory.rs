//! Physical pages mapped at addresses of the caller's choice.
//!
//! Addresses are reserved, physical memory is created, and the second is mapped into the first. A mapping
//! always covers a whole physical handle: that is all CUDA and AscendCL offer. The same handle may be mapped
//! at several addresses (aliases). None of this is ordered with any queue.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

use crate::{DevicePtr, DeviceRange, DriverError};

/// What sizes and addresses must be multiples of, in bytes; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageGranularity {
    /// The least that works.
    pub minimum: u64,
    /// What the driver recommends for speed.
    pub recommended: u64,
}

/// Physical memory of a device, mapped or not. Means something to its device only, which never gives a number to other memory: what was
/// destroyed, by its owner or by anyone else who knows the number, is refused from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalHandle(pub u64);

/// Virtual memory of a device.
///
/// # Safety
/// Implementers promise that reserved ranges are disjoint from each other and from all allocations, that a
/// mapping gives access to exactly the handle's bytes, and that a handle's memory is not given to anything
/// else before it is destroyed *and* unmapped everywhere, and that the number of a handle is never given to another.
pub unsafe trait VirtualMemory: Send + Sync {
    /// What sizes and addresses must be multiples of.
    fn granularity(&self) -> PageGranularity;

    /// Reserves `bytes` bytes of addresses that nothing backs. Uses no memory.
    ///
    /// # Errors
    /// [`InvalidSize`](crate::ErrorKind::InvalidSize), [`Misaligned`](crate::ErrorKind::Misaligned) (not a
    /// multiple of the granularity), [`OutOfAddressSpace`](crate::ErrorKind::OutOfAddressSpace).
    fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError>;

    /// Gives a reservation back.
    ///
    /// # Safety
    /// No command that has not ended names an address of it, and none will.
    ///
    /// # Errors
    /// [`UnknownAddress`](crate::ErrorKind::UnknownAddress) if `range` is not exactly a live reservation;
    /// [`AlreadyMapped`](crate::ErrorKind::AlreadyMapped) while something is mapped in it.
    unsafe fn release(&self, range: DeviceRange) -> Result<(), DriverError>;

    /// Creates `bytes` bytes of physical memory, mapped nowhere. Their content is undefined.
    ///
    /// # Errors
    /// [`InvalidSize`](crate::ErrorKind::InvalidSize), [`Misaligned`](crate::ErrorKind::Misaligned),
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory): nothing has changed.
    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError>;

    /// Gives a handle up. Its memory returns to the device when the last mapping of it is gone.
    ///
    /// # Errors
    /// [`UnknownHandle`](crate::ErrorKind::UnknownHandle).
    fn destroy(&self, handle: PhysicalHandle) -> Result<(), DriverError>;

    /// Maps all of `handle` at `at`, readable and writable by the device.
    ///
    /// # Safety
    /// No command that has not ended names an address of the range, unless it is ordered after this call. The handle is the caller's,
    /// or its owner agrees: whoever names the range afterwards uses that memory, and promises [as for any](crate::Queue::submit) that
    /// nobody else does so unordered, by whatever address or in whatever process.
    ///
    /// # Errors
    /// [`UnknownHandle`](crate::ErrorKind::UnknownHandle), [`Misaligned`](crate::ErrorKind::Misaligned),
    /// [`UnknownAddress`](crate::ErrorKind::UnknownAddress) (not inside one reservation),
    /// [`AlreadyMapped`](crate::ErrorKind::AlreadyMapped),
    /// [`OutOfResources`](crate::ErrorKind::OutOfResources) (too many mappings): nothing has changed.
    unsafe fn map(&self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError>;

    /// Undoes mappings; `range` covers whole ones. The addresses stay reserved.
    ///
    /// # Safety
    /// No command that has not ended, on any device, names an address of the range, and none will before it
    /// is mapped again. A wait on a queue is not enough: the host must have seen the work end.
    ///
    /// # Errors
    /// [`UnknownAddress`](crate::ErrorKind::UnknownAddress) if the range cuts a mapping or holds none:
    /// nothing has changed.
    unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError>;
}
