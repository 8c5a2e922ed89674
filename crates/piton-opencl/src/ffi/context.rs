//! A context: what the devices of one platform share, their memory above all.

#![expect(unsafe_code, reason = "calls of OpenCL, and memory it hands out")]

use super::{Api, Called, DeviceHandle, Platform, succeeded};
use opencl_sys as cl;
use std::{ffi::c_void, ptr, ptr::NonNull};

/// A context, released when dropped.
#[derive(Debug)]
pub(crate) struct Context {
    api: &'static Api,
    id: cl::cl_context,
}

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
    pub(crate) fn allocate(&self, bytes: usize, alignment: u32, fine: bool) -> Option<NonNull<u8>> {
        let fine = if fine {
            cl::CL_MEM_SVM_FINE_GRAIN_BUFFER
        } else {
            0
        };
        // SAFETY: any size and alignment may be asked for; null is the refusal.
        let start = unsafe {
            (self.api.svm_alloc)(self.id, cl::CL_MEM_READ_WRITE | fine, bytes, alignment)
        };
        NonNull::new(start.cast())
    }

    /// Gives shared virtual memory back.
    ///
    /// # Safety
    /// `start` came from [`allocate`](Self::allocate) of this context, is freed once, and no command that has not
    /// ended uses it.
    pub(crate) unsafe fn free(&self, start: NonNull<u8>) {
        // SAFETY: the caller promised it.
        unsafe { (self.api.svm_free)(self.id, start.as_ptr().cast::<c_void>()) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: one count is ours. The only failure is an id that is no context.
        let _code = unsafe { (self.api.release_context)(self.id) };
    }
}
