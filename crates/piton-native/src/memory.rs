//! Device memory over a vendor's: books of what is live, sizes and starts as pools expect them.
//!
//! The vendor says itself when memory is out; how much there was then is a second question, whose answer other processes may
//! have changed meanwhile.

#![expect(unsafe_code, reason = "hands the promises of the contract on")]

use crate::{backend::NativeDevice, books::Books};
use piton_driver::{DevicePtr, DriverError, ErrorKind, MemoryUsage, Operation};

/// What sizes are rounded to, and starts are multiples of: what pools above expect of a device. Where the vendor gives less,
/// a little more is asked for and the start moved.
pub const ALIGNMENT: u64 = 512;

/// A device whose vendor keeps its memory.
pub trait NativeMemory: NativeDevice {
    /// Live allocations, each with where the vendor's starts.
    fn allocations(&self) -> &Books<u64>;

    /// Memory of this size.
    ///
    /// # Errors
    /// The vendor's code.
    fn allocate_memory(&self, bytes: u64) -> Result<u64, Self::Status>;

    /// Gives memory back. May wait for the device.
    ///
    /// # Safety
    /// It came from [`allocate_memory`](Self::allocate_memory), and no command that has not ended uses it.
    ///
    /// # Errors
    /// The vendor's code: the memory is still live.
    unsafe fn free_memory(&self, start: u64) -> Result<(), Self::Status>;

    /// Bytes that are free, and bytes in all.
    ///
    /// # Errors
    /// The vendor's code.
    fn memory_info(&self) -> Result<(u64, u64), Self::Status>;
}

/// The error for a refusal; what memory there is stands beside one for lack of it.
pub fn error<D: NativeMemory>(
    device: &D,
    status: D::Status,
    operation: Operation,
    requested: u64,
) -> DriverError {
    let mut error = device.standing().called(status, operation);
    if error.is_out_of_memory() {
        error.kind = out_of_memory(device, requested);
    }
    error
}

fn out_of_memory<D: NativeMemory>(device: &D, requested: u64) -> ErrorKind {
    let info = device.memory_info();
    let (free, capacity) = info.unwrap_or((0, device.info().memory_bytes));
    ErrorKind::OutOfMemory {
        requested,
        free,
        capacity,
    }
}

/// No more is asked for than there is: what vendors answer to absurd sizes depends on their versions.
///
/// # Errors
/// [`OutOfMemory`](ErrorKind::OutOfMemory).
pub(crate) fn has_so_much<D: NativeMemory>(
    device: &D,
    operation: Operation,
    bytes: u64,
) -> Result<(), DriverError> {
    if bytes <= device.info().memory_bytes {
        return Ok(());
    }
    Err(device.refusal(out_of_memory(device, bytes), operation))
}

/// An aligned start, and where the vendor's allocation starts.
fn aligned<D: NativeMemory>(device: &D, bytes: u64) -> Result<(u64, u64), D::Status> {
    let address = device.allocate_memory(bytes)?;
    if address.is_multiple_of(ALIGNMENT) {
        return Ok((address, address));
    }
    // SAFETY: just allocated, and nobody's yet.
    unsafe { device.free_memory(address) }?;
    let address = device.allocate_memory(bytes.saturating_add(ALIGNMENT))?;
    Ok((address.next_multiple_of(ALIGNMENT), address))
}

/// As [`piton_driver::Memory::allocate`].
///
/// # Errors
/// As there.
pub fn allocate<D: NativeMemory>(device: &D, bytes: u64) -> Result<DevicePtr, DriverError> {
    let operation = Operation::AllocateMemory;
    device.standing().alive(operation)?;
    let maximum = device.info().memory_bytes;
    if bytes == 0 {
        let invalid = ErrorKind::InvalidSize { bytes, maximum };
        return Err(device.refusal(invalid, operation));
    }
    // What cannot be rounded is more than there is.
    let rounded = bytes.checked_next_multiple_of(ALIGNMENT);
    let rounded = rounded.unwrap_or(u64::MAX);
    has_so_much(device, operation, rounded)?;
    let (start, first) =
        aligned(device, rounded).map_err(|status| error(device, status, operation, rounded))?;
    device.allocations().insert(start, rounded, first);
    Ok(DevicePtr::new(start))
}

/// As [`piton_driver::Memory::free`].
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn free<D: NativeMemory>(device: &D, ptr: DevicePtr) -> Result<(), DriverError> {
    let operation = Operation::FreeMemory;
    let unknown = ErrorKind::UnknownAddress {
        address: ptr,
        bytes: 1,
    };
    let removed = device.allocations().remove(ptr.address(), |_| true);
    let (bytes, first) = removed.ok_or_else(|| device.refusal(unknown, operation))?;
    // SAFETY: the books had it, so it came from `allocate` and is freed once; that no command uses it is the caller's
    // promise.
    let freed = unsafe { device.free_memory(first) };
    freed.map_err(|status| {
        let error = device.standing().called(status, operation);
        if !error.is_device_lost() {
            device.allocations().insert(ptr.address(), bytes, first);
        }
        error
    })
}

/// As [`piton_driver::Memory::usage`].
///
/// # Errors
/// As there.
pub fn usage<D: NativeMemory>(device: &D) -> Result<MemoryUsage, DriverError> {
    let operation = Operation::QueryMemory;
    device.standing().alive(operation)?;
    let info = device.memory_info();
    let (free, capacity) = info.map_err(|status| device.standing().called(status, operation))?;
    Ok(MemoryUsage { capacity, free })
}
