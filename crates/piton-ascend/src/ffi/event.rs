//! Events: a mark in a stream that can be slept on, waited for by other streams, or keeps the time.

#![expect(
    unsafe_code,
    reason = "calls of the runtime, and a handle that threads may share"
)]

use super::{
    Called, Context,
    declarations::{self, EVENT_COMPLETE, EVENT_SYNC, EVENT_TIME},
};
use crate::status::Status;
use piton_native::stream::VendorEvent;
use std::{ptr, sync::Arc};

/// An event, given back when dropped.
#[derive(Debug)]
pub(crate) struct RawEvent {
    context: Arc<Context>,
    raw: declarations::Event,
}

// SAFETY: events may be used from every thread; only streams of the context record them.
unsafe impl Send for RawEvent {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawEvent {}

impl RawEvent {
    /// An event to sleep on, which other streams may wait for: one without limit where the library has such.
    pub(crate) fn mark(context: &Arc<Context>) -> Called<Self> {
        let unlimited = context.api.unlimited_events.as_ref();
        let mut raw = ptr::null_mut();
        context.call(|core| {
            let create = unlimited.map_or(core.event_create, |api| api.create);
            // SAFETY: a place of the right type.
            unsafe { create(&raw mut raw, EVENT_SYNC) }
        })?;
        Ok(Self {
            context: Arc::clone(context),
            raw,
        })
    }

    /// An event that keeps the time. The library's limited kind: the reference lets no other be asked for its time.
    pub(crate) fn timed(context: &Arc<Context>) -> Called<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: a place of the right type.
        context.call(|core| unsafe { (core.event_create)(&raw mut raw, EVENT_TIME) })?;
        Ok(Self {
            context: Arc::clone(context),
            raw,
        })
    }

    pub(crate) const fn raw(&self) -> declarations::Event {
        self.raw
    }

    /// When it passed, in microseconds since the device's start. It has passed, and keeps the time.
    pub(crate) fn microseconds(&self) -> Called<u64> {
        let mut time = 0;
        let api = self.context.api.timestamps.as_ref();
        self.context.call_of(api, |api| {
            // SAFETY: a place of the right type; the event is alive.
            unsafe { (api.time)(self.raw, &raw mut time) }
        })?;
        Ok(time)
    }
}

impl VendorEvent for RawEvent {
    type Status = Status;

    fn is_over(&self) -> Called<bool> {
        let mut status = 0;
        self.context.call(|core| {
            // SAFETY: a place of the right type; the event is alive.
            unsafe { (core.event_status)(self.raw, &raw mut status) }
        })?;
        Ok(status == EVENT_COMPLETE)
    }

    fn wait(&self) -> Called<()> {
        // SAFETY: the event is alive.
        self.context
            .call(|core| unsafe { (core.event_wait)(self.raw) })
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: the event is ours, and no stream waits for it any more: tickets of waits hold it.
        let _called = self
            .context
            .call(|core| unsafe { (core.event_destroy)(self.raw) });
    }
}
