//! Semaphores between processes: the host resolves all semaphores here, so it needs nothing of the vendor's for those of other
//! processes. Their number is in a page that the processes share.

use crate::{backend::NativeDevice, semaphore};
use piton_driver::{DriverError, ErrorKind, ExportedSemaphore, Operation, Semaphore};
use piton_sync::SharedNumber;
use std::{os::fd::AsFd, sync::Arc};

/// Whether the system has what they are made of.
pub const ARE_THERE: bool = SharedNumber::IS_THERE;

/// As [`piton_driver::SemaphoreSharing::create`].
///
/// # Errors
/// As there.
pub fn create<D: NativeDevice>(
    device: &D,
    initial: u64,
) -> Result<Arc<dyn Semaphore>, DriverError> {
    let operation = Operation::CreateSemaphore;
    device.standing().alive(operation)?;
    let created = SharedNumber::new(initial).and_then(|number| semaphore::over(device, number));
    created.map_err(|errno| device.refusal(ErrorKind::System { errno }, operation))
}

/// As [`piton_driver::SemaphoreSharing::export`].
///
/// # Errors
/// As there.
pub fn export<D: NativeDevice>(
    device: &D,
    semaphore: &dyn Semaphore,
) -> Result<ExportedSemaphore, DriverError> {
    let operation = Operation::ExportSemaphore;
    device.standing().alive(operation)?;
    let refusal = |kind| device.refusal(kind, operation);
    let given = device.info().id;
    let own = semaphore::core_of(semaphore).filter(|core| core.is_of(device.driven()));
    let own = own.ok_or_else(|| refusal(ErrorKind::ForeignObject { given }))?;
    let number = own.shared.as_ref();
    let number = number.ok_or_else(|| refusal(ErrorKind::PrivateSemaphore))?;
    let descriptor = number.descriptor();
    let descriptor = descriptor.map_err(|errno| refusal(ErrorKind::System { errno }))?;
    Ok(ExportedSemaphore::Descriptor(descriptor))
}

/// As [`piton_driver::SemaphoreSharing::import`].
///
/// # Errors
/// As there.
pub fn import<D: NativeDevice>(
    device: &D,
    exported: &ExportedSemaphore,
) -> Result<Arc<dyn Semaphore>, DriverError> {
    let operation = Operation::ImportSemaphore;
    device.standing().alive(operation)?;
    let refusal = |kind| device.refusal(kind, operation);
    let system = |errno| refusal(ErrorKind::System { errno });
    let ExportedSemaphore::Descriptor(descriptor) = exported else {
        return Err(refusal(ErrorKind::NotASemaphore));
    };
    let number = SharedNumber::sent(descriptor.as_fd()).map_err(system)?;
    let number = number.ok_or_else(|| refusal(ErrorKind::NotASemaphore))?;
    semaphore::over(device, number).map_err(system)
}
