//! A context on a device: where its memory, streams and binaries are.
//!
//! Calls act on the context that is current to the thread. The program may use the runtime itself, so each call here makes
//! the device's context current and then puts back what was there; a thread that had none is left with ours, as there is no
//! call that takes one away.

#![expect(
    unsafe_code,
    reason = "calls of the runtime, and a handle that threads may share"
)]

use super::{
    Api, Called, DeviceHandle,
    declarations::{self, Code},
    succeeded,
    symbols::Core,
};
use std::{ffi::c_int, ptr, sync::Arc};

/// A context, destroyed when dropped.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) api: &'static Api,
    device: c_int,
    raw: declarations::Context,
}

// SAFETY: the table is shared; a context may be current to several threads, and the runtime's functions called from all of
// them ("Context Management").
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

/// Puts back what was current when dropped.
struct Entered {
    api: &'static Api,
    before: Option<declarations::Context>,
}

impl Context {
    /// A context of our own on the device. May take long.
    pub(crate) fn create(handle: DeviceHandle) -> Called<Arc<Self>> {
        let (api, device) = (handle.api, handle.id);
        let before = current(api);
        let mut raw = ptr::null_mut();
        // SAFETY: a place of the right type.
        let created = succeeded(unsafe { (api.core.context_create)(&raw mut raw, device) });
        // Making one makes it current.
        drop(Entered { api, before });
        created?;
        Ok(Arc::new(Self { api, device, raw }))
    }

    /// The device's number among the runtime's.
    pub(crate) const fn device(&self) -> c_int {
        self.device
    }

    /// Calls a function with the context current.
    pub(crate) fn call(&self, call: impl FnOnce(&Core) -> Code) -> Called<()> {
        let before = current(self.api);
        let is_ours = before == Some(self.raw);
        if !is_ours {
            // SAFETY: the context lives as long as `self`.
            succeeded(unsafe { (self.api.core.context_set)(self.raw) })?;
        }
        let _entered = Entered {
            api: self.api,
            before: before.filter(|_| !is_ours),
        };
        succeeded(call(&self.api.core))
    }

    /// Calls a function of a group with the context current; [`UNSUPPORTED`](crate::Status) where the group is missing.
    pub(crate) fn call_of<G>(
        &self,
        group: Option<&G>,
        call: impl FnOnce(&G) -> Code,
    ) -> Called<()> {
        let group = group.ok_or(crate::Status::UNSUPPORTED)?;
        self.call(|_| call(group))
    }
}

/// What is current to this thread, if anything is.
fn current(api: &Api) -> Option<declarations::Context> {
    let mut raw = ptr::null_mut();
    // SAFETY: a place of the right type.
    let asked = succeeded(unsafe { (api.core.context_get)(&raw mut raw) });
    (asked.is_ok() && !raw.is_null()).then_some(raw)
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is ours; streams, events and binaries hold it and are gone.
        let _code = unsafe { (self.api.core.context_destroy)(self.raw) };
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: it was current to this thread a moment ago; whoever owns it keeps it for as long.
            let _code = unsafe { (self.api.core.context_set)(before) };
        }
    }
}
