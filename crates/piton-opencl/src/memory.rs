//! Device memory: shared virtual memory, whose addresses work inside a block as they do at its start, or buffers with
//! addresses of ours ([`addresses`](crate::addresses)).
//!
//! The budget is kept here: `clSVMAlloc` and `clCreateBuffer` of some drivers reserve more than there is without a word, and
//! the first touch pays for it.

#![expect(
    unsafe_code,
    reason = "implements the contract, and frees memory of OpenCL's"
)]

use crate::{
    device::OpenClDevice,
    ffi::{Buffer, SharedMemory},
};
use piton_driver::{DevicePtr, DriverError, ErrorKind, Memory, MemoryUsage, Operation};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What an allocation is of.
#[derive(Debug)]
pub(crate) enum DeviceMemory {
    /// Shared virtual memory.
    Shared(SharedMemory),
    /// A buffer.
    Buffer(Arc<Buffer>),
}

impl DeviceMemory {
    /// The buffer, if it is one.
    pub(crate) fn buffer(&self) -> Option<Arc<Buffer>> {
        match self {
            Self::Buffer(buffer) => Some(Arc::clone(buffer)),
            Self::Shared(_) => None,
        }
    }
}

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

impl OpenClDevice {
    /// Memory of this size and its address, or nothing where OpenCL has none left; it does not always say why.
    fn fresh(&self, bytes: u64) -> Option<(u64, DeviceMemory)> {
        let context = &self.shared.context;
        let size = usize::try_from(bytes).ok()?;
        if !self.shared.has_shared_memory {
            let buffer = context.buffer(size).ok()?;
            let address = self.shared.addresses.take(bytes, self.alignment)?;
            return Some((address, DeviceMemory::Buffer(Arc::new(buffer))));
        }
        let alignment = usize::try_from(self.alignment).ok()?;
        let memory = context.allocate(size, alignment, false)?;
        let address = memory.start.as_ptr().expose_provenance() as u64;
        Some((address, DeviceMemory::Shared(memory)))
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
        let Some((address, memory)) = self.fresh(rounded) else {
            self.budget.give_back(rounded);
            return Err(refused());
        };
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
        match memory {
            DeviceMemory::Shared(memory) => {
                // SAFETY: the books had it, so it came from `allocate` and is freed once; that no command uses it is the
                // caller's promise.
                unsafe { self.shared.context.free(memory) };
            }
            DeviceMemory::Buffer(buffer) => drop(buffer),
        }
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
