//! Physical memory that goes to other processes as a file descriptor.

#![expect(unsafe_code, reason = "calls of CUDA that give and take handles")]

use super::{
    Called, Context,
    declarations::{Code, DESCRIPTOR, MemoryHandle},
    succeeded,
    symbols::PageSharing,
};
use crate::status::Status;
use std::{
    ffi::c_int,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

impl Context {
    fn sharing(&self, call: impl FnOnce(&PageSharing) -> Code) -> Called<()> {
        let api = self.api.page_sharing.as_ref();
        let api = api.ok_or(Status::NOT_SUPPORTED)?;
        let _entered = self.enter()?;
        succeeded(call(api)).inspect_err(|status| self.note(*status))
    }

    /// Physical memory that is mapped nowhere and may be sent to other processes.
    pub(crate) fn create_exportable_pages(&self, bytes: u64) -> Called<MemoryHandle> {
        self.create_pages_for(bytes, DESCRIPTOR)
    }

    /// A descriptor of physical memory that was made for it.
    pub(crate) fn export_pages(&self, handle: MemoryHandle) -> Called<OwnedFd> {
        let mut descriptor: c_int = -1;
        self.sharing(|api| {
            // SAFETY: for a descriptor the place is an integer's.
            unsafe { (api.export)((&raw mut descriptor).cast(), handle, DESCRIPTOR, 0) }
        })?;
        if descriptor < 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the driver made it for us, and nobody else knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// A handle to physical memory that somebody sent. The driver takes no count of the descriptor itself.
    pub(crate) fn import_pages(&self, descriptor: BorrowedFd<'_>) -> Called<MemoryHandle> {
        let number = usize::try_from(descriptor.as_raw_fd()).map_err(|_| Status::INVALID_VALUE)?;
        let mut handle = 0;
        self.sharing(|api| {
            // SAFETY: a place of the right type; a descriptor is passed as a number in a pointer's place, and the driver asks
            // the system what it is.
            unsafe {
                (api.import)(
                    &raw mut handle,
                    ptr::without_provenance_mut(number),
                    DESCRIPTOR,
                )
            }
        })?;
        Ok(handle)
    }
}
