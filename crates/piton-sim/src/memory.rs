//! Plain device memory: whole pages at addresses the device chooses.

#![expect(unsafe_code, reason = "implements the contract's memory")]

use crate::device::SimDevice;
use piton_driver::{DevicePtr, DriverError, Memory, MemoryUsage, Operation};

// SAFETY: the address space gives out disjoint reservations, and maps pages in them that belong to one handle.
unsafe impl Memory for SimDevice {
    fn granularity(&self) -> u64 {
        self.core().config.page_bytes
    }

    fn alignment(&self) -> u64 {
        self.core().config.page_bytes
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        let operation = Operation::AllocateMemory;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .allocate(bytes)
            .map_err(|kind| self.error(kind, operation))
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<(), DriverError> {
        let operation = Operation::FreeMemory;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .free(ptr)
            .map_err(|kind| self.error(kind, operation))
    }

    fn usage(&self) -> Result<MemoryUsage, DriverError> {
        self.gate(Operation::QueryMemory)?;
        let free = self.core().space.lock().free_bytes();
        Ok(MemoryUsage {
            capacity: self.core().config.memory_bytes,
            free,
        })
    }
}
