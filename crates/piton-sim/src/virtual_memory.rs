//! Virtual memory: the address space's own operations, behind the contract.

#![expect(unsafe_code, reason = "implements the contract's virtual memory")]

use crate::device::SimDevice;
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, Operation, PageGranularity, PhysicalHandle, VirtualMemory,
};

// SAFETY: reservations are disjoint; a mapping shows exactly its handle's pages; a handle's pages return to
// the free ones only when it is destroyed and mapped nowhere (`AddressSpace`).
unsafe impl VirtualMemory for SimDevice {
    fn granularity(&self) -> PageGranularity {
        let page = self.core().config.page_bytes;
        PageGranularity {
            minimum: page,
            recommended: page.max(2 << 20),
        }
    }

    fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError> {
        let operation = Operation::ReserveAddresses;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .reserve(bytes)
            .map_err(|kind| self.error(kind, operation))
    }

    unsafe fn release(&self, range: DeviceRange) -> Result<(), DriverError> {
        let operation = Operation::ReleaseAddresses;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .release(range)
            .map_err(|kind| self.error(kind, operation))
    }

    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        let operation = Operation::CreatePhysical;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .create(bytes)
            .map_err(|kind| self.error(kind, operation))
    }

    fn destroy(&self, handle: PhysicalHandle) -> Result<(), DriverError> {
        let operation = Operation::DestroyPhysical;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .destroy(handle)
            .map_err(|kind| self.error(kind, operation))
    }

    unsafe fn map(&self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError> {
        let operation = Operation::Map;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .map(at, handle)
            .map_err(|kind| self.error(kind, operation))
    }

    unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError> {
        let operation = Operation::Unmap;
        self.gate(operation)?;
        self.core()
            .space
            .lock()
            .unmap(range)
            .map_err(|kind| self.error(kind, operation))
    }
}
