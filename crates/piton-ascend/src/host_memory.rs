//! Page-locked host memory: the runtime's own, and the program's once it is registered.
//!
//! Kernels reach what is registered, at an address that copies may not name; copies name it as the host does. Memory of the
//! runtime's own is for copies.

#![expect(unsafe_code, reason = "implements the contract, and owns raw memory")]

use crate::{device::AscendDevice, ffi::Called};
use piton_driver::{DevicePtr, DriverError, HostAllocation, HostMemory, HostMemoryOptions};
use piton_native::{
    Books,
    host_memory::{self, HostRun, NativeHostMemory},
};
use std::ptr::NonNull;

impl NativeHostMemory for AscendDevice {
    fn runs(&self) -> &Books<HostRun> {
        &self.host
    }

    fn allocate_host(&self, bytes: usize) -> Called<(NonNull<u8>, Option<u64>)> {
        Ok((self.context.allocate_host(bytes)?, None))
    }

    unsafe fn free_host(&self, start: NonNull<u8>) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.free_host(start) }
    }

    unsafe fn register_host(&self, start: NonNull<u8>, bytes: usize) -> Called<Option<u64>> {
        // SAFETY: the caller's promise.
        unsafe { self.context.register_host(start, bytes) }.map(Some)
    }

    unsafe fn unregister_host(&self, start: NonNull<u8>) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.unregister_host(start) }
    }
}

// SAFETY: runs come from the runtime, which hands out memory that is valid and nobody else's; they are zeroed before they
// are handed out; devices touch them by commands that name them only.
unsafe impl HostMemory for AscendDevice {
    fn allocate(&self, bytes: usize, _: HostMemoryOptions) -> Result<HostAllocation, DriverError> {
        host_memory::allocate(self, bytes)
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { host_memory::free(self, allocation) }
    }

    /// Locks the whole pages that the memory lies in: of two runs that share one, the second may be refused. A library that
    /// cannot register answers that it is not supported.
    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { host_memory::register(self, start, bytes) }
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { host_memory::unregister(self, start) }
    }

    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        host_memory::device_address(self, start)
    }
}
