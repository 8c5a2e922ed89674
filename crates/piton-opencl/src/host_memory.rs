//! Host memory that devices copy from and to.
//!
//! Where the device shares fine-grained memory with the host, that is what it copies from fastest, and kernels reach it;
//! otherwise it is the program's own, which `clEnqueueSVMMemcpy` takes as well. OpenCL has no word for locked pages, so
//! they are locked here, and what the system answers to that is what [`HostAllocation::is_locked`] says. Which NUMA node
//! memory comes from is left to the system.

#![expect(unsafe_code, reason = "implements the contract, and owns raw memory")]

use crate::device::OpenClDevice;
use piton_driver::{
    DevicePtr, DriverError, ErrorKind, HostAllocation, HostMemory, HostMemoryOptions, Locking,
    Operation,
};
use piton_sync::Mutex;
use rustix::process::{Resource, getrlimit};
use std::{
    alloc::{self, Layout},
    collections::BTreeMap,
    num::NonZero,
    ptr::{self, NonNull},
};

/// What the contract promises of starts, and what the system locks by.
const PAGE: usize = 4096;

/// How a run of host memory is undone.
#[derive(Debug)]
enum Backing {
    /// Shared memory of OpenCL's, whose start may lie before ours.
    Shared(SharedStart),
    /// The program's allocator.
    Heap,
    /// The program's own; only its pages were locked here.
    Registered,
}

/// Where OpenCL's allocation starts.
#[derive(Debug)]
struct SharedStart(NonNull<u8>);

// SAFETY: an address; the memory belongs to no thread.
unsafe impl Send for SharedStart {}

#[derive(Debug)]
struct Run {
    bytes: usize,
    backing: Backing,
}

/// The runs of host memory that a device copies from and to, by their starts.
#[derive(Debug, Default)]
pub(crate) struct HostBooks(Mutex<BTreeMap<usize, Run>>);

impl HostBooks {
    /// Whether one run that kernels reach too holds all of these bytes.
    pub(crate) fn is_shared(&self, address: u64, bytes: u64) -> bool {
        let runs = self.0.lock();
        let Ok(address) = usize::try_from(address) else {
            return false;
        };
        let run = runs.range(..=address).next_back();
        run.is_some_and(|(first, run)| {
            let end = (address as u64).checked_add(bytes);
            matches!(run.backing, Backing::Shared(_))
                && end.is_some_and(|end| end <= (first + run.bytes) as u64)
        })
    }

    /// Whether one run holds all of these bytes.
    pub(crate) fn holds(&self, start: NonNull<u8>, bytes: u64) -> bool {
        let start = start.as_ptr().addr();
        let runs = self.0.lock();
        let run = runs.range(..=start).next_back();
        let end = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| start.checked_add(bytes));
        run.zip(end)
            .is_some_and(|((first, run), end)| end <= first + run.bytes)
    }
}

impl OpenClDevice {
    fn host_error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.info.id)
    }

    /// Memory of whole pages, from OpenCL or the program's allocator.
    fn host_pages(&self, bytes: usize) -> Option<(NonNull<u8>, Backing)> {
        if self.has_fine_memory {
            // Drivers align by their largest type and no more: one page on top makes room for the alignment.
            let room = bytes.checked_add(PAGE)?;
            let first = self.shared.context.allocate(room, 0, true)?;
            let start = first.map_addr(|address| {
                NonZero::new(address.get().next_multiple_of(PAGE)).unwrap_or(address)
            });
            return Some((start, Backing::Shared(SharedStart(first))));
        }
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the size is not zero: it is whole pages of at least one byte.
        NonNull::new(unsafe { alloc::alloc(layout) }).map(|start| (start, Backing::Heap))
    }

    fn release_host(&self, start: usize, run: &Run) {
        let pages: *mut u8 = ptr::with_exposed_provenance_mut(start);
        // SAFETY: the run is live; unlocking changes no content, and fails harmlessly where nothing is locked.
        let _unlocked = unsafe { rustix::mm::munlock(pages.cast(), run.bytes) };
        match &run.backing {
            // SAFETY: it came from this context and leaves the books, so it is freed once.
            Backing::Shared(first) => unsafe { self.shared.context.free(first.0) },
            Backing::Heap => {
                if let Ok(layout) = Layout::from_size_align(run.bytes, PAGE) {
                    // SAFETY: it came from the allocator with this layout.
                    unsafe { alloc::dealloc(pages, layout) };
                }
            }
            Backing::Registered => {}
        }
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
        let run = Run {
            bytes: pages,
            backing,
        };
        let is_locked = lock(start, pages);
        if !is_locked && options.locking == Locking::Required {
            self.release_host(start.as_ptr().expose_provenance(), &run);
            return Err(self.host_error(refused(pages), operation));
        }
        self.host
            .0
            .lock()
            .insert(start.as_ptr().expose_provenance(), run);
        Ok(HostAllocation {
            start,
            bytes: pages,
            is_locked,
        })
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        let address = allocation.start.as_ptr().addr();
        let run = self.host.0.lock().remove(&address);
        let unknown = ErrorKind::NotPageLocked {
            address: address as u64,
            bytes: allocation.bytes as u64,
        };
        let run = run.ok_or_else(|| self.host_error(unknown, Operation::FreeHost))?;
        self.release_host(address, &run);
        Ok(())
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
        let run = Run {
            bytes,
            backing: Backing::Registered,
        };
        self.host
            .0
            .lock()
            .insert(start.as_ptr().expose_provenance(), run);
        Ok(())
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError> {
        let address = start.as_ptr().addr();
        let mut runs = self.host.0.lock();
        let is_registered = runs
            .get(&address)
            .is_some_and(|run| matches!(run.backing, Backing::Registered));
        let run = if is_registered {
            runs.remove(&address)
        } else {
            None
        };
        drop(runs);
        let unknown = ErrorKind::NotPageLocked {
            address: address as u64,
            bytes: 1,
        };
        let run = run.ok_or_else(|| self.host_error(unknown, Operation::UnregisterHost))?;
        self.release_host(address, &run);
        Ok(())
    }

    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        let address = start.as_ptr().addr();
        let runs = self.host.0.lock();
        let (first, run) = runs.range(..=address).next_back()?;
        let is_shared = matches!(run.backing, Backing::Shared(_)) && address < first + run.bytes;
        is_shared.then(|| DevicePtr::new(address as u64))
    }
}
