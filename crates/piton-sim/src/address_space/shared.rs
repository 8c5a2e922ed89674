//! Handles to pages that other processes see too.
//!
//! One that was created here owns as many of the device's pages as any, though its bytes lie elsewhere; one that was imported
//! owns none.

use super::{AddressSpace, Handle};
use crate::shared_pages::SharedPages;
use piton_driver::{ErrorKind, PhysicalHandle};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

impl AddressSpace {
    /// Physical memory that can be exported.
    pub(crate) fn create_shared(&mut self, bytes: u64) -> Result<PhysicalHandle, ErrorKind> {
        let handle = self.create(bytes)?;
        match SharedPages::new(bytes) {
            Ok(pages) => {
                if let Some(found) = self.handles.get_mut(&handle) {
                    found.shared = Some(pages);
                }
                Ok(handle)
            }
            Err(kind) => {
                self.destroy(handle)?;
                Err(kind)
            }
        }
    }

    /// The descriptor of a handle's pages. Another process may write them from now on, so they are not fresh any more.
    pub(crate) fn export(&mut self, handle: PhysicalHandle) -> Result<OwnedFd, ErrorKind> {
        let number = handle.0;
        let found = self.handles.get_mut(&handle);
        let found = found.filter(|found| !found.is_destroyed);
        let found = found.ok_or(ErrorKind::UnknownHandle { handle: number })?;
        let own = found.shared.as_ref().filter(|_| !found.runs.is_empty());
        let own = own.ok_or(ErrorKind::NotShareable { handle: number })?;
        let descriptor = own.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| ErrorKind::System {
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        found.is_fresh = false;
        Ok(descriptor)
    }

    /// A handle to pages that were exported.
    pub(crate) fn import(
        &mut self,
        descriptor: BorrowedFd<'_>,
        bytes: u64,
    ) -> Result<PhysicalHandle, ErrorKind> {
        self.check_size(bytes)?;
        let shared = Some(SharedPages::sent(descriptor, bytes)?);
        Ok(self.note(Handle {
            runs: Vec::new(),
            bytes,
            mappings: 0,
            is_fresh: false,
            is_destroyed: false,
            shared,
        }))
    }
}
