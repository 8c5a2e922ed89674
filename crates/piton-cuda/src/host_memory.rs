//! Page-locked host memory: CUDA's own, and the program's once it is registered.
//!
//! Both are *portable* (locked for every device's context) and *mapped* (kernels reach them).

#![expect(unsafe_code, reason = "implements the contract, and owns raw memory")]

use crate::{device::CudaDevice, ffi::Called};
use piton_driver::{DevicePtr, DriverError, HostAllocation, HostMemory, HostMemoryOptions};
use piton_native::{
    Books,
    host_memory::{self, HostRun, NativeHostMemory},
};
use std::ptr::NonNull;

impl NativeHostMemory for CudaDevice {
    fn runs(&self) -> &Books<HostRun> {
        &self.host
    }

    fn allocate_host(&self, bytes: usize) -> Called<(NonNull<u8>, Option<u64>)> {
        let (start, device) = self.context.allocate_host(bytes)?;
        Ok((start, Some(device)))
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

// SAFETY: runs come from CUDA, which hands out memory that is valid and nobody else's; they are zeroed before they are
// handed out; devices touch them by commands that name them only.
unsafe impl HostMemory for CudaDevice {
    fn allocate(&self, bytes: usize, _: HostMemoryOptions) -> Result<HostAllocation, DriverError> {
        host_memory::allocate(self, bytes)
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { host_memory::free(self, allocation) }
    }

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
