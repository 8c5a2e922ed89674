//! A context: what the devices of one platform share, their memory above all.

#![expect(unsafe_code, reason = "calls of OpenCL, and memory it hands out")]

use super::{Api, Called, DeviceHandle, Platform, succeeded};
use opencl_sys as cl;
use std::{ffi::c_void, num::NonZero, ptr, ptr::NonNull};

/// A context, released when dropped.
#[derive(Debug)]
pub(crate) struct Context {
    api: &'static Api,
    id: cl::cl_context,
}

/// Shared virtual memory. A claim, not its owner: dropping it frees nothing.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    /// Where the driver's allocation starts.
    first: NonNull<u8>,
    /// The first byte that is aligned as asked.
    pub(crate) start: NonNull<u8>,
}

// SAFETY: two addresses; the memory belongs to no thread.
unsafe impl Send for SharedMemory {}

// SAFETY: the table is shared; contexts may be used by every thread at once (OpenCL 3.0, appendix A.2).
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

impl Context {
    /// A context of these devices, which are all of this platform.
    pub(crate) fn new(
        api: &'static Api,
        platform: Platform,
        devices: &[DeviceHandle],
    ) -> Called<Self> {
        let ids: Vec<_> = devices.iter().map(|device| device.id()).collect();
        let properties = [
            cl::CL_CONTEXT_PLATFORM,
            platform.id().expose_provenance().cast_signed(),
            0,
        ];
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let mut code = 0;
        // SAFETY: a list of properties that ends in zero, and as many devices as said.
        let id = unsafe {
            (api.create_context)(
                properties.as_ptr(),
                count,
                ids.as_ptr(),
                None,
                ptr::null_mut(),
                &raw mut code,
            )
        };
        succeeded(code)?;
        Ok(Self { api, id })
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.api
    }

    pub(crate) fn id(&self) -> cl::cl_context {
        self.id
    }

    /// Shared virtual memory, or nothing where the driver has none left; it does not say why. With `fine`, the host may
    /// use it without mapping; the devices must have that.
    ///
    /// Drivers align by their largest type and refuse to be asked for more, so what is asked for is larger by the
    /// alignment, a power of two, and starts somewhere in it.
    pub(crate) fn allocate(
        &self,
        bytes: usize,
        alignment: usize,
        fine: bool,
    ) -> Option<SharedMemory> {
        let fine = if fine {
            cl::CL_MEM_SVM_FINE_GRAIN_BUFFER
        } else {
            0
        };
        let (flags, room) = (cl::CL_MEM_READ_WRITE | fine, bytes.checked_add(alignment)?);
        // SAFETY: any size may be asked for; null is the refusal.
        let first = unsafe { (self.api.svm_alloc)(self.id, flags, room, 0) };
        let first = NonNull::new(first.cast::<u8>())?;
        let start = first.map_addr(|address| {
            NonZero::new(address.get().next_multiple_of(alignment)).unwrap_or(address)
        });
        Some(SharedMemory { first, start })
    }

    /// Gives shared virtual memory back.
    ///
    /// # Safety
    /// `memory` came from [`allocate`](Self::allocate) of this context, and no command that has not ended uses it.
    pub(crate) unsafe fn free(&self, memory: SharedMemory) {
        // SAFETY: the caller promised it.
        unsafe { (self.api.svm_free)(self.id, memory.first.as_ptr().cast::<c_void>()) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: one count is ours. The only failure is an id that is no context.
        let _code = unsafe { (self.api.release_context)(self.id) };
    }
}
