//! Notifications: how a stream waits for one of another device.

#![expect(
    unsafe_code,
    reason = "calls of the runtime, and a handle that threads may share"
)]

use super::{Called, Context, RawStream, declarations::Notify};
use std::{ptr, sync::Arc};

/// Seconds that a stream waits for a notification: without end.
const FOR_EVER: u32 = 0;

/// A notification that is recorded once and waited for once.
#[derive(Debug)]
pub(super) struct Notification {
    context: Arc<Context>,
    raw: Notify,
}

// SAFETY: a handle, which the runtime's functions take from every thread.
unsafe impl Send for Notification {}
// SAFETY: as for `Send`.
unsafe impl Sync for Notification {}

impl Notification {
    /// A notification of the device that will wait.
    pub(super) fn new(context: &Arc<Context>) -> Called<Self> {
        let mut raw = ptr::null_mut();
        let api = context.api.notifications.as_ref();
        // SAFETY: a place of the right type; the flags are none.
        context.call_of(api, |api| unsafe { (api.create)(&raw mut raw, 0) })?;
        Ok(Self {
            context: Arc::clone(context),
            raw,
        })
    }

    /// It comes when the stream has ended what it has now.
    pub(super) fn record(&self, on: &RawStream) -> Called<()> {
        let api = on.context.api.notifications.as_ref();
        // SAFETY: both are alive.
        on.context
            .call_of(api, |api| unsafe { (api.record)(self.raw, on.raw()) })
    }

    /// Later commands of the stream start when it has come.
    pub(super) fn hold(&self, stream: &RawStream) -> Called<()> {
        let api = stream.context.api.notifications.as_ref();
        stream.context.call_of(api, |api| {
            // SAFETY: both are alive.
            unsafe { (api.wait)(self.raw, stream.raw(), FOR_EVER) }
        })
    }
}

impl Drop for Notification {
    fn drop(&mut self) {
        let api = self.context.api.notifications.as_ref();
        // SAFETY: ours; the ticket of its wait held it until that was over.
        let _called = self
            .context
            .call_of(api, |api| unsafe { (api.destroy)(self.raw) });
    }
}
