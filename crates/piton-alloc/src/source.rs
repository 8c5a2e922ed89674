//! Where Blocks come from: the one trait between the pool and a device.
//!
//! Implement [`BlockSource`] to use the pool with device code of your own; [`DeviceBlocks`] implements it for piton's
//! drivers. The pool calls it for whole Blocks only, never for a request that it can serve from what it holds, and
//! never under the lock that other allocations need.

#![expect(
    unsafe_code,
    reason = "the trait declares what its implementers and callers promise"
)]

use std::fmt::Debug;
use std::sync::Arc;

use piton_driver::{Device, DevicePtr, DriverError, VirtualMemory};

/// Gives and takes Blocks of device memory.
///
/// # Safety
/// Implementers promise that memory from a successful [`allocate`](Self::allocate) overlaps no other live allocation
/// of the device, stays valid until freed, and starts at a multiple of [`alignment`](Self::alignment).
pub unsafe trait BlockSource: Debug + Send + Sync {
    /// All memory of the device, in bytes.
    fn capacity(&self) -> u64;

    /// The source serves sizes that are multiples of this many bytes without rounding. A power of two.
    fn granularity(&self) -> u64;

    /// Blocks start at multiples of this many bytes. A power of two.
    fn alignment(&self) -> u64;

    /// Whether the device still works. Asked before every allocation, so it must be cheap. Does not block.
    ///
    /// # Errors
    /// [`DeviceLost`](piton_driver::ErrorKind::DeviceLost).
    fn status(&self) -> Result<(), DriverError>;

    /// Allocates a Block of `bytes` bytes, a multiple of the granularity. May block.
    ///
    /// # Errors
    /// Any [`DriverError`], and nothing has changed. After one that
    /// [says out of memory](DriverError::is_out_of_memory) the pool gives Blocks back and tries again.
    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError>;

    /// Gives a Block back. May block.
    ///
    /// # Safety
    /// `block` came from [`allocate`](Self::allocate) of this source and was not freed since; no command that has not
    /// ended names its memory, and none will.
    ///
    /// # Errors
    /// Any [`DriverError`], and the Block is still allocated.
    unsafe fn free(&self, block: DevicePtr) -> Result<(), DriverError>;

    /// Pages mapped at addresses of the caller's choice, where the device has them. The answer does not change.
    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        None
    }

    /// Keeps an error that no caller can be given.
    fn record_error(&self, error: DriverError);
}

/// The plain memory of a device, as a source of Blocks.
#[derive(Clone, Debug)]
pub struct DeviceBlocks(Arc<dyn Device>);

impl DeviceBlocks {
    /// Blocks of this device.
    #[must_use]
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self(device)
    }
}

// SAFETY: what is promised is what `piton_driver::Memory` promises, and every call is passed on unchanged.
unsafe impl BlockSource for DeviceBlocks {
    fn capacity(&self) -> u64 {
        self.0.info().memory_bytes
    }

    fn granularity(&self) -> u64 {
        self.0.memory().granularity()
    }

    fn alignment(&self) -> u64 {
        self.0.memory().alignment()
    }

    fn status(&self) -> Result<(), DriverError> {
        self.0.status()
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        self.0.memory().allocate(bytes)
    }

    unsafe fn free(&self, block: DevicePtr) -> Result<(), DriverError> {
        // SAFETY: the caller promises the same of the same memory.
        unsafe { self.0.memory().free(block) }
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        self.0.virtual_memory()
    }

    fn record_error(&self, error: DriverError) {
        self.0.record_error(error);
    }
}
