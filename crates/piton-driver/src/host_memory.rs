//! Host memory that a device copies from and to by itself: page-locked and known to the driver.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

use crate::{DevicePtr, DriverError};
use std::ptr::NonNull;

/// What to do where the system refuses to lock pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// Fail with [`LockRefused`](crate::ErrorKind::LockRefused).
    #[default]
    Required,
    /// Hand out unlocked memory and say so in [`HostAllocation::is_locked`].
    Preferred,
}

/// How host memory is to be allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemoryOptions {
    /// What to do where locking is refused.
    pub locking: Locking,
    /// The NUMA node to take it from, where the system has several.
    pub numa_node: Option<u32>,
}

/// A run of host memory that a device may copy from and to.
///
/// The value is a claim on the memory, not its owner: dropping it frees nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct HostAllocation {
    /// First byte; a multiple of 4096.
    pub start: NonNull<u8>,
    /// Length in bytes, as requested or more.
    pub bytes: usize,
    /// Whether its pages are locked in memory.
    pub is_locked: bool,
}

// SAFETY: the fields are an address, a length and a flag; the memory belongs to no thread.
unsafe impl Send for HostAllocation {}

// SAFETY: as for `Send`; a shared reference gives no access to the memory by itself.
unsafe impl Sync for HostAllocation {}

/// Host memory for a device.
///
/// # Safety
/// Implementers promise that [`allocate`](HostMemory::allocate) returns memory that is valid for reads and
/// writes of its whole length, overlaps no other allocation of the process, is zeroed, and stays so until it
/// is freed; and that the device touches it only on behalf of commands that name it.
pub unsafe trait HostMemory: Send + Sync {
    /// Allocates `bytes` bytes. May block: locking takes about 0.1 to 0.4 ms a MiB.
    ///
    /// # Errors
    /// [`InvalidSize`](crate::ErrorKind::InvalidSize) for zero or more than `isize::MAX`;
    /// [`LockRefused`](crate::ErrorKind::LockRefused) if locking is required and refused;
    /// [`OutOfHostMemory`](crate::ErrorKind::OutOfHostMemory). Nothing has changed.
    fn allocate(
        &self,
        bytes: usize,
        options: HostMemoryOptions,
    ) -> Result<HostAllocation, DriverError>;

    /// Gives an allocation back.
    ///
    /// # Safety
    /// `allocation` came from this device's [`allocate`](HostMemory::allocate) and is freed once. Nothing
    /// refers to the memory any more: no reference, and no command that has not ended.
    ///
    /// # Errors
    /// Whatever the system answers; the memory is then leaked, never freed twice.
    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError>;

    /// Makes memory the program already owns usable in copies: locks it and tells the driver.
    ///
    /// # Safety
    /// `start..start + bytes` is valid host memory, stays mapped until unregistered, and is not registered now.
    ///
    /// # Errors
    /// [`LockRefused`](crate::ErrorKind::LockRefused), [`InvalidSize`](crate::ErrorKind::InvalidSize).
    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), DriverError>;

    /// Undoes [`register`](HostMemory::register).
    ///
    /// # Safety
    /// `start` was registered and no command that has not ended names the memory.
    ///
    /// # Errors
    /// [`NotPageLocked`](crate::ErrorKind::NotPageLocked) if `start` is not the start of registered memory.
    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError>;

    /// Lets copies name memory that the program owns, as it is, until it is [dismissed](HostMemory::dismiss): no page is locked, and
    /// kernels do not reach it. For a copy whose end its caller waits for. Does not block. `false` where copies need
    /// page-locked memory, as those of most devices do, or may end without having moved anything, and where the device
    /// knows some of the memory already: then nothing has changed.
    ///
    /// # Safety
    /// `start..start + bytes` is valid host memory until it is dismissed.
    unsafe fn admit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        let _ = (start, bytes);
        false
    }

    /// Undoes [`admit`](HostMemory::admit).
    ///
    /// # Safety
    /// `start` was admitted, and no command that has not ended names the memory.
    unsafe fn dismiss(&self, start: NonNull<u8>) {
        let _ = start;
    }

    /// The address under which the device's kernels read and write this host memory where it is; none if they cannot, or if
    /// the memory is neither allocated here nor registered.
    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr>;
}
