//! Device memory: shared virtual memory, whose addresses work inside a block as they do at its start.
//!
//! The budget is kept here: `clSVMAlloc` of some drivers reserves more than there is without a word, and the first touch
//! pays for it.

#![expect(
    unsafe_code,
    reason = "implements the contract, and frees memory of OpenCL's"
)]

use crate::device::OpenClDevice;
use piton_driver::{DevicePtr, DriverError, ErrorKind, Memory, MemoryUsage, Operation};
use piton_sync::atomic::{AtomicU64, Ordering};

/// What of the budget is in use, in bytes. An ordinary counter: nobody reads memory on its word.
#[derive(Debug)]
pub(crate) struct Budget {
    capacity: u64,
    used: AtomicU64,
}

impl Budget {
    pub(crate) const fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: AtomicU64::new(0),
        }
    }

    fn free(&self) -> u64 {
        self.capacity
            .saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.capacity);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: OpenCL hands out memory that overlaps no other and stays until it is freed; every device of the context, and so
// every queue and kernel of it, reaches it. The books refuse what is not the start of a live allocation.
unsafe impl Memory for OpenClDevice {
    fn granularity(&self) -> u64 {
        self.alignment
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        self.alive(Operation::AllocateMemory)?;
        let error = |kind| DriverError::new(kind, Operation::AllocateMemory, self.info.id);
        let maximum = self.info.memory_bytes;
        if bytes == 0 {
            return Err(error(ErrorKind::InvalidSize { bytes, maximum }));
        }
        let refused = || {
            error(ErrorKind::OutOfMemory {
                requested: bytes,
                free: self.budget.free(),
                capacity: self.budget.capacity,
            })
        };
        let rounded = bytes.checked_next_multiple_of(self.alignment);
        let rounded = rounded.filter(|rounded| *rounded <= self.max_allocation);
        let rounded = rounded.ok_or_else(refused)?;
        if !self.budget.take(rounded) {
            return Err(refused());
        }
        let as_size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (size, alignment) = (as_size(rounded), as_size(self.alignment));
        let Some(memory) = self.shared.context.allocate(size, alignment, false) else {
            self.budget.give_back(rounded);
            return Err(refused());
        };
        let address = memory.start.as_ptr().expose_provenance() as u64;
        self.memory.insert(address, rounded, memory);
        Ok(DevicePtr::new(address))
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<(), DriverError> {
        let unknown = ErrorKind::UnknownAddress {
            address: ptr,
            bytes: 1,
        };
        let error = DriverError::new(unknown, Operation::FreeMemory, self.info.id);
        let removed = self.memory.remove(ptr.address(), |_| true);
        let (bytes, memory) = removed.ok_or(error)?;
        // SAFETY: the books had it, so it came from `allocate` and is freed once; that no command uses it is the caller's
        // promise.
        unsafe { self.shared.context.free(memory) };
        self.budget.give_back(bytes);
        Ok(())
    }

    fn usage(&self) -> Result<MemoryUsage, DriverError> {
        self.alive(Operation::QueryMemory)?;
        Ok(MemoryUsage {
            capacity: self.budget.capacity,
            free: self.budget.free(),
        })
    }
}
