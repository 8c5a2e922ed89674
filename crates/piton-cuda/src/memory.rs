//! Device memory, as CUDA has it for everybody.
//!
//! CUDA promises starts that are multiples of 256 and gives 512.

#![expect(
    unsafe_code,
    reason = "implements the contract, and frees memory of CUDA's"
)]

use crate::{device::CudaDevice, ffi::Called};
use piton_driver::{DevicePtr, DriverError, Memory, MemoryUsage};
use piton_native::{
    Books,
    memory::{self, NativeMemory},
};

impl NativeMemory for CudaDevice {
    fn allocations(&self) -> &Books<u64> {
        &self.memory
    }

    fn allocate_memory(&self, bytes: u64) -> Called<u64> {
        self.context.allocate(bytes)
    }

    unsafe fn free_memory(&self, start: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.free(start) }
    }

    fn memory_info(&self) -> Called<(u64, u64)> {
        self.context.memory_info()
    }
}

// SAFETY: CUDA hands out memory that overlaps no other and stays until it is freed; every stream and kernel of the context
// reaches it. The books refuse what is not the start of a live allocation.
unsafe impl Memory for CudaDevice {
    fn granularity(&self) -> u64 {
        memory::ALIGNMENT
    }

    fn alignment(&self) -> u64 {
        memory::ALIGNMENT
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        memory::allocate(self, bytes)
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { memory::free(self, ptr) }
    }

    fn usage(&self) -> Result<MemoryUsage, DriverError> {
        memory::usage(self)
    }
}
