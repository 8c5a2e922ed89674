//! Queues: the ring of commands, the counter, and who may run them.
//!
//! # Ownership of the front
//! A queue with commands is *scheduled*: exactly one of these owns its front — the engine's ready list, the
//! thread that runs a slice, a host thread that holds it (`hold`), a resource's waiting list, the host function that runs, or a *stall*. A stall is
//! the only one that may be ended from several sides, so it has a ticket (see `stall`): whoever takes the ticket
//! schedules the queue, the others do nothing. The owner is the ring's consumer.
//!
//! # Producers
//! Whoever submits holds `producer` (`turns`): for one command, or as a writer for many. Completion needs no lock that a
//! producer holds, so a producer may wait for room as long as it likes.
//!
//! # Trouble
//! What keeps commands from running as they are: `failure` (and commands behind it are skipped, or not, as the
//! queue's mode says), an abort, loss of the device, a deadlock. A bit in `trouble` says that there is some; the
//! consumer looks at the bits alone while there is none.

mod check;
mod create;
mod handle;
mod hold;
mod publish;
mod submit;
mod writer;

pub(crate) use handle::SimQueue;

use crate::{
    command::Entry,
    device::SimDevice,
    engine::Engine,
    front::FrontMark,
    graph::ReplayPlace,
    kept::Kept,
    moments::Moments,
    parameters::{Claimed, ParameterRing},
    progress::{Due, Progress},
    ready::BANDS,
    ring::Ring,
    sequel::Sequel,
    stall::Stall,
    traffic::Flowing,
    trouble::Trouble,
    turns::Turns,
};
use piton_driver::{
    ComputeUnitSet, ErrorKind, OnFailure, Operation, Origin, Position, Priority, PriorityRange,
    QueueFailure, QueueId, shield,
};
use piton_sync::{
    CachePadded, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::{sync::Arc, task::Waker};

/// The priorities a simulated device knows, one a band.
pub(crate) const PRIORITIES: PriorityRange = PriorityRange {
    highest: Priority(-2),
    lowest: Priority(0),
};

/// Who is woken when a queue or semaphore gets to a number.
#[derive(Debug)]
pub(crate) enum Watcher {
    /// A stalled queue, if the stall is still this one.
    Queue(Arc<QueueCore>, u64),
    /// A future.
    Waker(Waker),
}

impl Watcher {
    pub(crate) fn wake(self) {
        if let Some(queue) = self.woken() {
            queue.engine().schedule(&queue);
        }
    }

    /// Wakes it; a queue comes back if its stall was still on. The caller owns its front then, and makes it ready.
    #[must_use = "a queue that nobody makes ready never runs"]
    fn woken(self) -> Option<Arc<QueueCore>> {
        match self {
            Self::Queue(queue, ticket) => queue.stall.end(ticket).then_some(queue),
            // A waker is the program's code: its panic is its own, not the end of a device's thread.
            Self::Waker(waker) => {
                shield::run(|| waker.wake());
                None
            }
        }
    }
}

/// What belongs to whoever submits.
#[derive(Debug, Default)]
pub(crate) struct Producer {
    claimed: Claimed,
    kept: Kept,
    /// The counter as last seen: there is room for a capacity more than that.
    completed: u64,
}

/// What the owner of the front writes as it goes, and others seldom look at.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) front: FrontMark,
    pub(crate) parameters: ParameterRing,
    pub(crate) sequel: Sequel,
}

/// When things happened, in virtual time.
#[derive(Debug, Default)]
struct Times {
    /// When the last command ended.
    latest: u64,
    /// From when on the next one is made ready to start, if it is submitted by then.
    prepared: u64,
    ends: Moments,
    /// The copy at the front, while it is under way. Only the owner of the front changes it.
    flow: Option<Flowing>,
}

/// A queue.
///
/// What producers write with each command (`ring`, `producer`) and what the owner of the front does (`progress`,
/// `consumer`) lies apart from each other and from what both only read.
#[derive(Debug)]
pub(crate) struct QueueCore {
    pub(crate) id: QueueId,
    pub(crate) device: SimDevice,
    pub(crate) priority: Priority,
    pub(crate) hardware: u32,
    pub(crate) units: Option<ComputeUnitSet>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) on_failure: OnFailure,
    pub(crate) ring: Ring<Entry>,
    pub(crate) progress: Progress<Watcher>,
    pub(crate) trouble: Trouble,
    pub(crate) consumer: CachePadded<Consumer>,
    pub(crate) stall: Stall,
    pub(crate) replay: ReplayPlace,
    producer: CachePadded<Turns<Producer>>,
    /// The band that a more urgent queue lifted this one to, and until when: `band` in the low byte, the position
    /// above.
    lift: AtomicU64,
    /// Whether a writer may have left commands unstarted. Set under the producer's right before it publishes any, and
    /// taken back with Release when it has started them all.
    has_writer: AtomicBool,
    /// In virtual time alone.
    times: Mutex<Option<Box<Times>>>,
}

impl QueueCore {
    pub(crate) fn engine(&self) -> &Engine {
        &self.device.machine().engine
    }

    /// Its own band in the engine's ready list: 0 is the most urgent.
    fn own_band(&self) -> usize {
        let band = self.priority.0.saturating_sub(PRIORITIES.highest.0);
        usize::try_from(band).unwrap_or(0).min(BANDS - 1)
    }

    /// Its band now: its own, or a more urgent one while a queue of that band waits for it.
    pub(crate) fn band(&self) -> usize {
        let lift = self.lift.load(Ordering::Relaxed);
        let (until, band) = (lift >> 8, usize::from(lift.to_le_bytes()[0]));
        if until > self.progress.reached() {
            self.own_band().min(band)
        } else {
            self.own_band()
        }
    }

    /// A queue of `band` waits until this one has ended `position`: until then it is as urgent. Says whether that
    /// makes it more urgent than it was.
    pub(crate) fn lift_to(&self, band: usize, position: u64) -> bool {
        let before = self.band();
        if band >= before {
            return false;
        }
        // A hint: of two that lift at once one may be forgotten, and its waiter goes by the other's end.
        let low = u64::from(u8::try_from(band).unwrap_or(u8::MAX));
        self.lift.store(position << 8 | low, Ordering::Relaxed);
        true
    }

    /// When its next command could start, in virtual time.
    pub(crate) fn ready_at(&self, submitted_at: u64) -> u64 {
        self.time().max(submitted_at)
    }

    /// When its last command ended, in virtual time.
    pub(crate) fn time(&self) -> u64 {
        self.times.lock().as_ref().map_or(0, |times| times.latest)
    }

    /// As [`time`](Self::time); 0 in real time.
    pub(crate) fn time_if_virtual(&self) -> u64 {
        if self.engine().is_virtual() {
            self.time()
        } else {
            0
        }
    }

    /// When `position` ended, in virtual time, as far as [`Moments`] go back; its latest time where it has not.
    pub(crate) fn ended_at(&self, position: u64) -> u64 {
        let times = self.times.lock();
        let Some(times) = &*times else {
            return 0;
        };
        times.ends.of(position).unwrap_or(times.latest)
    }

    /// The copy at the front, while it is under way in virtual time.
    pub(crate) fn flow(&self) -> Option<Flowing> {
        self.times.lock().as_ref().and_then(|times| times.flow)
    }

    /// Notes that the copy at the front is under way, or no longer. For the owner of the front.
    pub(crate) fn set_flow(&self, flow: Option<Flowing>) {
        self.times.lock().get_or_insert_default().flow = flow;
    }

    /// From when on its next command is made ready to start, in virtual time: no later than [`ready_at`](Self::ready_at).
    pub(crate) fn prepared_at(&self, submitted_at: u64) -> u64 {
        let times = self.times.lock();
        let prepared = times.as_ref().map_or(0, |times| times.prepared);
        prepared.max(submitted_at)
    }

    /// Notes when a command ended, in virtual time, and from when on the next one is made ready.
    pub(crate) fn note_end(&self, position: u64, (prepared, time): (u64, u64)) {
        let mut times = self.times.lock();
        let times = times.get_or_insert_default();
        times.latest = time;
        times.prepared = prepared;
        times.ends.note(position, time);
    }

    /// Ends the stall with this ticket, if it is still on, by making the queue ready.
    pub(crate) fn end_stall(self: &Arc<Self>, ticket: u64) {
        if self.stall.end(ticket) {
            self.engine().schedule(self);
        }
    }

    /// Ends the stall with this ticket, if it is still on, with an error.
    pub(crate) fn doom(self: &Arc<Self>, ticket: u64, kind: ErrorKind) {
        if self.take_to_doom(ticket, kind) {
            self.engine().schedule(self);
        }
    }

    /// As [`doom`](Self::doom), and leaves it to the caller, who owns the front then, to make the queue ready.
    pub(crate) fn take_to_doom(&self, ticket: u64, kind: ErrorKind) -> bool {
        let is_mine = self.stall.end(ticket);
        if is_mine {
            self.trouble.doom(kind);
        }
        is_mine
    }

    /// Whether everything submitted has ended.
    pub(crate) fn is_drained(&self) -> bool {
        self.progress.reached() >= self.ring.submitted()
    }

    /// Makes the queue ready if it is stalled: there is trouble for it to see.
    pub(crate) fn wake_stalled(self: &Arc<Self>) {
        if self.stall.end_any() {
            self.go_on_in_trouble();
        }
    }

    /// As [`wake_stalled`](Self::wake_stalled), unless it waits for another queue.
    fn wake_aborted(self: &Arc<Self>) {
        if self.stall.end_by_abort() {
            self.go_on_in_trouble();
        }
    }

    fn go_on_in_trouble(self: &Arc<Self>) {
        self.engine().schedule(self);
        // It may have been among those that wait for memory, which nobody may ever write again.
        self.device.machine().memory_waits.written();
    }

    pub(crate) fn failure(&self) -> Option<QueueFailure> {
        self.trouble.failure()
    }

    /// Ends the command at `position`: notes a failure, then advances the counter, then tells who listens. The
    /// caller owns the front, and has taken the command out of the ring. Of the queues that waited for this one comes back:
    /// the caller owns its front too now, and makes it ready or runs it.
    #[must_use = "a queue that nobody makes ready never runs"]
    #[inline]
    pub(crate) fn end(
        &self,
        position: u64,
        result: Result<(), ErrorKind>,
        (operation, origin): (Operation, Origin),
    ) -> Option<Arc<Self>> {
        if let Err(kind) = result {
            let failure = QueueFailure {
                position: Position::new(position),
                error: self.device.error(kind, operation),
                origin: Some(origin),
            };
            self.trouble.fail(failure, self.on_failure);
        }
        self.progress
            .advance(position)
            .and_then(|due| self.tell(due))
    }

    fn tell(&self, due: Due<Watcher>) -> Option<Arc<Self>> {
        let mut first = None;
        for watcher in due.watchers {
            if first.is_none() {
                first = watcher.woken();
            } else {
                watcher.wake();
            }
        }
        if due.has_sleepers {
            self.engine().ring_hosts();
        }
        first
    }

    /// Drops what has not ended, as if it had, and whoever waits for it.
    ///
    /// # Safety
    /// Nobody runs the queue, now or later: whoever takes a command out and has not ended it runs it, so what has not ended is
    /// in the ring.
    #[expect(unsafe_code, reason = "takes what is left out of the ring")]
    pub(crate) unsafe fn drop_rest(&self) {
        // It knows what it waited for, and that may know this queue.
        let _was_stalled = self.stall.end_any();
        let (reached, submitted) = (self.progress.reached(), self.ring.submitted());
        if reached < submitted {
            shield::discard(self.progress.advance(submitted));
        }
        for position in reached + 1..=submitted {
            // SAFETY: the caller's promise, and the counter is past the position.
            shield::discard(unsafe { self.ring.take(position) });
        }
        shield::discard(self.replay.take());
    }
}

impl Drop for QueueCore {
    fn drop(&mut self) {
        // SAFETY: nobody is left who could run it.
        #[expect(unsafe_code, reason = "what is left in the ring is dropped here")]
        unsafe {
            self.drop_rest();
        }
        shield::discard(std::mem::take(&mut self.producer.get_mut().kept));
    }
}
