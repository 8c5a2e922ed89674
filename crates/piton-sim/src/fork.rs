//! Whether this process is the one that made the machine, or a fork of it.
//!
//! A fork has the machine's memory and none of its threads, and locks stay as they were when it was made. So every call
//! of the contract looks here before it takes any. The mark is a byte in a page that the system wipes in a fork
//! (`MADV_WIPEONFORK`, Linux 4.14; `madvise(2)`): reading it costs one load. On older systems forks are not noticed.

#![expect(unsafe_code, reason = "a page of its own, shared with nobody")]

use piton_driver::ErrorKind;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::{
    fmt,
    ptr::{self, NonNull},
};

const BYTES: usize = 4096;

/// A byte that is 1 in the process that made it, and 0 in forks of it.
pub(crate) struct ForkMark(NonNull<u8>);

// SAFETY: written once, before anybody else has it; after that only read.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl fmt::Debug for ForkMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForkMark").field(&self.is_fork()).finish()
    }
}

impl ForkMark {
    pub(crate) fn new() -> Result<Self, ErrorKind> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE;
        // SAFETY: a fresh mapping where the system likes; nothing else is touched.
        let page = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), BYTES, access, flags) };
        let refused = ErrorKind::OutOfHostMemory {
            requested: BYTES as u64,
        };
        let page = page.ok().and_then(NonNull::new).ok_or(refused)?;
        // Where the system does not know the advice, nothing is wiped and forks go unnoticed.
        // SAFETY: the page is ours, and wiping it in forks is what we want.
        let _ = unsafe { rustix::mm::madvise(page.as_ptr(), BYTES, Advice::LinuxWipeOnFork) };
        let mark = page.cast::<u8>();
        // SAFETY: the page is writable and nobody else has it.
        unsafe { mark.write_volatile(1) };
        Ok(Self(mark))
    }

    /// Whether this process is a fork of the one that made the mark.
    pub(crate) fn is_fork(&self) -> bool {
        // SAFETY: the page is readable for as long as the mark lives. Volatile: the system may have changed it.
        unsafe { self.0.read_volatile() == 0 }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody reads it any more. A failure would leave the page mapped: harmless.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}
