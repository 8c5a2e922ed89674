//! Queues of OpenCL, in order, and what they are asked to do.

#![expect(
    unsafe_code,
    reason = "calls of OpenCL by which a device touches memory"
)]

use super::{Api, Called, Context, DeviceHandle, Event, RawKernel, succeeded};
use crate::{device::OpenClDevice, driver::Shared, kernel, priority};
use opencl_sys as cl;
use piton_driver::{FillPattern, Priority};
use piton_native::{CopyWay, NativeCopy, NativeLaunch, kernels::LoadedKernel, slots::SlotPool};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{ffi::c_void, ptr, sync::Arc};

/// An in-order queue of OpenCL, released when dropped: what was enqueued still runs.
#[derive(Debug)]
pub(crate) struct NativeQueue {
    api: &'static Api,
    id: cl::cl_command_queue,
    /// Who knows which buffer an address is in, where memory is buffers.
    buffers: Option<Arc<Shared>>,
    /// Commands enqueued, counted when each is in.
    handed: AtomicU64,
    /// How many of them the device has been given: a flush counts when it has returned.
    flushed: AtomicU64,
}

// SAFETY: the table is shared; queues may be used by every thread at once (OpenCL 3.0, appendix A.2).
unsafe impl Send for NativeQueue {}
// SAFETY: as for `Send`.
unsafe impl Sync for NativeQueue {}

/// The address as OpenCL takes it. It is memory of the driver's, named by number in the contract.
fn pointer(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

impl NativeQueue {
    /// An in-order queue; one whose events tell times if asked for, and of a priority that the device knows.
    pub(crate) fn new(
        context: &Context,
        device: DeviceHandle,
        has_times: bool,
        priority: Priority,
    ) -> Called<Self> {
        let api = context.api();
        let times = if has_times {
            cl::CL_QUEUE_PROFILING_ENABLE
        } else {
            0
        };
        // What is not asked for is where the list ends.
        let (key, hint) = match priority::hint(priority) {
            Some(hint) => (cl::CL_QUEUE_PRIORITY_KHR, hint.into()),
            None => (0, 0),
        };
        let properties = [cl::CL_QUEUE_PROPERTIES.into(), times, key, hint, 0];
        let mut code = 0;
        // SAFETY: a list of properties that ends in zero.
        let id = unsafe {
            (api.create_queue)(
                context.id(),
                device.id(),
                properties.as_ptr(),
                &raw mut code,
            )
        };
        succeeded(code)?;
        Ok(Self {
            api,
            id,
            buffers: None,
            handed: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
        })
    }

    /// The same, on a driver whose memory is buffers.
    pub(crate) fn on_buffers(mut self, shared: &Arc<Shared>) -> Self {
        self.buffers = Some(Arc::clone(shared));
        self
    }

    /// Who knows which buffer an address is in, where memory is buffers.
    pub(crate) fn buffers(&self) -> Option<&Shared> {
        self.buffers.as_deref()
    }

    pub(super) fn api(&self) -> &'static Api {
        self.api
    }

    pub(super) fn id(&self) -> cl::cl_command_queue {
        self.id
    }

    pub(super) fn enqueued(
        &self,
        call: impl FnOnce(*mut cl::cl_event) -> cl::cl_int,
    ) -> Called<Event> {
        let mut event = ptr::null_mut();
        succeeded(call(&raw mut event))?;
        self.handed.fetch_add(1, Ordering::Release);
        Ok(Event::from_raw(self.api, event))
    }

    /// Launches a kernel whose arguments have been set.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for a launch; nobody else uses the kernel's object meanwhile.
    pub(crate) unsafe fn launch_set(
        &self,
        kernel: &RawKernel,
        global: &[usize; 3],
        local: &[usize; 3],
    ) -> Called<Event> {
        self.enqueued(|event| {
            // SAFETY: three dimensions in each list; the memory is the caller's promise.
            unsafe {
                (self.api.enqueue_kernel)(
                    self.id,
                    kernel.id(),
                    3,
                    ptr::null(),
                    global.as_ptr(),
                    local.as_ptr(),
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }

    /// An event that ends when all earlier commands have.
    pub(crate) fn marker(&self) -> Called<Event> {
        self.enqueued(|event| {
            // SAFETY: an empty list.
            unsafe { (self.api.enqueue_marker)(self.id, 0, ptr::null(), event) }
        })
    }
}

impl NativeQueue {
    /// Copies where memory is buffers.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for a copy.
    unsafe fn copy_of_buffers(&self, buffers: &Shared, copy: NativeCopy) -> Called<Event> {
        let size = usize::try_from(copy.bytes).unwrap_or(usize::MAX);
        let place = |address| buffers.place(address, copy.bytes);
        match copy.way {
            CopyWay::ToDevice => {
                let from = pointer(copy.src).cast_const();
                // SAFETY: the caller's promise.
                unsafe { self.write(&place(copy.dst)?, from, size) }
            }
            CopyWay::ToHost => {
                // SAFETY: the caller's promise.
                unsafe { self.read(pointer(copy.dst), &place(copy.src)?, size) }
            }
            CopyWay::OnDevice | CopyWay::Peer { .. } => {
                // SAFETY: the caller's promise.
                unsafe { self.copy_buffer(&place(copy.dst)?, &place(copy.src)?, size) }
            }
        }
    }
}

impl piton_native::NativeQueue<OpenClDevice> for NativeQueue {
    unsafe fn launch(
        &self,
        kernel: &LoadedKernel<OpenClDevice>,
        launch: NativeLaunch<'_>,
    ) -> Called<Event> {
        // SAFETY: the caller's promise.
        unsafe { kernel::enqueue(kernel, self, launch) }
    }

    /// One call for every way where memory is shared.
    unsafe fn copy(&self, copy: NativeCopy) -> Called<Event> {
        if let Some(buffers) = self.buffers() {
            // SAFETY: the caller's promise.
            return unsafe { self.copy_of_buffers(buffers, copy) };
        }
        let bytes = usize::try_from(copy.bytes).unwrap_or(usize::MAX);
        let (dst, src) = (pointer(copy.dst), pointer(copy.src).cast_const());
        self.enqueued(|event| {
            // SAFETY: the caller's promise.
            unsafe {
                (self.api.enqueue_copy)(
                    self.id,
                    cl::CL_FALSE,
                    dst,
                    src,
                    bytes,
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }

    unsafe fn fill(&self, dst: u64, pattern: FillPattern, bytes: u64) -> Called<Event> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let value = match pattern {
            FillPattern::Byte(byte) => [byte, 0, 0, 0],
            FillPattern::Half(half) => {
                let [a, b] = half.to_ne_bytes();
                [a, b, 0, 0]
            }
            FillPattern::Word(word) => word.to_ne_bytes(),
        };
        let size = usize::try_from(pattern.bytes()).unwrap_or(0);
        if let Some(buffers) = self.buffers() {
            let to = buffers.place(dst, bytes as u64)?;
            // SAFETY: the caller's promise.
            return unsafe { self.fill_buffer(&to, &value[..size], bytes) };
        }
        self.enqueued(|event| {
            // SAFETY: the pattern is at least `size` bytes long and copied by the call; the memory is the caller's
            // promise.
            unsafe {
                (self.api.enqueue_fill)(
                    self.id,
                    pointer(dst),
                    value.as_ptr().cast(),
                    size,
                    bytes,
                    0,
                    ptr::null(),
                    event,
                )
            }
        })
    }

    fn barrier(&self, awaited: &Event) -> Called<Event> {
        let awaited = awaited.id();
        self.enqueued(|event| {
            // SAFETY: a list of one event.
            unsafe { (self.api.enqueue_barrier)(self.id, 1, &raw const awaited, event) }
        })
    }

    fn stamp(&self, slots: &SlotPool<OpenClDevice, Event>, index: u32) -> Called<Event> {
        let event = self.marker()?;
        slots.write(index, event.clone());
        Ok(event)
    }

    /// Nothing to do where another flush has begun after the last command was in, and returned: who waits for what was
    /// submitted a moment ago has flushed then.
    fn flush(&self) -> Called<()> {
        let handed = self.handed.load(Ordering::Acquire);
        if self.flushed.load(Ordering::Acquire) >= handed {
            return Ok(());
        }
        // SAFETY: the queue is alive.
        succeeded(unsafe { (self.api.flush)(self.id) })?;
        self.flushed.fetch_max(handed, Ordering::Release);
        Ok(())
    }
}

impl Drop for NativeQueue {
    fn drop(&mut self) {
        // SAFETY: one count is ours. Releasing flushes, and waits for nothing.
        let _code = unsafe { (self.api.release_queue)(self.id) };
    }
}
