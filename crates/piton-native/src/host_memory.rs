//! Page-locked host memory over a vendor's, and the program's own once it is registered.
//!
//! Which NUMA node memory comes from is the vendor's choice: it has no word for it here.

#![expect(
    unsafe_code,
    reason = "hands the promises of the contract on, and owns raw memory"
)]

use crate::{backend::NativeDevice, books::Books};
use piton_driver::{DevicePtr, DriverError, ErrorKind, HostAllocation, Operation};
use std::ptr::NonNull;

/// What the contract promises of starts.
const PAGE: usize = 4096;

/// A run of host memory that the device knows.
#[derive(Debug)]
pub struct HostRun {
    is_registered: bool,
    /// Where the host finds it.
    host: u64,
    /// Where kernels do, if they do.
    device: Option<u64>,
}

impl HostRun {
    /// Whether kernels reach it where the host does.
    pub fn has_own_address(&self) -> bool {
        self.device == Some(self.host)
    }
}

/// A device whose vendor locks pages.
pub trait NativeHostMemory: NativeDevice {
    /// What is allocated and registered.
    fn runs(&self) -> &Books<HostRun>;

    /// Page-locked memory, with the address that kernels use, where they can.
    ///
    /// # Errors
    /// The vendor's code.
    fn allocate_host(&self, bytes: usize) -> Result<(NonNull<u8>, Option<u64>), Self::Status>;

    /// Gives page-locked memory back.
    ///
    /// # Safety
    /// It came from [`allocate_host`](Self::allocate_host), and nobody uses it any more.
    ///
    /// # Errors
    /// The vendor's code.
    unsafe fn free_host(&self, start: NonNull<u8>) -> Result<(), Self::Status>;

    /// Locks memory of the program's, and says at what address kernels reach it, where they do.
    ///
    /// # Safety
    /// The memory is live until [`unregister_host`](Self::unregister_host).
    ///
    /// # Errors
    /// The vendor's code.
    unsafe fn register_host(
        &self,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Result<Option<u64>, Self::Status>;

    /// Unlocks memory of the program's.
    ///
    /// # Safety
    /// It was registered, and no command that has not ended uses it.
    ///
    /// # Errors
    /// The vendor's code.
    unsafe fn unregister_host(&self, start: NonNull<u8>) -> Result<(), Self::Status>;
}

fn check_size<D: NativeDevice>(
    device: &D,
    bytes: usize,
    operation: Operation,
) -> Result<(), DriverError> {
    let maximum = isize::MAX.unsigned_abs();
    if bytes == 0 || bytes > maximum {
        let invalid = ErrorKind::InvalidSize {
            bytes: bytes as u64,
            maximum: maximum as u64,
        };
        return Err(device.refusal(invalid, operation));
    }
    Ok(())
}

/// Notes a run, whose provenance is exposed by it.
fn note<D: NativeHostMemory>(
    of: &D,
    start: NonNull<u8>,
    bytes: usize,
    device: Option<u64>,
    is_registered: bool,
) {
    let host = start.as_ptr().expose_provenance() as u64;
    let run = HostRun {
        is_registered,
        host,
        device,
    };
    of.runs().insert(host, bytes as u64, run);
}

/// Strikes a run out of the books.
fn take<D: NativeHostMemory>(
    device: &D,
    start: NonNull<u8>,
    is_registered: bool,
    operation: Operation,
) -> Result<(), DriverError> {
    let address = start.as_ptr().addr() as u64;
    let unknown = ErrorKind::NotPageLocked { address, bytes: 1 };
    let is_it = |run: &HostRun| run.is_registered == is_registered;
    match device.runs().remove(address, is_it) {
        Some(_) => Ok(()),
        None => Err(device.refusal(unknown, operation)),
    }
}

/// As [`piton_driver::HostMemory::allocate`]; the vendor locks what it hands out, so it is locked whatever the options say.
///
/// # Errors
/// As there.
pub fn allocate<D: NativeHostMemory>(of: &D, bytes: usize) -> Result<HostAllocation, DriverError> {
    let operation = Operation::AllocateHost;
    of.standing().alive(operation)?;
    check_size(of, bytes, operation)?;
    let pages = bytes.next_multiple_of(PAGE);
    let (start, device) = of.allocate_host(pages).map_err(|status| {
        let mut error = of.standing().called(status, operation);
        if matches!(error.kind, ErrorKind::OutOfHostMemory { .. }) {
            let requested = pages as u64;
            error.kind = ErrorKind::OutOfHostMemory { requested };
        }
        error
    })?;
    let value = start.as_ptr().addr() as u64;
    if !value.is_multiple_of(PAGE as u64) {
        // SAFETY: just allocated, and nobody's yet.
        let _freed = unsafe { of.free_host(start) };
        let alignment = PAGE as u64;
        let misaligned = ErrorKind::Misaligned { value, alignment };
        return Err(of.refusal(misaligned, operation));
    }
    // SAFETY: fresh memory of `pages` bytes that nobody else has.
    unsafe { start.as_ptr().write_bytes(0, pages) };
    note(of, start, pages, device, false);
    Ok(HostAllocation {
        start,
        bytes: pages,
        is_locked: true,
    })
}

/// As [`piton_driver::HostMemory::free`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn free<D: NativeHostMemory>(
    device: &D,
    allocation: HostAllocation,
) -> Result<(), DriverError> {
    let operation = Operation::FreeHost;
    take(device, allocation.start, false, operation)?;
    // SAFETY: the books had it, so it came from `allocate` and is freed once; the rest is the caller's promise.
    let freed = unsafe { device.free_host(allocation.start) };
    freed.map_err(|status| device.standing().called(status, operation))
}

/// As [`piton_driver::HostMemory::register`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn register<D: NativeHostMemory>(
    of: &D,
    start: NonNull<u8>,
    bytes: usize,
) -> Result<(), DriverError> {
    let operation = Operation::RegisterHost;
    of.standing().alive(operation)?;
    check_size(of, bytes, operation)?;
    // SAFETY: the caller keeps the memory until it is unregistered.
    let registered = unsafe { of.register_host(start, bytes) };
    let device = registered.map_err(|status| of.standing().called(status, operation))?;
    note(of, start, bytes, device, true);
    Ok(())
}

/// As [`piton_driver::HostMemory::unregister`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn unregister<D: NativeHostMemory>(
    device: &D,
    start: NonNull<u8>,
) -> Result<(), DriverError> {
    let operation = Operation::UnregisterHost;
    take(device, start, true, operation)?;
    // SAFETY: the books had it, so it is registered; the rest is the caller's promise.
    let undone = unsafe { device.unregister_host(start) };
    undone.map_err(|status| device.standing().called(status, operation))
}

/// As [`piton_driver::HostMemory::device_address`].
pub fn device_address<D: NativeHostMemory>(of: &D, start: NonNull<u8>) -> Option<DevicePtr> {
    let address = start.as_ptr().addr() as u64;
    let mut found = None;
    of.runs().holds_of(address, 1, |run| {
        let place = |device: u64| device.checked_add(address - run.host);
        found = run.device.and_then(place);
        true
    });
    found.map(DevicePtr::new)
}
