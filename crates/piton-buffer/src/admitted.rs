//! Ordinary memory that a device's copies may name for a while.

#![expect(unsafe_code, reason = "vouches for memory that a copy names")]

use piton_driver::{Device, HostMemory};
use std::ptr::NonNull;

/// Memory that copies may name until this is dropped.
///
/// # Invariants
/// It is valid, and no copy that names it is under way when this goes.
pub(crate) struct Admitted<'a> {
    host: &'a dyn HostMemory,
    start: NonNull<u8>,
}

impl<'a> Admitted<'a> {
    /// `None` where the device's copies need page-locked memory, or know some of this already.
    ///
    /// # Safety
    /// The memory is valid while the value lives, and each copy that names it has ended before it goes.
    pub(crate) unsafe fn new(
        device: &'a dyn Device,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Option<Self> {
        let host = device.host_memory()?;
        // SAFETY: the caller promised the same.
        let is_admitted = unsafe { host.admit(start, bytes) };
        // Made only then: its end would dismiss what somebody else had admitted.
        is_admitted.then(|| Self { host, start })
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // SAFETY: the invariant.
        unsafe { self.host.dismiss(self.start) };
    }
}
