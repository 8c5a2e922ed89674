//! Virtual memory: huge pages of the device's fast memory.

#![expect(
    unsafe_code,
    reason = "implements the contract over the runtime's mappings"
)]

use crate::{
    device::AscendDevice,
    ffi::{Called, PagesHandle},
};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, PageGranularity, PhysicalHandle, VirtualMemory,
};
use piton_native::{
    Mappings,
    virtual_memory::{self, NativePages},
};

impl NativePages for AscendDevice {
    type Pages = PagesHandle;

    fn mappings(&self) -> &Mappings<PagesHandle> {
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

    unsafe fn release_addresses(&self, start: u64, _: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.release_addresses(start) }
    }

    fn create_pages(&self, bytes: u64) -> Called<PagesHandle> {
        self.context.create_pages(bytes)
    }

    unsafe fn destroy_pages(&self, pages: PagesHandle) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.destroy_pages(pages) }
    }

    unsafe fn map_pages(&self, start: u64, bytes: u64, pages: PagesHandle) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.map_pages(start, bytes, pages) }
    }

    unsafe fn unmap_pages(&self, start: u64, _: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context.unmap_pages(start) }
    }
}

// SAFETY: reservations, handles and mappings are the runtime's; a handle goes back when it is mapped nowhere; the books
// refuse what the contract refuses before the runtime is asked, and hold for commands only what is mapped.
unsafe impl VirtualMemory for AscendDevice {
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
