//! Events: how a command stands.

#![expect(
    unsafe_code,
    reason = "calls of OpenCL, and a counted pointer handed through its callback"
)]

use super::{Api, Called, succeeded};
use crate::status::Status;
use opencl_sys as cl;
use piton_native::{Listener, NativeEvent, Progress};
use std::{ffi::c_void, ptr, sync::Arc};

/// A counted event.
#[derive(Debug)]
pub(crate) struct Event {
    api: &'static Api,
    id: cl::cl_event,
}

// SAFETY: the table is shared; events may be used by every thread at once (OpenCL 3.0, appendix A.2).
unsafe impl Send for Event {}
// SAFETY: as for `Send`.
unsafe impl Sync for Event {}

impl Event {
    /// Takes over one count of an event that a call of OpenCL returned.
    pub(super) fn from_raw(api: &'static Api, id: cl::cl_event) -> Self {
        Self { api, id }
    }

    pub(super) fn id(&self) -> cl::cl_event {
        self.id
    }
}

impl NativeEvent for Event {
    type Status = Status;

    /// How its command stands. Not a point of synchronisation: what the command wrote is visible only after
    /// [`wait`](Self::wait).
    fn progress(&self) -> Progress<Status> {
        let mut status: cl::cl_int = cl::CL_QUEUED;
        // SAFETY: the place has the size that is said.
        let code = unsafe {
            (self.api.get_event_info)(
                self.id,
                cl::CL_EVENT_COMMAND_EXECUTION_STATUS,
                size_of::<cl::cl_int>(),
                (&raw mut status).cast(),
                ptr::null_mut(),
            )
        };
        match (code, status) {
            (cl::CL_SUCCESS, cl::CL_COMPLETE) => Progress::Done,
            (cl::CL_SUCCESS, 1..) => Progress::Pending,
            (cl::CL_SUCCESS, failure) | (failure, _) => Progress::Failed(Status(failure)),
        }
    }

    /// Blocks until its command has ended; what it wrote is then visible to the host. A failure of the command is this
    /// call's failure, of which the status tells more.
    fn wait(&self) -> bool {
        // SAFETY: one event, as said.
        let code = unsafe { (self.api.wait_for_events)(1, &raw const self.id) };
        code == cl::CL_SUCCESS
    }

    /// When its command started and ended, in nanoseconds of the device's clock. Of queues made for it only.
    fn times(&self) -> Option<(u64, u64)> {
        let time = |what| {
            let mut time = 0_u64;
            // SAFETY: the place has the size that is said.
            succeeded(unsafe {
                (self.api.get_event_profile)(
                    self.id,
                    what,
                    size_of::<u64>(),
                    (&raw mut time).cast(),
                    ptr::null_mut(),
                )
            })
            .ok()
            .map(|()| time)
        };
        Some((
            time(cl::CL_PROFILING_COMMAND_START)?,
            time(cl::CL_PROFILING_COMMAND_END)?,
        ))
    }

    /// Tells `listener` once when the command has ended, perhaps before this returns.
    fn tell<L: Listener>(&self, listener: Arc<L>) -> Called<()> {
        let told = Arc::into_raw(listener);
        // SAFETY: the callback takes back the count that it is given, once: OpenCL calls it once.
        let code = unsafe {
            (self.api.set_event_callback)(
                self.id,
                cl::CL_COMPLETE,
                Some(over::<L>),
                told.cast_mut().cast(),
            )
        };
        succeeded(code).inspect_err(|_| {
            // SAFETY: the callback was not registered, so the count is still ours.
            drop(unsafe { Arc::from_raw(told) });
        })
    }
}

/// What OpenCL calls.
unsafe extern "C" fn over<L: Listener>(_: cl::cl_event, _: cl::cl_int, listener: *mut c_void) {
    // SAFETY: `tell` made it of an `Arc<L>`, and OpenCL calls this once for each registration.
    unsafe { Arc::from_raw(listener.cast_const().cast::<L>()) }.over();
}

impl Clone for Event {
    fn clone(&self) -> Self {
        // SAFETY: the event is alive, as we hold a count.
        let _code = unsafe { (self.api.retain_event)(self.id) };
        Self { ..*self }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: one count is ours.
        let _code = unsafe { (self.api.release_event)(self.id) };
    }
}
