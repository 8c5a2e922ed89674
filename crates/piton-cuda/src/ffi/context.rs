//! A device's primary context: where its memory, streams and modules are.
//!
//! CUDA calls act on the context that is current to the thread. The program may use CUDA itself, so each call here makes the
//! device's context current and then puts back what was there ([`Context::enter`]).
//!
//! A failure of a kernel stays with its context: every later call answers it, and nothing that was handed over ends any
//! more. The first such answer seals the context's fate ([`Context::note`]), and the counters of its streams are released,
//! so that streams of other devices that wait for them go on.

#![expect(
    unsafe_code,
    reason = "calls of CUDA, and a handle that threads may share"
)]

use super::{
    Api, Called, DeviceHandle,
    declarations::{self, Device},
    stream::RawStream,
    succeeded,
    symbols::Core,
};
use crate::status::Status;
use piton_driver::ErrorKind;
use piton_native::stream::Fate;
use std::{marker::PhantomData, ptr, sync::Arc};

/// A device's primary context, given back when dropped.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) api: &'static Api,
    device: Device,
    raw: declarations::Context,
    /// Of all its streams.
    pub(crate) fate: Arc<Fate<RawStream>>,
}

// SAFETY: the table is shared; a context may be current to several threads, and its functions called from all of them
// (CUDA Driver API, "Context Management").
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

/// While it lives, the context is current to this thread.
pub(crate) struct Entered<'c> {
    context: &'c Context,
    /// Of this thread only.
    _thread: PhantomData<*const ()>,
}

impl Context {
    /// The device's primary context, made if nobody has it yet. May take long.
    pub(crate) fn retain(handle: DeviceHandle) -> Called<Arc<Self>> {
        let (api, device) = (handle.api, handle.id);
        let mut raw = ptr::null_mut();
        // SAFETY: a place of the right type.
        succeeded(unsafe { (api.core.context_retain)(&raw mut raw, device) })?;
        Ok(Arc::new(Self {
            api,
            device,
            raw,
            fate: Arc::default(),
        }))
    }

    pub(crate) const fn raw(&self) -> declarations::Context {
        self.raw
    }

    /// The device's number among the driver's.
    pub(crate) const fn device(&self) -> Device {
        self.device
    }

    /// Makes the context current to this thread until the guard goes.
    pub(crate) fn enter(&self) -> Called<Entered<'_>> {
        // SAFETY: the context lives as long as `self`.
        succeeded(unsafe { (self.api.core.context_push)(self.raw) })?;
        Ok(Entered {
            context: self,
            _thread: PhantomData,
        })
    }

    /// Calls a function with the context current.
    pub(crate) fn call(&self, call: impl FnOnce(&Core) -> declarations::Code) -> Called<()> {
        let _entered = self.enter()?;
        let called = succeeded(call(&self.api.core));
        called.inspect_err(|status| self.note(*status))
    }

    /// Keeps an answer that says that nothing runs here any more, and lets go whoever waits for this context's streams.
    pub(crate) fn note(&self, status: Status) {
        if status.kind() != ErrorKind::DeviceLost || status == Status::INVALID_DEVICE {
            return;
        }
        self.fate.give_up(status);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: one count is ours; streams, events and modules hold the context and are gone.
        let _code = unsafe { (self.api.core.context_release)(self.device) };
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: ours is the last that this thread pushed: guards are dropped in the reverse order, on their thread.
        let _code = unsafe { (self.context.api.core.context_pop)(&raw mut popped) };
    }
}
