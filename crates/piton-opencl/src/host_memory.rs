//! Host memory that devices copy from and to.
//!
//! Where the device shares fine-grained memory with the host, that is what it copies from fastest, and kernels reach it;
//! otherwise it is the program's own, which `clEnqueueSVMMemcpy` takes as well. OpenCL has no word for locked pages, so
//! they are locked here, and what the system answers to that is what [`HostAllocation::is_locked`] says. Which NUMA node
//! memory comes from is left to the system.

#![expect(unsafe_code, reason = "implements the contract, and owns raw memory")]

use crate::{device::OpenClDevice, ffi::SharedMemory};
use piton_driver::{
    DevicePtr, DriverError, ErrorKind, HostAllocation, HostMemory, HostMemoryOptions, Locking,
    Operation,
};
use rustix::process::{Resource, getrlimit};
use std::{
    alloc::{self, Layout},
    ptr::NonNull,
};

/// What the contract promises of starts, and what the system locks by.
const PAGE: usize = 4096;

/// What a run of host memory is of, and so how it is undone.
#[derive(Debug)]
pub(crate) enum Backing {
    /// Shared memory of OpenCL's.
    Shared(SharedMemory),
    /// The program's allocator.
    Heap,
    /// The program's own; only its pages were locked here.
    Registered,
}

impl Backing {
    /// Whether kernels reach it.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    const fn is_registered(&self) -> bool {
        matches!(self, Self::Registered)
    }
}

impl OpenClDevice {
    const fn host_error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.info.id)
    }

    /// Memory of whole pages, from OpenCL or the program's allocator.
    fn host_pages(&self, bytes: usize) -> Option<(NonNull<u8>, Backing)> {
        if self.has_fine_memory {
            let memory = self.shared.context.allocate(bytes, PAGE, true)?;
            return Some((memory.start, Backing::Shared(memory)));
        }
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the size is not zero: it is whole pages of at least one byte.
        NonNull::new(unsafe { alloc::alloc(layout) }).map(|start| (start, Backing::Heap))
    }

    /// Undoes a run that is in no books any more, so is undone once.
    fn release_host(&self, start: NonNull<u8>, bytes: usize, backing: Backing) {
        // SAFETY: the run is live; unlocking changes no content, and fails harmlessly where nothing is locked.
        let _unlocked = unsafe { rustix::mm::munlock(start.as_ptr().cast(), bytes) };
        match backing {
            // SAFETY: it came from this context; that nothing uses it is the promise of whoever frees it.
            Backing::Shared(memory) => unsafe { self.shared.context.free(memory) },
            Backing::Heap => {
                if let Ok(layout) = Layout::from_size_align(bytes, PAGE) {
                    // SAFETY: it came from the allocator with this layout.
                    unsafe { alloc::dealloc(start.as_ptr(), layout) };
                }
            }
            Backing::Registered => {}
        }
    }

    /// Strikes a run out of the books and undoes it.
    fn take_host(
        &self,
        start: NonNull<u8>,
        of: fn(&Backing) -> bool,
        operation: Operation,
    ) -> Result<(), DriverError> {
        let address = start.as_ptr().addr() as u64;
        let unknown = ErrorKind::NotPageLocked { address, bytes: 1 };
        let removed = self.host.remove(address, of);
        let (bytes, backing) = removed.ok_or_else(|| self.host_error(unknown, operation))?;
        let bytes = usize::try_from(bytes).unwrap_or(0);
        self.release_host(start, bytes, backing);
        Ok(())
    }
}

/// Locks pages; says whether the system did.
fn lock(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the memory is live; locking changes no content.
    unsafe { rustix::mm::mlock(start.as_ptr().cast(), bytes) }.is_ok()
}

fn refused(bytes: usize) -> ErrorKind {
    ErrorKind::LockRefused {
        requested: bytes as u64,
        limit: getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
    }
}

// SAFETY: runs come from OpenCL or the allocator, which hand out memory that is valid and nobody else's; they are zeroed
// before they are handed out; devices touch them by commands that name them only.
unsafe impl HostMemory for OpenClDevice {
    fn allocate(
        &self,
        bytes: usize,
        options: HostMemoryOptions,
    ) -> Result<HostAllocation, DriverError> {
        let operation = Operation::AllocateHost;
        let maximum = isize::MAX.unsigned_abs();
        let pages = bytes
            .checked_next_multiple_of(PAGE)
            .filter(|pages| bytes > 0 && *pages <= maximum);
        let invalid = ErrorKind::InvalidSize {
            bytes: bytes as u64,
            maximum: maximum as u64,
        };
        let pages = pages.ok_or_else(|| self.host_error(invalid, operation))?;
        let out = ErrorKind::OutOfHostMemory {
            requested: pages as u64,
        };
        let (start, backing) = self
            .host_pages(pages)
            .ok_or_else(|| self.host_error(out, operation))?;
        // SAFETY: fresh memory of `pages` bytes that nobody else has.
        unsafe { start.as_ptr().write_bytes(0, pages) };
        let is_locked = lock(start, pages);
        if !is_locked && options.locking == Locking::Required {
            self.release_host(start, pages, backing);
            return Err(self.host_error(refused(pages), operation));
        }
        let address = start.as_ptr().expose_provenance() as u64;
        self.host.insert(address, pages as u64, backing);
        Ok(HostAllocation {
            start,
            bytes: pages,
            is_locked,
        })
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        let is_own = |backing: &Backing| !backing.is_registered();
        self.take_host(allocation.start, is_own, Operation::FreeHost)
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), DriverError> {
        let operation = Operation::RegisterHost;
        if bytes == 0 || bytes > isize::MAX.unsigned_abs() {
            let invalid = ErrorKind::InvalidSize {
                bytes: bytes as u64,
                maximum: isize::MAX.unsigned_abs() as u64,
            };
            return Err(self.host_error(invalid, operation));
        }
        if !lock(start, bytes) {
            return Err(self.host_error(refused(bytes), operation));
        }
        let address = start.as_ptr().expose_provenance() as u64;
        self.host.insert(address, bytes as u64, Backing::Registered);
        Ok(())
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError> {
        self.take_host(start, Backing::is_registered, Operation::UnregisterHost)
    }

    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        let address = start.as_ptr().addr() as u64;
        let is_reached = self.host.holds_of(address, 1, Backing::is_shared);
        is_reached.then(|| DevicePtr::new(address))
    }
}
