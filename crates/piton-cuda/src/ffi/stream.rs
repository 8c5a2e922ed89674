//! Streams of CUDA, and how one knows what has ended on them.
//!
//! # The idea
//! Each command handed to a stream gets the next *ordinal*. When what was handed over is flushed, the stream is asked to
//! write the last ordinal into a [`Word`] of page-locked memory (`cuStreamWriteValue64`): "has it ended?" is then a load, and
//! "let another stream wait for it" a `cuStreamWaitValue64`. Nobody can sleep on a word, so from the first time that somebody
//! must sleep on a stream, its flushes leave an event as well, and sleepers sleep on that. Where the device has no such
//! operations, events are left from the start, and are asked instead of the word.
//!
//! # Protocol
//! - `line` (a lock) orders ordinals as the stream's commands: it is held while a command is handed over.
//! - `ended` only grows. With a word it is what the word showed last, once the word is released; without, the ordinal of the
//!   last event seen over. Stored with Release after the event was asked, loaded with Acquire.
//! - A wait for another stream's word is handed over only after the write that will satisfy it: `barrier` flushes first. So
//!   no stream waits for what only the host could bring.
//! - When the context fails, its words are released (`word`), after `ended` was stored.

#![expect(
    unsafe_code,
    reason = "calls of CUDA, and a handle that threads may share"
)]

use super::{
    Called, Context, RawEvent, RawModule,
    declarations::{self, STREAM_NON_BLOCKING, WAIT_AT_LEAST, WRITE_DEFAULT},
    listening::Listening,
    word::{RELEASED, Word},
};
use crate::status::Status;
use piton_native::{Listener, NativeEvent, Progress};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    hint, thread,
};
use std::{
    collections::VecDeque,
    ptr,
    sync::{Arc, Weak},
};

/// Looks at a counter before the driver is asked whether the stream still lives.
const LOOKS: u32 = 64;

/// Looks at a counter before a waiter sleeps: a few microseconds, less than waking costs.
const SPINS: u32 = 500;

/// A stream, in order.
#[derive(Debug)]
pub(crate) struct StreamCore {
    pub(crate) context: Arc<Context>,
    raw: declarations::Stream,
    word: Option<Word>,
    line: Mutex<Line>,
    ended: AtomicU64,
    /// Whether flushes leave an event.
    leaves_events: AtomicBool,
    looks: AtomicU32,
    listening: Listening,
}

/// What has been handed over.
#[derive(Debug, Default)]
struct Line {
    /// The last ordinal given out.
    handed: u64,
    /// The last ordinal that something will tell of.
    told: u64,
    /// Events left in the stream, each with the ordinal that has ended when it is over.
    marks: VecDeque<(u64, Arc<RawEvent>)>,
    /// Events that are over, to be used again.
    spare: Vec<Arc<RawEvent>>,
    /// What other streams of other contexts must end first.
    awaited: Vec<(Weak<StreamCore>, u64)>,
}

// SAFETY: the table is shared; a stream may be used from every thread at once.
unsafe impl Send for StreamCore {}
// SAFETY: as for `Send`.
unsafe impl Sync for StreamCore {}

/// A place on a stream: its command and all before it have ended, or not.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    stream: Arc<StreamCore>,
    ordinal: u64,
    /// The module that runs, which may not be unloaded before it is over.
    module: Option<Arc<RawModule>>,
}

impl StreamCore {
    /// A stream that is in no order with the one that has no name.
    pub(crate) fn new(
        context: &Arc<Context>,
        priority: i32,
        has_counters: bool,
    ) -> Called<Arc<Self>> {
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
        if let (Err(status), word) = (created, &word) {
            word.iter().for_each(|word| word.free(context));
            return Err(status);
        }
        let core = Arc::new(Self {
            context: Arc::clone(context),
            raw,
            leaves_events: AtomicBool::new(word.is_none()),
            word,
            line: Mutex::default(),
            ended: AtomicU64::new(0),
            looks: AtomicU32::new(0),
            listening: Listening::default(),
        });
        context.note_stream(&core);
        Ok(core)
    }

    /// Hands one command over: `call` asks CUDA for it, with the context current.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        call: impl FnOnce(&super::symbols::Core, declarations::Stream) -> declarations::Code,
    ) -> Called<Ticket> {
        let mut line = self.line.lock();
        self.context.call(|core| call(core, self.raw))?;
        line.handed += 1;
        Ok(self.ticket(line.handed))
    }

    pub(super) fn ticket(self: &Arc<Self>, ordinal: u64) -> Ticket {
        Ticket {
            stream: Arc::clone(self),
            ordinal,
            module: None,
        }
    }

    /// Has the stream tell of what was handed over.
    pub(crate) fn flush(&self) -> Called<()> {
        self.tell_of(&mut self.line.lock())
    }

    fn tell_of(&self, line: &mut Line) -> Called<()> {
        let last = line.handed;
        if last == line.told {
            return Ok(());
        }
        if let (Some(word), Some(counters)) = (&self.word, self.context.api.counters) {
            self.context.call(|_| {
                // SAFETY: the word is live until the stream is idle and gone; the stream alone writes it.
                unsafe { (counters.write)(self.raw, word.device(), last, WRITE_DEFAULT) }
            })?;
        }
        if self.leaves_events.load(Ordering::Relaxed) {
            self.leave_event(line)?;
        }
        line.told = last;
        Ok(())
    }

    /// Leaves an event behind what was handed over.
    fn leave_event(&self, line: &mut Line) -> Called<Arc<RawEvent>> {
        let ended = self.ended();
        while line.marks.front().is_some_and(|(at, _)| *at <= ended) {
            line.spare
                .extend(line.marks.pop_front().map(|(_, event)| event));
        }
        // One that somebody still holds may be slept on: it is not recorded again.
        let free = line
            .spare
            .iter()
            .position(|event| Arc::strong_count(event) == 1);
        let event = match free {
            Some(index) => line.spare.swap_remove(index),
            None => Arc::new(RawEvent::mark(&self.context)?),
        };
        self.context.call(|core| {
            // SAFETY: both are alive, and of this context.
            unsafe { (core.event_record)(event.raw(), self.raw) }
        })?;
        line.marks.push_back((line.handed, Arc::clone(&event)));
        Ok(event)
    }

    /// The last ordinal that has ended, as far as is known without asking the driver.
    pub(super) fn ended(&self) -> u64 {
        match self.word.as_ref().map(Word::load) {
            None | Some(RELEASED) => self.ended.load(Ordering::Acquire),
            Some(shown) => shown,
        }
    }

    /// The context has failed: who waits for the counter goes on.
    pub(super) fn release(&self) {
        let Some(word) = &self.word else {
            return;
        };
        let shown = word.load();
        if shown != RELEASED {
            self.ended.store(shown, Ordering::Release);
            word.release();
        }
    }

    /// Whether an ordinal has ended. Asks the driver now and then, as a dead stream's counter stands still.
    fn has_ended(&self, ordinal: u64) -> bool {
        if self.ended() >= ordinal {
            return true;
        }
        if self.word.is_none() {
            self.look_at_events();
        } else if self.looks.fetch_add(1, Ordering::Relaxed) % LOOKS == LOOKS - 1 {
            self.ask();
        }
        self.ended() >= ordinal
    }

    /// Asks the driver whether the stream lives, and those that it waits for. What is wrong is noted with the context.
    pub(super) fn ask(&self) {
        // SAFETY: the stream is alive.
        let _idle_or_not = self
            .context
            .call(|core| unsafe { (core.stream_query)(self.raw) });
        for (other, ordinal) in self.awaited() {
            if other.ended() < ordinal {
                // SAFETY: the stream is alive.
                let _idle_or_not = other
                    .context
                    .call(|core| unsafe { (core.stream_query)(other.raw) });
            }
        }
    }

    /// Streams of other contexts that this one waits for.
    pub(super) fn awaited(&self) -> Vec<(Arc<Self>, u64)> {
        let line = self.line.lock();
        let alive = |(other, ordinal): &(Weak<Self>, u64)| Some((other.upgrade()?, *ordinal));
        line.awaited.iter().filter_map(alive).collect()
    }

    /// Asks events in order, without a word.
    fn look_at_events(&self) {
        let Some(mut line) = self.line.try_lock() else {
            return;
        };
        while let Some((ordinal, event)) = line.marks.front() {
            if !matches!(event.is_over(), Ok(true)) {
                return;
            }
            self.ended.store(*ordinal, Ordering::Release);
            let spare = line.marks.pop_front().map(|(_, event)| event);
            line.spare.extend(spare);
        }
    }

    /// An event that is over when `ordinal` has ended: the first such, or one that is left now.
    fn event_behind(&self, ordinal: u64) -> Called<Arc<RawEvent>> {
        self.leaves_events.store(true, Ordering::Relaxed);
        let mut line = self.line.lock();
        let known = line.marks.iter().find(|(at, _)| *at >= ordinal);
        if let Some((_, event)) = known {
            return Ok(Arc::clone(event));
        }
        self.tell_of(&mut line)?;
        match line.marks.back() {
            Some((at, event)) if *at >= ordinal => Ok(Arc::clone(event)),
            _ => self.leave_event(&mut line),
        }
    }

    /// Sleeps until the next event that is left has passed, and leaves one if there is none.
    pub(super) fn sleep(&self) {
        match self.event_behind(self.ended() + 1) {
            Ok(event) => {
                if let Err(status) = event.wait() {
                    self.context.give_up(status);
                }
            }
            // No event to be had for now.
            Err(_) => thread::yield_now(),
        }
        if self.word.is_none() {
            self.look_at_events();
        }
    }

    /// Later commands of this stream start when the other's have come so far.
    pub(crate) fn barrier(self: &Arc<Self>, awaited: &Ticket) -> Called<Ticket> {
        let other = &awaited.stream;
        if Arc::ptr_eq(self, other) {
            // In order as it is: it has ended when what was handed over before has.
            let handed = self.line.lock().handed;
            return Ok(self.ticket(handed));
        }
        other.flush()?;
        let counters = self.context.api.counters;
        let counted = other
            .word
            .as_ref()
            .zip(counters.filter(|_| self.word.is_some()));
        let event = match counted {
            Some(_) => None,
            None => Some(other.event_behind(awaited.ordinal)?),
        };
        let mut line = self.line.lock();
        if !Arc::ptr_eq(&self.context, &other.context) {
            line.awaited
                .retain(|(other, at)| other.upgrade().is_some_and(|other| other.ended() < *at));
            line.awaited.push((Arc::downgrade(other), awaited.ordinal));
        }
        self.context.call(|core| match (&event, counted) {
            (Some(event), _) => {
                // SAFETY: both are alive; a stream may wait for an event of another context.
                unsafe { (core.stream_wait_event)(self.raw, event.raw(), 0) }
            }
            (None, Some((word, counters))) => {
                // SAFETY: the word is live until the other stream is idle and gone, which this one is before it.
                unsafe { (counters.wait)(self.raw, word.device(), awaited.ordinal, WAIT_AT_LEAST) }
            }
            (None, None) => Status::SUCCESS.0,
        })?;
        line.handed += 1;
        Ok(self.ticket(line.handed))
    }

    /// Tells who asked for an ordinal, on a thread of the stream's.
    fn listen(self: &Arc<Self>, ordinal: u64, told: Box<dyn FnOnce() + Send>) -> Called<()> {
        self.leaves_events.store(true, Ordering::Relaxed);
        for (other, at) in self.awaited() {
            // So that somebody notices should that stream die.
            other.listening.post(&other, at, Box::new(|| {}));
        }
        if self.listening.post(self, ordinal, told) {
            Ok(())
        } else {
            Err(Status::NOT_READY)
        }
    }
}

impl Ticket {
    /// The same, which keeps a module loaded.
    pub(crate) fn keeping(mut self, module: &Arc<RawModule>) -> Self {
        self.module = Some(Arc::clone(module));
        self
    }

    pub(super) const fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Sleeps until the stream has come on. An error is noted with the context.
    pub(super) fn sleep(&self) {
        self.stream.sleep();
    }

    /// Whether it is over, well or not.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self.progress(), Progress::Pending)
    }
}

impl NativeEvent for Ticket {
    type Status = Status;

    fn progress(&self) -> Progress<Status> {
        if self.stream.has_ended(self.ordinal) {
            return Progress::Done;
        }
        self.stream
            .context
            .failure()
            .map_or(Progress::Pending, Progress::Failed)
    }

    fn wait(&self) {
        for _ in 0..SPINS {
            if self.stream.ended() >= self.ordinal {
                return;
            }
            hint::spin_loop();
        }
        if !self.is_over() {
            let event = self.stream.event_behind(self.ordinal);
            let _noted = event.and_then(|event| event.wait());
        }
    }

    fn tell<L: Listener>(&self, listener: Arc<L>) -> Called<()> {
        self.stream
            .listen(self.ordinal, Box::new(move || listener.over()))
    }

    fn times(&self) -> Option<(u64, u64)> {
        None
    }
}

impl Drop for StreamCore {
    fn drop(&mut self) {
        let line = self.line.get_mut();
        let is_idle = line.handed
            <= match self.word.as_ref().map(Word::load) {
                None | Some(RELEASED) => u64::MAX,
                Some(shown) => shown,
            };
        // SAFETY: the stream is ours. What it has runs on.
        let _called = self
            .context
            .call(|core| unsafe { (core.stream_destroy)(self.raw) });
        if let Some(word) = self.word.take().filter(|_| is_idle) {
            // A stream that is not idle goes on to write its word: then the line of memory stays.
            word.free(&self.context);
        }
    }
}
