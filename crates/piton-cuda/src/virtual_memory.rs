//! Virtual memory, as CUDA has it: a mapping is reached by nobody before access to it was granted.

#![expect(unsafe_code, reason = "implements the contract over CUDA's mappings")]

use crate::{device::CudaDevice, ffi::Called};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, PageGranularity, PhysicalHandle, VirtualMemory,
};
use piton_native::{
    Mappings,
    virtual_memory::{self, NativePages},
};

impl NativePages for CudaDevice {
    type Pages = u64;

    fn mappings(&self) -> &Mappings<u64> {
        &self.mappings
    }

    fn page_granularity(&self) -> PageGranularity {
        self.pages.unwrap_or(PageGranularity {
            minimum: 1,
            recommended: 1,
        })
    }

    fn reserve_addresses(&self, bytes: u64) -> Called<u64> {
        self.context.reserve(bytes)
    }

    unsafe fn release_addresses(&self, start: u64, bytes: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.release_addresses(start, bytes) }
    }

    fn create_pages(&self, bytes: u64) -> Called<u64> {
        self.context.create_pages(bytes)
    }

    unsafe fn destroy_pages(&self, pages: u64) -> Called<()> {
        self.context.destroy_pages(pages)
    }

    unsafe fn map_pages(&self, start: u64, bytes: u64, pages: u64) -> Called<()> {
        let own = [self.context.device()];
        // SAFETY: the caller's promise.
        unsafe { self.context.map_pages(start, bytes, pages, &own) }
    }

    /// Lets devices that have access to this one's memory reach it.
    fn admit_peers(&self, made: DeviceRange) -> Called<()> {
        let readers = self.shared.readers_of(self.info.id);
        if readers.is_empty() {
            return Ok(());
        }
        self.context
            .grant(made.start.address(), made.bytes, &readers)
    }

    unsafe fn unmap_pages(&self, start: u64, bytes: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.unmap_pages(start, bytes) }
    }
}

// SAFETY: reservations, handles and mappings are CUDA's, which keeps a handle's memory while it is mapped; the books refuse
// what the contract refuses before CUDA is asked, and hold for commands only what is mapped.
unsafe impl VirtualMemory for CudaDevice {
    fn granularity(&self) -> PageGranularity {
        self.page_granularity()
    }

    fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError> {
        virtual_memory::reserve(self, bytes)
    }

    unsafe fn release(&self, range: DeviceRange) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { virtual_memory::release(self, range) }
    }

    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        virtual_memory::create(self, bytes)
    }

    fn destroy(&self, handle: PhysicalHandle) -> Result<(), DriverError> {
        virtual_memory::destroy(self, handle)
    }

    unsafe fn map(&self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { virtual_memory::map(self, at, handle) }
    }

    unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { virtual_memory::unmap(self, range) }
    }
}
