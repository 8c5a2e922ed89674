//! Streams, as `piton-native` wants them: an event at each flush tells how far one has come.
//!
//! # Failures
//! The reference says that an event whose recording failed is never complete, that later tasks run all the same by default,
//! and that waiting for a stream answers the code of what failed on it. So a stream is asked when an event of it has passed,
//! and now and then; if it answers with an error it is waited for, which ends when nothing of it runs any more, and then it
//! is dead: each stream is its own fate. What failed on it may have been any command since the last event that was seen
//! passed.

#![expect(
    unsafe_code,
    reason = "calls of the runtime, and a handle that threads may share"
)]

use super::{
    Called, Context, RawEvent,
    declarations::{self, Code, CopyKind, STREAM_FAST_LAUNCH},
    notification::Notification,
    size,
    symbols::Core,
};
use crate::status::Status;
use piton_native::stream::{Fate, Kept, Stream, VendorStream};
use std::{ffi::c_void, ptr, sync::Arc};

/// A stream that says how far it has come.
pub(crate) type StreamCore = Stream<RawStream>;
/// A place on it.
pub(crate) type Ticket = piton_native::stream::Ticket<RawStream>;

/// A stream, in order.
#[derive(Debug)]
pub(crate) struct RawStream {
    pub(crate) context: Arc<Context>,
    raw: declarations::Stream,
    fate: Arc<Fate<Self>>,
}

// SAFETY: the table is shared; a stream may be used from every thread at once.
unsafe impl Send for RawStream {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawStream {}

/// A stream of this priority, by the runtime's number.
pub(crate) fn stream(context: &Arc<Context>, priority: u32) -> Called<Arc<StreamCore>> {
    let mut raw = ptr::null_mut();
    context.call(|core| {
        // SAFETY: a place of the right type.
        unsafe { (core.stream_create)(&raw mut raw, priority, STREAM_FAST_LAUNCH) }
    })?;
    Ok(Stream::new(RawStream {
        context: Arc::clone(context),
        raw,
        fate: Arc::default(),
    }))
}

impl RawStream {
    pub(super) const fn raw(&self) -> declarations::Stream {
        self.raw
    }

    /// Calls a function on the stream, with its context current.
    pub(crate) fn call(
        &self,
        call: impl FnOnce(&Core, declarations::Stream) -> Code,
    ) -> Called<()> {
        self.context.call(|core| call(core, self.raw))
    }

    /// Copies.
    ///
    /// # Safety
    /// As [`piton_native::NativeQueue::copy`].
    pub(crate) unsafe fn copy(
        &self,
        dst: *mut c_void,
        src: *const c_void,
        bytes: u64,
        kind: CopyKind,
    ) -> Called<()> {
        let bytes = size(bytes);
        // SAFETY: the caller's promise.
        self.call(|core, raw| unsafe { (core.copy)(dst, bytes, src, bytes, kind as u32, raw) })
    }

    /// Waits until nothing of it runs any more.
    fn settle(&self) {
        // SAFETY: the stream is alive.
        let _answer = self.call(|core, raw| unsafe { (core.stream_wait)(raw) });
    }

    /// What was handed to it last did not go in whole: from there on it has failed.
    pub(crate) fn spoil(&self, status: Status) {
        self.settle();
        self.fate.give_up(status);
    }
}

impl VendorStream for RawStream {
    const NAME: &'static str = "ascend";
    /// One that a stream may still wait for would have to be reset first.
    const RECORDS_AGAIN: bool = false;
    const PASSES_FAILURES: bool = true;

    type Status = Status;
    type Event = RawEvent;

    fn fate(&self) -> &Arc<Fate<Self>> {
        &self.fate
    }

    fn make_event(&self) -> Called<RawEvent> {
        RawEvent::mark(&self.context)
    }

    fn record(&self, event: &RawEvent) -> Called<()> {
        // SAFETY: both are alive, and of this context.
        self.call(|core, raw| unsafe { (core.event_record)(event.raw(), raw) })
    }

    fn wait_event(&self, event: &RawEvent) -> Called<()> {
        // SAFETY: both are alive.
        self.call(|core, raw| unsafe { (core.stream_wait_event)(raw, event.raw()) })
    }

    fn ask(&self) -> Called<()> {
        let mut status = 0;
        // SAFETY: a place of the right type; the stream is alive. Whether it is idle is of no interest.
        let asked = self.call(|core, raw| unsafe { (core.stream_query)(raw, &raw mut status) });
        asked.inspect_err(|_| self.settle())
    }

    fn waits_for(&self, other: &Self) -> bool {
        let is_other = self.context.device() != other.context.device();
        is_other && self.context.api.notifications.is_some()
    }

    fn wait_stream(&self, other: &Self) -> Called<Kept> {
        let notification = Notification::new(&self.context)?;
        notification.record(other)?;
        notification.hold(self)?;
        Ok(Arc::new(notification))
    }

    fn close(&mut self, _is_idle: bool) {
        // SAFETY: the stream is ours. The runtime waits for what it has.
        let _called = self.call(|core, raw| unsafe { (core.stream_destroy)(raw) });
    }
}
