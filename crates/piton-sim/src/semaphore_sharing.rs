//! Semaphores between processes, as descriptors of the page that their number is in.

use crate::device::SimDevice;
use piton_driver::{
    DriverError, ErrorKind, ExportedSemaphore, Operation, Semaphore, SemaphoreSharing,
};
use piton_sync::SharedNumber;
use std::{os::fd::AsFd, sync::Arc};

impl SemaphoreSharing for SimDevice {
    fn create(&self, initial: u64) -> Result<Arc<dyn Semaphore>, DriverError> {
        let operation = Operation::CreateSemaphore;
        self.gate(operation)?;
        let created = SharedNumber::new(initial).and_then(|number| self.semaphore_over(number));
        created.map_err(|errno| self.error(ErrorKind::System { errno }, operation))
    }

    fn export(&self, semaphore: &dyn Semaphore) -> Result<ExportedSemaphore, DriverError> {
        let operation = Operation::ExportSemaphore;
        self.gate(operation)?;
        let own = self.own_semaphore(semaphore, operation)?;
        let error = |kind| self.error(kind, operation);
        let number = own.shared.as_ref();
        let number = number.ok_or_else(|| error(ErrorKind::PrivateSemaphore))?;
        let descriptor = number.descriptor();
        let descriptor = descriptor.map_err(|errno| error(ErrorKind::System { errno }))?;
        Ok(ExportedSemaphore::Descriptor(descriptor))
    }

    fn import(&self, exported: &ExportedSemaphore) -> Result<Arc<dyn Semaphore>, DriverError> {
        let operation = Operation::ImportSemaphore;
        self.gate(operation)?;
        let error = |kind| self.error(kind, operation);
        let system = |errno| error(ErrorKind::System { errno });
        let ExportedSemaphore::Descriptor(descriptor) = exported else {
            return Err(error(ErrorKind::NotASemaphore));
        };
        let number = SharedNumber::sent(descriptor.as_fd()).map_err(system)?;
        let number = number.ok_or_else(|| error(ErrorKind::NotASemaphore))?;
        self.semaphore_over(number).map_err(system)
    }
}
