//! Pages that other processes may see: a memfd of their own, whose descriptor is what is sent.
//!
//! # Invariants
//! The memfd is `bytes` long and sealed against shrinking and growing, by us or by whoever made it: a mapped byte never turns
//! into SIGBUS, whatever another process does.

use crate::window::system;
use piton_driver::ErrorKind;
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What keeps the length of a memfd.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A memfd of this length, which stays so.
pub(crate) fn sealed(bytes: u64) -> Result<OwnedFd, ErrorKind> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let pages = rustix::fs::memfd_create("piton-sim", flags).map_err(system)?;
    rustix::fs::ftruncate(&pages, bytes).map_err(system)?;
    rustix::fs::fcntl_add_seals(&pages, SEALS).map_err(system)?;
    Ok(pages)
}

/// Pages outside the device's memfd.
#[derive(Debug)]
pub(crate) struct SharedPages {
    pages: OwnedFd,
    bytes: u64,
}

impl SharedPages {
    /// Fresh ones.
    pub(crate) fn new(bytes: u64) -> Result<Self, ErrorKind> {
        // INVARIANT: just sized and sealed.
        let pages = sealed(bytes)?;
        Ok(Self { pages, bytes })
    }

    /// Those behind a descriptor that somebody sent.
    ///
    /// # Errors
    /// [`NotExported`](ErrorKind::NotExported) where it is something else or has another length.
    pub(crate) fn sent(descriptor: BorrowedFd<'_>, bytes: u64) -> Result<Self, ErrorKind> {
        let other = ErrorKind::NotExported { bytes };
        let seals = rustix::fs::fcntl_get_seals(descriptor).map_err(|_| other)?;
        let length = rustix::fs::fstat(descriptor).map_err(system)?.st_size;
        if !seals.contains(SEALS) || u64::try_from(length) != Ok(bytes) {
            return Err(other);
        }
        // INVARIANT: length and seals were just looked at, and seals are never taken off.
        let pages = descriptor.try_clone_to_owned();
        let pages = pages.map_err(|error| ErrorKind::System {
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Self { pages, bytes })
    }

    /// How long they are.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl AsFd for SharedPages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pages.as_fd()
    }
}
