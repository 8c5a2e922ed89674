//! The bytes of a device: a memfd, and a window of this process's addresses through which it is seen.
//!
//! # Invariants
//! 1. `base..base + bytes` is one mapping region that this value owns; every part of it is either a mapping
//!    of the memfd, or of shared pages, or `PROT_NONE`. Parts are replaced with `MAP_FIXED`, never unmapped, so nothing else of the
//!    process can come to lie there.
//! 2. The memfd has its full length and is sealed against shrinking, so a mapped byte never turns into SIGBUS.

#![expect(unsafe_code, reason = "maps and unmaps pages at fixed addresses")]

use crate::{
    physical::Run,
    shared_pages::{self, SharedPages},
};
use piton_driver::ErrorKind;
use rustix::{
    fs::FallocateFlags,
    io::Errno,
    mm::{MapFlags, ProtFlags},
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
};

/// A device's memory as this process sees it.
#[derive(Debug)]
pub(crate) struct Window {
    base: NonNull<u8>,
    bytes: usize,
    pages: OwnedFd,
}

// SAFETY: the fields are an address range owned by the value and a file descriptor; neither is tied to a
// thread, and all methods take `&self` and leave synchronisation of the bytes to their callers.
unsafe impl Send for Window {}
// SAFETY: as for `Send`.
unsafe impl Sync for Window {}

impl Window {
    /// A window of `bytes` bytes, nothing mapped, over `capacity` bytes of pages not yet backed.
    pub(crate) fn new(bytes: usize, capacity: u64) -> Result<Self, ErrorKind> {
        let pages = shared_pages::sealed(capacity)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED the kernel picks a range that nothing uses.
        let base = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags)
        }
        .map_err(system)?;
        let base = NonNull::new(base.cast()).ok_or(ErrorKind::System { errno: 0 })?;
        // INVARIANT: (1) the range was just made, all of it PROT_NONE; (2) the memfd was sized, then sealed.
        Ok(Self { base, bytes, pages })
    }

    /// The host address of device offset `offset`; valid where `offset` is mapped.
    pub(crate) fn at(&self, offset: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset)
            .ok()
            .filter(|offset| *offset < self.bytes)?;
        // SAFETY: `offset` is below `bytes`, so the result stays inside the range of invariant 1.
        Some(unsafe { self.base.add(offset) })
    }

    /// Shows pages `run` (of `page` bytes each) at `offset`.
    ///
    /// # Safety
    /// Nobody uses the bytes at `offset` now: what was seen there is replaced.
    pub(crate) unsafe fn map(&self, offset: u64, run: Run, page: u64) -> Result<(), ErrorKind> {
        // SAFETY: the caller's promise; the memfd is sealed (invariant 2).
        unsafe {
            self.show(
                offset,
                run.count * page,
                self.pages.as_fd(),
                run.first * page,
            )
        }
    }

    /// Shows pages of their own at `offset`.
    ///
    /// # Safety
    /// As [`map`](Self::map).
    pub(crate) unsafe fn map_shared(
        &self,
        offset: u64,
        pages: &SharedPages,
    ) -> Result<(), ErrorKind> {
        // SAFETY: the caller's promise; shared pages are sealed too.
        unsafe { self.show(offset, pages.bytes(), pages.as_fd(), 0) }
    }

    /// Shows `bytes` bytes of a memfd from `first` on at `offset`.
    ///
    /// # Safety
    /// As [`map`](Self::map); the memfd is as long and sealed against shrinking.
    unsafe fn show(
        &self,
        offset: u64,
        bytes: u64,
        pages: BorrowedFd<'_>,
        first: u64,
    ) -> Result<(), ErrorKind> {
        let bytes = self.range(offset, bytes)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let at = self.at(offset).ok_or(ErrorKind::System { errno: 0 })?;
        // SAFETY: `range` checked that the whole range lies in the window, which this value owns
        // (invariant 1); the caller promises that nobody uses it.
        unsafe { rustix::mm::mmap(at.as_ptr().cast(), bytes, prot, flags, pages, first) }
            .map_err(mapping)?;
        Ok(())
    }

    /// Shows nothing at `offset..offset + bytes`.
    ///
    /// # Safety
    /// Nobody uses those bytes, or will before they are mapped again.
    pub(crate) unsafe fn unmap(&self, offset: u64, bytes: u64) -> Result<(), ErrorKind> {
        let bytes = self.range(offset, bytes)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let at = self.at(offset).ok_or(ErrorKind::System { errno: 0 })?;
        // SAFETY: as in `map`.
        unsafe { rustix::mm::mmap_anonymous(at.as_ptr().cast(), bytes, ProtFlags::empty(), flags) }
            .map_err(mapping)?;
        Ok(())
    }

    /// Returns the memory behind pages to the system; they read as zero afterwards.
    pub(crate) fn discard(&self, run: Run, page: u64) -> Result<(), ErrorKind> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.pages, flags, run.first * page, run.count * page)
            .map_err(system)
    }

    fn range(&self, offset: u64, bytes: u64) -> Result<usize, ErrorKind> {
        let outside = ErrorKind::InvalidSize {
            bytes,
            maximum: self.bytes as u64,
        };
        let end = offset.checked_add(bytes).ok_or(outside)?;
        if end > self.bytes as u64 {
            return Err(outside);
        }
        usize::try_from(bytes).map_err(|_| outside)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range is this value's own (invariant 1). The device's owner drops the window when no
        // command can reach it any more.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(result.is_ok(), "munmap of an owned range: {result:?}");
    }
}

pub(crate) fn system(errno: Errno) -> ErrorKind {
    ErrorKind::System {
        errno: errno.raw_os_error(),
    }
}

/// ENOMEM from a mapping at a fixed place means too many mappings: no memory is taken yet.
fn mapping(errno: Errno) -> ErrorKind {
    const MAX_MAP_COUNT: u64 = 65_530; // the kernel's default for vm.max_map_count
    if errno == Errno::NOMEM {
        let resource = piton_driver::ResourceKind::Mappings;
        ErrorKind::OutOfResources {
            resource,
            limit: MAX_MAP_COUNT,
        }
    } else {
        system(errno)
    }
}
