//! Physical memory between processes over a vendor's: who made a handle, and for what, is in the books; the vendor knows the
//! rest.

use crate::virtual_memory::{NativePages, check_size, create_by, give_back, note};
use piton_driver::{DriverError, ErrorKind, ExportedPages, Operation, PhysicalHandle};

/// A device whose vendor hands pages to other processes.
pub trait NativePageSharing: NativePages {
    /// Physical memory that is mapped nowhere and may be exported.
    ///
    /// # Errors
    /// The vendor's code.
    fn create_exportable_pages(&self, bytes: u64) -> Result<Self::Pages, Self::Status>;

    /// What another process is sent of memory that was made for it.
    ///
    /// # Errors
    /// The vendor's code.
    fn export_pages(&self, pages: Self::Pages) -> Result<ExportedPages, Self::Status>;

    /// A handle of the vendor's to what was exported; nothing where it is something else.
    ///
    /// # Errors
    /// The vendor's code.
    fn import_pages(&self, exported: &ExportedPages) -> Result<Option<Self::Pages>, Self::Status>;
}

/// As [`piton_driver::PageSharing::create`].
///
/// # Errors
/// As there.
pub fn create<D: NativePageSharing>(device: &D, bytes: u64) -> Result<PhysicalHandle, DriverError> {
    create_by(device, bytes, true, || {
        device.create_exportable_pages(bytes)
    })
}

/// As [`piton_driver::PageSharing::export`].
///
/// # Errors
/// As there.
pub fn export<D: NativePageSharing>(
    device: &D,
    handle: PhysicalHandle,
) -> Result<ExportedPages, DriverError> {
    let operation = Operation::ExportPhysical;
    device.standing().alive(operation)?;
    let refusal = |kind| device.refusal(kind, operation);
    let called = |status| device.standing().called(status, operation);
    let PhysicalHandle(handle) = handle;
    let pages = device.mappings().hold(handle).map_err(refusal)?;
    let exported = if pages.is_exportable {
        device.export_pages(pages.raw).map_err(called)
    } else {
        Err(refusal(ErrorKind::NotShareable { handle }))
    };
    give_back(device, device.mappings().let_go(handle)).map_err(called)?;
    exported
}

/// As [`piton_driver::PageSharing::import`].
///
/// # Errors
/// As there.
pub fn import<D: NativePageSharing>(
    device: &D,
    exported: &ExportedPages,
    bytes: u64,
) -> Result<PhysicalHandle, DriverError> {
    let operation = Operation::ImportPhysical;
    device.standing().alive(operation)?;
    check_size(device, bytes, operation)?;
    let imported = device.import_pages(exported);
    let imported = imported.map_err(|status| device.standing().called(status, operation))?;
    let other = device.refusal(ErrorKind::NotExported { bytes }, operation);
    Ok(note(device, imported.ok_or(other)?, bytes, false))
}
