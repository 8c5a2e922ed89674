//! Physical memory between processes, as file descriptors.
//!
//! Older handles of CUDA's (`cuIpcGetMemHandle`) take what `cuMemAlloc` gave and not pages, cannot be opened in the process
//! that made them, and are not used.

use crate::{device::CudaDevice, ffi::Called, status::Status};
use piton_driver::{DriverError, ExportedPages, PageSharing, PhysicalHandle};
use piton_native::page_sharing::{self, NativePageSharing};
use std::os::fd::AsFd;

/// What the driver answers where a descriptor is not one of its memory. The reference names none; these are the ones that
/// mean "not what I was told".
const OTHER: [Status; 3] = [
    Status::INVALID_VALUE,
    Status::INVALID_HANDLE,
    Status::OPERATING_SYSTEM,
];

impl NativePageSharing for CudaDevice {
    fn create_exportable_pages(&self, bytes: u64) -> Called<u64> {
        self.context.create_exportable_pages(bytes)
    }

    fn export_pages(&self, pages: u64) -> Called<ExportedPages> {
        let descriptor = self.context.export_pages(pages)?;
        Ok(ExportedPages::Descriptor(descriptor))
    }

    fn import_pages(&self, exported: &ExportedPages) -> Called<Option<u64>> {
        let ExportedPages::Descriptor(descriptor) = exported else {
            return Ok(None);
        };
        match self.context.import_pages(descriptor.as_fd()) {
            Ok(pages) => Ok(Some(pages)),
            Err(status) if OTHER.contains(&status) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

impl PageSharing for CudaDevice {
    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        page_sharing::create(self, bytes)
    }

    fn export(&self, handle: PhysicalHandle) -> Result<ExportedPages, DriverError> {
        page_sharing::export(self, handle)
    }

    fn import(&self, exported: &ExportedPages, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        page_sharing::import(self, exported, bytes)
    }
}
