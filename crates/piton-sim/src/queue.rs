//! Queues: the ring of commands, the counter, and who may run them.
//!
//! # Ownership of the front
//! A queue with commands is *scheduled*: exactly one of these owns its front — the engine's ready list, the
//! thread that runs a slice, a resource's waiting list, the host function that runs, or a *stall*. A stall is
//! the only one that may be ended from two sides, so it has a ticket (see `stall`): whoever takes the ticket
//! schedules the queue, the other does nothing.

mod create;
mod submit;

pub(crate) use submit::SimQueue;

use crate::{
    command::Command, device::SimDevice, engine::Engine, graph::GraphRun, machine::QUEUE_COMMANDS,
    parameters::ParameterRing, progress::Progress, ready::BANDS, stall::Stall,
};
use piton_driver::{
    Admission, ComputeUnitSet, ErrorKind, Operation, Origin, Position, Priority, PriorityRange,
    QueueFailure, QueueId,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

/// The priorities a simulated device knows, one a band.
pub(crate) const PRIORITIES: PriorityRange = PriorityRange {
    highest: Priority(-2),
    lowest: Priority(0),
};

/// Ends in virtual time that a queue remembers.
const REMEMBERED_ENDS: usize = 4096;

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
        match self {
            Self::Queue(queue, ticket) => queue.end_stall(ticket),
            // A waker is the program's code: its panic is its own, not the end of a device's thread.
            Self::Waker(waker) => drop(catch_unwind(AssertUnwindSafe(|| waker.wake()))),
        }
    }
}

/// A command in the ring.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) command: Command,
    /// When the host submitted it, in virtual time.
    pub(crate) submitted_at: u64,
    pub(crate) origin: Origin,
}

#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) ring: VecDeque<Entry>,
    pub(crate) parameters: ParameterRing,
    is_scheduled: bool,
    stall: Stall,
    /// When the last command ended, in virtual time.
    pub(crate) time: u64,
    ends: VecDeque<(u64, u64)>,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct QueueCore {
    pub(crate) id: QueueId,
    pub(crate) device: SimDevice,
    pub(crate) priority: Priority,
    pub(crate) hardware: u32,
    pub(crate) units: Option<ComputeUnitSet>,
    pub(crate) label: Option<Arc<str>>,
    submitted: AtomicU64,
    pub(crate) progress: Progress<Watcher>,
    has_failed: AtomicBool,
    failure: Mutex<Option<QueueFailure>>,
    pub(crate) state: Mutex<QueueState>,
    /// The replay of a graph that the front is in the middle of.
    pub(crate) replay: Mutex<Option<Box<GraphRun>>>,
}

impl QueueCore {
    fn engine(&self) -> &Engine {
        &self.device.machine().engine
    }

    /// Its band in the engine's ready list: 0 is the most urgent.
    pub(crate) fn band(&self) -> usize {
        let band = self.priority.0.saturating_sub(PRIORITIES.highest.0);
        usize::try_from(band).unwrap_or(0).min(BANDS - 1)
    }

    /// When its next command could start, in virtual time.
    pub(crate) fn ready_at(&self) -> u64 {
        let state = self.state.lock();
        state
            .ring
            .front()
            .map_or(state.time, |entry| state.time.max(entry.submitted_at))
    }

    /// When `position` ended, in virtual time; its own latest time where that is forgotten.
    pub(crate) fn ended_at(&self, position: u64) -> u64 {
        let state = self.state.lock();
        let at = state.ends.partition_point(|(ended, _)| *ended < position);
        state.ends.get(at).map_or(state.time, |(_, time)| *time)
    }

    /// Puts a command at the end of the ring. `make` may reserve argument space, and gives `None` where there
    /// is none.
    pub(crate) fn submit(
        self: &Arc<Self>,
        origin: Origin,
        make: impl FnOnce(&mut QueueState) -> Option<Command>,
    ) -> Admission {
        self.engine()
            .while_submitting(|| self.submit_now(origin, make))
    }

    fn submit_now(
        self: &Arc<Self>,
        origin: Origin,
        make: impl FnOnce(&mut QueueState) -> Option<Command>,
    ) -> Admission {
        let mut state = self.state.lock();
        let submitted = self.submitted.load(Ordering::Relaxed);
        if submitted - self.progress.reached() >= u64::from(QUEUE_COMMANDS) {
            return Admission::Full;
        }
        let Some(command) = make(&mut state) else {
            return Admission::Full;
        };
        state.ring.push_back(Entry {
            command,
            submitted_at: self.engine().host_now(),
            origin,
        });
        self.submitted.store(submitted + 1, Ordering::Release);
        let was_scheduled = std::mem::replace(&mut state.is_scheduled, true);
        drop(state);
        if !was_scheduled {
            self.engine().schedule(Arc::clone(self));
        }
        Admission::Accepted(Position::new(submitted + 1))
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Gives up the front of an empty queue; `false` if a command has arrived.
    pub(crate) fn retire_if_empty(&self) -> bool {
        let mut state = self.state.lock();
        if state.ring.is_empty() {
            state.is_scheduled = false;
            return true;
        }
        false
    }

    /// Starts a stall: the caller stops owning the front when a watcher with this ticket is in place.
    pub(crate) fn begin_stall(&self) -> u64 {
        self.state.lock().stall.begin()
    }

    /// Takes a stall back; `false` if somebody else has ended it and owns the front.
    pub(crate) fn cancel_stall(&self, ticket: u64) -> bool {
        self.state.lock().stall.end(ticket)
    }

    /// Ends the stall with this ticket, if it is still on, by making the queue ready.
    fn end_stall(self: &Arc<Self>, ticket: u64) {
        let is_mine = self.state.lock().stall.end(ticket);
        if is_mine {
            self.engine().schedule(Arc::clone(self));
        }
    }

    /// Whether it waits for a counter.
    pub(crate) fn is_stalled(&self) -> bool {
        self.state.lock().stall.is_on()
    }

    /// Makes the queue ready if it is stalled: its device is lost.
    pub(crate) fn wake_stalled(self: &Arc<Self>) {
        let is_mine = self.state.lock().stall.end_any();
        if is_mine {
            self.engine().schedule(Arc::clone(self));
        }
    }

    /// Makes the queue ready: the host function that held it has returned.
    pub(crate) fn resume(self: &Arc<Self>) {
        self.engine().schedule(Arc::clone(self));
    }

    pub(crate) fn failure(&self) -> Option<QueueFailure> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        *self.failure.lock()
    }

    /// Ends the command at `position`: notes a failure, then advances the counter, then wakes who waited.
    pub(crate) fn end(
        &self,
        position: Position,
        result: Result<(), ErrorKind>,
        (operation, origin): (Operation, Option<Origin>),
    ) {
        if let Err(kind) = result {
            let error = self.device.error(kind, operation);
            self.failure.lock().get_or_insert(QueueFailure {
                position,
                error,
                origin,
            });
            self.has_failed.store(true, Ordering::Release);
        }
        for watcher in self.progress.advance(position.get()) {
            watcher.wake();
        }
        self.engine().counter_grew();
    }

    /// Notes when a command ended, in virtual time.
    pub(crate) fn note_end(&self, position: Position, time: u64) {
        let mut state = self.state.lock();
        state.time = time;
        state.ends.push_back((position.get(), time));
        if state.ends.len() > REMEMBERED_ENDS {
            state.ends.pop_front();
        }
    }
}
