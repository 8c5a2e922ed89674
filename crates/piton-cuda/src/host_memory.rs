//! Page-locked host memory: CUDA's own, and the program's once it is registered.
//!
//! Both are *portable* (locked for every device's context) and *mapped* (kernels reach them). Which NUMA node memory comes
//! from is CUDA's choice: it has no word for it here.

#![expect(unsafe_code, reason = "implements the contract, and owns raw memory")]

use crate::device::CudaDevice;
use piton_driver::{
    DevicePtr, DriverError, ErrorKind, HostAllocation, HostMemory, HostMemoryOptions, Operation,
};
use std::ptr::NonNull;

/// What the contract promises of starts.
const PAGE: usize = 4096;

/// A run of host memory that the device knows.
#[derive(Debug)]
pub(crate) struct HostRun {
    is_registered: bool,
    /// Where the host finds it, and where kernels do.
    host: u64,
    device: u64,
}

impl HostRun {
    /// Whether kernels reach it where the host does.
    pub(crate) const fn has_own_address(&self) -> bool {
        self.host == self.device
    }
}

impl CudaDevice {
    fn host_size(&self, bytes: usize, operation: Operation) -> Result<(), DriverError> {
        let maximum = isize::MAX.unsigned_abs();
        if bytes == 0 || bytes > maximum {
            let invalid = ErrorKind::InvalidSize {
                bytes: bytes as u64,
                maximum: maximum as u64,
            };
            return Err(DriverError::new(invalid, operation, self.info.id));
        }
        Ok(())
    }

    /// Notes a run, whose provenance is exposed by it.
    fn note_host(&self, start: NonNull<u8>, bytes: usize, device: u64, is_registered: bool) {
        let host = start.as_ptr().expose_provenance() as u64;
        let run = HostRun {
            is_registered,
            host,
            device,
        };
        self.host.insert(host, bytes as u64, run);
    }

    /// Strikes a run out of the books.
    fn take_host(
        &self,
        start: NonNull<u8>,
        is_registered: bool,
        operation: Operation,
    ) -> Result<(u64, HostRun), DriverError> {
        let address = start.as_ptr().addr() as u64;
        let unknown = ErrorKind::NotPageLocked { address, bytes: 1 };
        let removed = self
            .host
            .remove(address, |run| run.is_registered == is_registered);
        removed.ok_or_else(|| DriverError::new(unknown, operation, self.info.id))
    }
}

// SAFETY: runs come from CUDA, which hands out memory that is valid and nobody else's; they are zeroed before they are
// handed out; devices touch them by commands that name them only.
unsafe impl HostMemory for CudaDevice {
    /// CUDA locks what it hands out, so the memory is locked whatever the options say.
    fn allocate(&self, bytes: usize, _: HostMemoryOptions) -> Result<HostAllocation, DriverError> {
        let operation = Operation::AllocateHost;
        self.alive(operation)?;
        self.host_size(bytes, operation)?;
        let pages = bytes.next_multiple_of(PAGE);
        let allocated = self.context.allocate_host(pages);
        let (start, device) = allocated.map_err(|status| {
            let mut error = self.called(status, operation);
            if matches!(error.kind, ErrorKind::OutOfHostMemory { .. }) {
                let requested = pages as u64;
                error.kind = ErrorKind::OutOfHostMemory { requested };
            }
            error
        })?;
        let value = start.as_ptr().addr() as u64;
        if !value.is_multiple_of(PAGE as u64) {
            // SAFETY: just allocated, and nobody's yet.
            let _freed = unsafe { self.context.free_host(start) };
            let alignment = PAGE as u64;
            let misaligned = ErrorKind::Misaligned { value, alignment };
            return Err(DriverError::new(misaligned, operation, self.info.id));
        }
        // SAFETY: fresh memory of `pages` bytes that nobody else has.
        unsafe { start.as_ptr().write_bytes(0, pages) };
        self.note_host(start, pages, device, false);
        Ok(HostAllocation {
            start,
            bytes: pages,
            is_locked: true,
        })
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        let operation = Operation::FreeHost;
        let _run = self.take_host(allocation.start, false, operation)?;
        // SAFETY: the books had it, so it came from `allocate` and is freed once; the rest is the caller's promise.
        let freed = unsafe { self.context.free_host(allocation.start) };
        freed.map_err(|status| self.called(status, operation))
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), DriverError> {
        let operation = Operation::RegisterHost;
        self.alive(operation)?;
        self.host_size(bytes, operation)?;
        // SAFETY: the caller keeps the memory until it is unregistered.
        let registered = unsafe { self.context.register_host(start, bytes) };
        let device = registered.map_err(|status| self.called(status, operation))?;
        self.note_host(start, bytes, device, true);
        Ok(())
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError> {
        let operation = Operation::UnregisterHost;
        let _run = self.take_host(start, true, operation)?;
        // SAFETY: the books had it, so it is registered; the rest is the caller's promise.
        let undone = unsafe { self.context.unregister_host(start) };
        undone.map_err(|status| self.called(status, operation))
    }

    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        let address = start.as_ptr().addr() as u64;
        let mut found = None;
        self.host.holds_of(address, 1, |run| {
            found = run.device.checked_add(address - run.host);
            true
        });
        found.map(DevicePtr::new)
    }
}
