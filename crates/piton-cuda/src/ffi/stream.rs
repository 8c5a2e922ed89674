//! Streams of CUDA, as `piton-native` wants them: counters by `cuStreamWriteValue64` and `cuStreamWaitValue64` where the
//! device has them, and events.

#![expect(
    unsafe_code,
    reason = "calls of CUDA, and a handle that threads may share"
)]

use super::{
    Called, Context, RawEvent,
    declarations::{self, Code, STREAM_NON_BLOCKING, WAIT_AT_LEAST, WRITE_DEFAULT},
    symbols::{Core, MemoryCounters},
    word::Word,
};
use crate::status::Status;
use piton_native::stream::{Counter, Fate, Stream, VendorStream};
use std::{ptr, sync::Arc};

/// A stream that says how far it has come.
pub(crate) type StreamCore = Stream<RawStream>;
/// A place on it.
pub(crate) type Ticket = piton_native::stream::Ticket<RawStream>;

/// A stream, in order.
#[derive(Debug)]
pub(crate) struct RawStream {
    pub(crate) context: Arc<Context>,
    raw: declarations::Stream,
    word: Option<Word>,
}

// SAFETY: the table is shared; a stream may be used from every thread at once.
unsafe impl Send for RawStream {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawStream {}

/// A stream that is in no order with the one that has no name.
pub(crate) fn stream(
    context: &Arc<Context>,
    priority: i32,
    has_counters: bool,
) -> Called<Arc<StreamCore>> {
    let word = if has_counters {
        Some(Word::new(context)?)
    } else {
        None
    };
    let mut raw = ptr::null_mut();
    let created = context.call(|core| {
        // SAFETY: a place of the right type.
        unsafe { (core.stream_create)(&raw mut raw, STREAM_NON_BLOCKING, priority) }
    });
    if let Err(status) = created {
        if let Some(word) = word {
            word.free(context);
        }
        return Err(status);
    }
    let context = Arc::clone(context);
    Ok(Stream::new(RawStream { context, raw, word }))
}

impl RawStream {
    /// Calls a function on the stream, with the context current.
    pub(crate) fn call(
        &self,
        call: impl FnOnce(&Core, declarations::Stream) -> Code,
    ) -> Called<()> {
        self.context.call(|core| call(core, self.raw))
    }

    /// Calls an operation on a stream's counter.
    fn call_counter(
        &self,
        of: &Self,
        call: impl FnOnce(&MemoryCounters, &Word) -> Code,
    ) -> Called<()> {
        let counters = self.context.api.counters.as_ref();
        let counted = counters.zip(of.word.as_ref());
        let (counters, word) = counted.ok_or(Status::NOT_SUPPORTED)?;
        self.context.call(|_| call(counters, word))
    }
}

impl VendorStream for RawStream {
    const NAME: &'static str = "cuda";
    const RECORDS_AGAIN: bool = true;
    /// A failure is the context's, and every later question of it answers that.
    const PASSES_FAILURES: bool = false;

    type Status = Status;
    type Event = RawEvent;

    fn fate(&self) -> &Arc<Fate<Self>> {
        &self.context.fate
    }

    fn make_event(&self) -> Called<RawEvent> {
        RawEvent::mark(&self.context)
    }

    fn record(&self, event: &RawEvent) -> Called<()> {
        self.call(|core, raw| {
            // SAFETY: both are alive, and of this context.
            unsafe { (core.event_record)(event.raw(), raw) }
        })
    }

    fn wait_event(&self, event: &RawEvent) -> Called<()> {
        self.call(|core, raw| {
            // SAFETY: both are alive; a stream may wait for an event of another context.
            unsafe { (core.stream_wait_event)(raw, event.raw(), 0) }
        })
    }

    fn ask(&self) -> Called<()> {
        // SAFETY: the stream is alive. A failure was noted with the context.
        let _idle_or_not = self.call(|core, raw| unsafe { (core.stream_query)(raw) });
        self.context.fate.failure().map_or(Ok(()), Err)
    }

    fn counter(&self) -> Option<&Counter> {
        self.word.as_ref().map(Word::counter)
    }

    fn write_counter(&self, value: u64) -> Called<()> {
        self.call_counter(self, |counters, word| {
            // SAFETY: the word is live until the stream is idle and gone; the stream alone writes it.
            unsafe { (counters.write)(self.raw, word.device(), value, WRITE_DEFAULT) }
        })
    }

    fn wait_counter(&self, other: &Self, value: u64) -> Called<()> {
        self.call_counter(other, |counters, word| {
            // SAFETY: the word is live until the other stream is idle and gone, which this one is before it.
            unsafe { (counters.wait)(self.raw, word.device(), value, WAIT_AT_LEAST) }
        })
    }

    fn close(&mut self, is_idle: bool) {
        // SAFETY: the stream is ours. What it has runs on.
        let _called = self.call(|core, raw| unsafe { (core.stream_destroy)(raw) });
        if let Some(word) = self.word.take().filter(|_| is_idle) {
            // A stream that is not idle goes on to write its word: then the line of memory stays.
            word.free(&self.context);
        }
    }
}
