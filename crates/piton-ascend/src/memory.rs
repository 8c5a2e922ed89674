//! Device memory.
//!
//! `aclrtMalloc` adds 32 bytes behind each allocation, and its reference asks whoever divides one to leave as much behind
//! each piece. The contract has no word for a tail: pools keep pieces apart by what they round sizes to, and no more.

#![expect(
    unsafe_code,
    reason = "implements the contract, and frees memory of the runtime's"
)]

use crate::{device::AscendDevice, ffi::Called};
use piton_driver::{DevicePtr, DriverError, Memory, MemoryUsage};
use piton_native::{
    Books,
    memory::{self, NativeMemory},
};

impl NativeMemory for AscendDevice {
    fn allocations(&self) -> &Books<u64> {
        &self.memory
    }

    fn allocate_memory(&self, bytes: u64) -> Called<u64> {
        self.context.allocate(bytes, self.shared.config.memory)
    }

    unsafe fn free_memory(&self, start: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.free(start) }
    }

    fn memory_info(&self) -> Called<(u64, u64)> {
        self.context.memory_info()
    }
}

// SAFETY: the runtime hands out memory that overlaps no other and stays until it is freed; every stream and kernel of the
// device reaches it. The books refuse what is not the start of a live allocation.
unsafe impl Memory for AscendDevice {
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
