//! Physical memory between processes: pages of their own, which go as a descriptor.
//!
//! What is imported takes none of this device's memory: the one that it was created on has counted it.

use crate::device::SimDevice;
use piton_driver::{DriverError, ErrorKind, ExportedPages, Operation, PageSharing, PhysicalHandle};
use std::os::fd::AsFd;

impl PageSharing for SimDevice {
    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        let operation = Operation::CreatePhysical;
        self.gate(operation)?;
        let created = self.core().space.lock().create_shared(bytes);
        created.map_err(|kind| self.error(kind, operation))
    }

    fn export(&self, handle: PhysicalHandle) -> Result<ExportedPages, DriverError> {
        let operation = Operation::ExportPhysical;
        self.gate(operation)?;
        let exported = self.core().space.lock().export(handle);
        let descriptor = exported.map_err(|kind| self.error(kind, operation))?;
        Ok(ExportedPages::Descriptor(descriptor))
    }

    fn import(&self, exported: &ExportedPages, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        let operation = Operation::ImportPhysical;
        self.gate(operation)?;
        let imported = match exported {
            ExportedPages::Descriptor(descriptor) => {
                let descriptor = descriptor.as_fd();
                self.core().space.lock().import(descriptor, bytes)
            }
            _ => Err(ErrorKind::NotExported { bytes }),
        };
        imported.map_err(|kind| self.error(kind, operation))
    }
}
