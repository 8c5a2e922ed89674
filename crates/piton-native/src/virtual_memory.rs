//! Virtual memory over a vendor's: the contract's refusals from our own books, then the vendor is asked.
//!
//! The vendor's mappings cover whole handles and are undone one by one. Physical memory goes back to the vendor when it is
//! destroyed and mapped nowhere: AscendCL wants it in that order, and CUDA does not mind.

#![expect(unsafe_code, reason = "hands the promises of the contract on")]

use crate::{
    mappings::{Mappings, Pages},
    memory,
};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, ErrorKind, Operation, PageGranularity, PhysicalHandle,
};
use std::fmt::Debug;

/// What an address space of a process has at most on the systems that there are drivers for.
const ADDRESS_SPACE: u64 = 1 << 47;

/// A device whose vendor maps pages.
pub trait NativePages: memory::NativeMemory {
    /// The vendor's handle of physical memory.
    type Pages: Copy + Debug + Send;

    /// The books.
    fn mappings(&self) -> &Mappings<Self::Pages>;

    /// What sizes and addresses are multiples of; both at least 1.
    fn page_granularity(&self) -> PageGranularity;

    /// Addresses that nothing backs.
    ///
    /// # Errors
    /// The vendor's code.
    fn reserve_addresses(&self, bytes: u64) -> Result<u64, Self::Status>;

    /// Gives addresses back.
    ///
    /// # Safety
    /// They were reserved as a whole, nothing is mapped there, and no command that has not ended names them.
    ///
    /// # Errors
    /// The vendor's code.
    unsafe fn release_addresses(&self, start: u64, bytes: u64) -> Result<(), Self::Status>;

    /// Physical memory that is mapped nowhere.
    ///
    /// # Errors
    /// The vendor's code.
    fn create_pages(&self, bytes: u64) -> Result<Self::Pages, Self::Status>;

    /// Gives physical memory back.
    ///
    /// # Safety
    /// It came from [`create_pages`](Self::create_pages), is given back once, and is mapped nowhere.
    ///
    /// # Errors
    /// The vendor's code.
    unsafe fn destroy_pages(&self, pages: Self::Pages) -> Result<(), Self::Status>;

    /// Maps all of a handle for this device.
    ///
    /// # Safety
    /// The addresses are reserved and nothing is mapped there; no command that has not ended names them.
    ///
    /// # Errors
    /// The vendor's code: nothing is mapped.
    unsafe fn map_pages(
        &self,
        start: u64,
        bytes: u64,
        pages: Self::Pages,
    ) -> Result<(), Self::Status>;

    /// Lets devices that have access to this one's memory reach a mapping, which is in the books as ready by now.
    ///
    /// # Errors
    /// The vendor's code.
    fn admit_peers(&self, _made: DeviceRange) -> Result<(), Self::Status> {
        Ok(())
    }

    /// Undoes a mapping.
    ///
    /// # Safety
    /// It is a whole one, and no command that has not ended names an address of it.
    ///
    /// # Errors
    /// The vendor's code: the mapping is there.
    unsafe fn unmap_pages(&self, start: u64, bytes: u64) -> Result<(), Self::Status>;
}

/// A size that fits the granularity.
pub(crate) fn check_size<D: NativePages>(
    device: &D,
    bytes: u64,
    operation: Operation,
) -> Result<(), DriverError> {
    let alignment = device.page_granularity().minimum;
    if bytes == 0 {
        let maximum = ADDRESS_SPACE;
        return Err(device.refusal(ErrorKind::InvalidSize { bytes, maximum }, operation));
    }
    if !bytes.is_multiple_of(alignment) {
        let value = bytes;
        return Err(device.refusal(ErrorKind::Misaligned { value, alignment }, operation));
    }
    Ok(())
}

/// Gives back what nothing keeps any more.
pub(crate) fn give_back<D: NativePages>(
    device: &D,
    pages: Option<Pages<D::Pages>>,
) -> Result<(), D::Status> {
    let Some(pages) = pages else {
        return Ok(());
    };
    // SAFETY: the books hand it out once, when it is mapped nowhere.
    unsafe { device.destroy_pages(pages.raw) }
}

/// As [`piton_driver::VirtualMemory::reserve`].
///
/// # Errors
/// As there.
pub fn reserve<D: NativePages>(device: &D, bytes: u64) -> Result<DeviceRange, DriverError> {
    let operation = Operation::ReserveAddresses;
    device.standing().alive(operation)?;
    check_size(device, bytes, operation)?;
    let (requested, capacity) = (bytes, ADDRESS_SPACE);
    let out = ErrorKind::OutOfAddressSpace {
        requested,
        capacity,
    };
    if bytes > ADDRESS_SPACE {
        return Err(device.refusal(out, operation));
    }
    let reserved = device.reserve_addresses(bytes).map_err(|status| {
        let mut error = device.standing().called(status, operation);
        if error.is_out_of_memory() {
            error.kind = out;
        }
        error
    })?;
    let start = DevicePtr::new(reserved);
    let range = DeviceRange { start, bytes };
    device.mappings().reserve(range);
    Ok(range)
}

/// As [`piton_driver::VirtualMemory::release`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn release<D: NativePages>(device: &D, range: DeviceRange) -> Result<(), DriverError> {
    let operation = Operation::ReleaseAddresses;
    let released = device.mappings().release(range);
    released.map_err(|kind| device.refusal(kind, operation))?;
    // SAFETY: the books had it, whole and empty; the rest is the caller's promise.
    let released = unsafe { device.release_addresses(range.start.address(), range.bytes) };
    released.map_err(|status| {
        device.mappings().reserve(range);
        device.standing().called(status, operation)
    })
}

/// As [`piton_driver::VirtualMemory::create`].
///
/// # Errors
/// As there.
pub fn create<D: NativePages>(device: &D, bytes: u64) -> Result<PhysicalHandle, DriverError> {
    create_by(device, bytes, false, || device.create_pages(bytes))
}

/// Physical memory that the vendor makes, if there may be so much.
pub(crate) fn create_by<D: NativePages>(
    device: &D,
    bytes: u64,
    is_exportable: bool,
    make: impl FnOnce() -> Result<D::Pages, D::Status>,
) -> Result<PhysicalHandle, DriverError> {
    let operation = Operation::CreatePhysical;
    device.standing().alive(operation)?;
    check_size(device, bytes, operation)?;
    memory::has_so_much(device, operation, bytes)?;
    let raw = make().map_err(|status| memory::error(device, status, operation, bytes))?;
    Ok(note(device, raw, bytes, is_exportable))
}

/// Writes pages into the books.
pub(crate) fn note<D: NativePages>(
    device: &D,
    raw: D::Pages,
    bytes: u64,
    is_exportable: bool,
) -> PhysicalHandle {
    let pages = Pages {
        raw,
        bytes,
        is_exportable,
    };
    PhysicalHandle(device.mappings().note_pages(pages))
}

/// As [`piton_driver::VirtualMemory::destroy`].
///
/// # Errors
/// As there.
pub fn destroy<D: NativePages>(device: &D, handle: PhysicalHandle) -> Result<(), DriverError> {
    let operation = Operation::DestroyPhysical;
    let taken = device.mappings().take_pages(handle.0);
    let taken = taken.map_err(|kind| device.refusal(kind, operation))?;
    give_back(device, taken).map_err(|status| device.standing().called(status, operation))
}

/// As [`piton_driver::VirtualMemory::map`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn map<D: NativePages>(
    device: &D,
    at: DevicePtr,
    handle: PhysicalHandle,
) -> Result<(), DriverError> {
    let operation = Operation::Map;
    device.standing().alive(operation)?;
    let alignment = device.page_granularity().minimum;
    let pages = device.mappings().begin_map(at, handle.0, alignment);
    let pages = pages.map_err(|kind| device.refusal(kind, operation))?;
    let (start, bytes) = (at, pages.bytes);
    let range = DeviceRange { start, bytes };
    // SAFETY: the books had the addresses reserved and empty; the rest is the caller's promise.
    let made = unsafe { device.map_pages(at.address(), bytes, pages.raw) };
    let unkept = device.mappings().end_map(range, made.is_ok());
    let called = |status: D::Status| device.standing().called(status, operation);
    give_back(device, unkept).map_err(called)?;
    made.map_err(called)?;
    // After the mapping is ready: whoever enables access meanwhile finds it, or is found here.
    device.admit_peers(range).map_err(called)
}

/// As [`piton_driver::VirtualMemory::unmap`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn unmap<D: NativePages>(device: &D, range: DeviceRange) -> Result<(), DriverError> {
    let operation = Operation::Unmap;
    let mappings = device.mappings().begin_unmap(range);
    let mappings = mappings.map_err(|kind| device.refusal(kind, operation))?;
    let mut first_error = None;
    for mapping in mappings {
        // SAFETY: the caller's promise; the books have the whole mapping.
        let undone = unsafe { device.unmap_pages(mapping.start.address(), mapping.bytes) };
        let unkept = device.mappings().end_unmap(mapping, undone.is_ok());
        let undone = undone.and_then(|()| give_back(device, unkept));
        if let Err(status) = undone {
            first_error.get_or_insert(status);
        }
    }
    first_error.map_or(Ok(()), |status| {
        Err(device.standing().called(status, operation))
    })
}
