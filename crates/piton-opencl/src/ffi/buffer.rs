//! Buffers, for devices without shared virtual memory, and the commands that name them.

#![expect(
    unsafe_code,
    reason = "calls of OpenCL by which a device touches memory"
)]

use super::{Api, Called, Context, Event, NativeQueue, succeeded};
use opencl_sys as cl;
use std::{ffi::c_void, ptr, sync::Arc};

/// A buffer, or a part of one; released when dropped. Commands that were enqueued keep what they use.
#[derive(Debug)]
pub(crate) struct Buffer {
    api: &'static Api,
    id: cl::cl_mem,
}

/// Bytes of a buffer, from one of them on.
#[derive(Clone, Debug)]
pub(crate) struct BufferPlace {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) offset: usize,
}

// SAFETY: the table is shared; memory objects may be used by every thread at once (OpenCL 3.0, appendix A.2).
unsafe impl Send for Buffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for Buffer {}

impl Context {
    /// A buffer of this size for all devices of the context. Drivers may put its memory off until it is touched.
    pub(crate) fn buffer(&self, bytes: usize) -> Called<Buffer> {
        let mut code = 0;
        // SAFETY: no host memory is given.
        let id = unsafe {
            (self.api().create_buffer)(
                self.id(),
                cl::CL_MEM_READ_WRITE,
                bytes,
                ptr::null_mut(),
                &raw mut code,
            )
        };
        succeeded(code)?;
        let api = self.api();
        Ok(Buffer { api, id })
    }
}

impl Buffer {
    /// So many bytes from `first` on, which is a multiple of the device's base alignment, as a buffer of their own.
    pub(crate) fn part(&self, first: usize, bytes: usize) -> Called<Self> {
        let region = cl::cl_buffer_region {
            origin: first,
            size: bytes,
        };
        let mut code = 0;
        // SAFETY: the region is of the type that its name says; a wrong one is refused.
        let id = unsafe {
            (self.api.create_sub_buffer)(
                self.id,
                cl::CL_MEM_READ_WRITE,
                cl::CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                &raw mut code,
            )
        };
        succeeded(code)?;
        let api = self.api;
        Ok(Self { api, id })
    }

    pub(super) fn id(&self) -> cl::cl_mem {
        self.id
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: one count is ours.
        let _code = unsafe { (self.api.release_memory)(self.id) };
    }
}

impl NativeQueue {
    /// Copies from the host into a buffer.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for such a copy.
    pub(crate) unsafe fn write(
        &self,
        to: &BufferPlace,
        from: *const c_void,
        bytes: usize,
    ) -> Called<Event> {
        self.enqueued(|event| {
            // SAFETY: the caller's promise; it does not block, and waits for nothing.
            unsafe {
                (self.api().enqueue_write)(
                    self.id(),
                    to.buffer.id,
                    cl::CL_FALSE,
                    to.offset,
                    bytes,
                    from,
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }

    /// Copies from a buffer to the host.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for such a copy.
    pub(crate) unsafe fn read(
        &self,
        to: *mut c_void,
        from: &BufferPlace,
        bytes: usize,
    ) -> Called<Event> {
        self.enqueued(|event| {
            // SAFETY: as for `write`.
            unsafe {
                (self.api().enqueue_read)(
                    self.id(),
                    from.buffer.id,
                    cl::CL_FALSE,
                    from.offset,
                    bytes,
                    to,
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }

    /// Copies between buffers, or within one where nothing overlaps.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for such a copy.
    pub(crate) unsafe fn copy_buffer(
        &self,
        to: &BufferPlace,
        from: &BufferPlace,
        bytes: usize,
    ) -> Called<Event> {
        self.enqueued(|event| {
            // SAFETY: the caller's promise.
            unsafe {
                (self.api().enqueue_copy_buffer)(
                    self.id(),
                    from.buffer.id,
                    to.buffer.id,
                    from.offset,
                    to.offset,
                    bytes,
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }

    /// Fills bytes of a buffer with a pattern, to whose size both numbers are aligned.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for a fill.
    pub(crate) unsafe fn fill_buffer(
        &self,
        to: &BufferPlace,
        pattern: &[u8],
        bytes: usize,
    ) -> Called<Event> {
        self.enqueued(|event| {
            // SAFETY: the pattern is copied by the call; the memory is the caller's promise.
            unsafe {
                (self.api().enqueue_fill_buffer)(
                    self.id(),
                    to.buffer.id,
                    pattern.as_ptr().cast(),
                    pattern.len(),
                    to.offset,
                    bytes,
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }
}
