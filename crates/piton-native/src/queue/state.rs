//! What a queue remembers of its commands, under its lock.
//!
//! # Invariants
//! 1. `completed + flight.len() + held.len()` is the last position given out: the flight is the positions right after the
//!    counter, what is held those behind.
//! 2. Nothing behind something held is in flight.
//! 3. `is_running` says that a host function of this queue runs, or is being dropped; it is then the last in flight.

use super::{Core, Work, watch::Watcher};
use crate::backend::NativeDevice;
use piton_driver::{
    ClearedFailures, DeviceId, DriverError, OnFailure, Operation, Origin, Position, QueueFailure,
    QueueId,
};
use std::{collections::VecDeque, sync::Arc};

/// What is known of a command beside its work.
#[derive(Clone, Debug)]
pub(crate) struct Tag {
    pub(crate) operation: Operation,
    pub(crate) origin: Origin,
    /// Bytes it moves or fills.
    pub(crate) bytes: u64,
    /// The kernel's name, while somebody traces.
    pub(crate) kernel: Option<Arc<str>>,
    pub(crate) peer: Option<DeviceId>,
}

/// What says that a command in flight has ended.
#[derive(Debug)]
pub(crate) enum Shows<E> {
    /// It has nothing of its own to do.
    Nothing,
    /// Its event.
    Event(E),
    /// The thread that runs its host function.
    Running,
}

/// A place of another queue that a command ends behind.
#[derive(Debug)]
pub(crate) struct Awaited<D: NativeDevice> {
    pub(super) queue: Arc<Core<D>>,
    pub(super) position: u64,
    /// Whether a failure up to there is a failure of this command.
    pub(super) inherits: bool,
}

impl<D: NativeDevice> Clone for Awaited<D> {
    fn clone(&self) -> Self {
        Self {
            queue: Arc::clone(&self.queue),
            ..*self
        }
    }
}

#[derive(Debug)]
pub(crate) struct Flight<D: NativeDevice> {
    pub(crate) shows: Shows<D::Event>,
    pub(super) awaited: Option<Awaited<D>>,
    pub(crate) tag: Tag,
}

impl<D: NativeDevice> Flight<D> {
    /// The place of another queue that it ends behind.
    pub(crate) fn awaits(&self) -> Option<(QueueId, Position)> {
        let awaited = self.awaited.as_ref()?;
        Some((awaited.queue.id, Position::new(awaited.position)))
    }
}

#[derive(Debug)]
pub(super) struct Held<D: NativeDevice> {
    pub(super) work: Work<D>,
    pub(super) tag: Tag,
}

#[derive(Debug)]
pub(super) struct State<D: NativeDevice> {
    /// The last position that has ended. The queue's counter shows it to others.
    pub(super) completed: u64,
    pub(super) flight: VecDeque<Flight<D>>,
    pub(super) held: VecDeque<Held<D>>,
    pub(super) is_running: bool,
    /// A failure stops what comes behind it.
    pub(super) is_poisoned: bool,
    pub(super) on_failure: OnFailure,
    /// Positions up to here that were held when the queue was aborted.
    pub(super) aborted: u64,
    /// Who is told when a position has ended.
    pub(super) watchers: Vec<(u64, Watcher<D>)>,
    /// The position in flight whose end the driver or another queue will tell us of; zero if there is none.
    pub(super) armed: u64,
    /// The held position that somebody else will tell us may go on; zero if there is none.
    pub(super) waits_at: u64,
}

/// Failures, in a lock of their own: others ask while they hold theirs.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) failure: Option<QueueFailure>,
    pub(crate) cleared: ClearedFailures,
}

impl Verdict {
    /// Whether a position is at or past a failure.
    pub(super) fn spoils(&self, position: u64) -> bool {
        let position = Position::new(position);
        self.failure
            .is_some_and(|failure| failure.position <= position)
            || self.cleared.spoiling(position).is_some()
    }
}

/// How far another queue's command has come.
pub(super) enum Reach<E> {
    /// It has ended.
    Ended,
    /// It ends with this event at the latest, which is that of this position.
    Event(E, u64),
    /// The host must resolve something first.
    Held,
}

/// A command that has nothing of its own to do, and keeps its place behind what it waits for.
pub(super) fn skipped<D: NativeDevice>(awaited: Option<Awaited<D>>, tag: Tag) -> Flight<D> {
    Flight {
        shows: Shows::Nothing,
        awaited,
        tag,
    }
}

impl<D: NativeDevice> State<D> {
    pub(super) fn new(on_failure: OnFailure) -> Self {
        Self {
            completed: 0,
            flight: VecDeque::new(),
            held: VecDeque::new(),
            is_running: false,
            is_poisoned: false,
            on_failure,
            aborted: 0,
            watchers: Vec::new(),
            armed: 0,
            waits_at: 0,
        }
    }

    /// The last position in flight, or the counter where none is.
    pub(super) fn issued(&self) -> u64 {
        self.completed + self.flight.len() as u64
    }

    /// The last position given out.
    pub(super) fn submitted(&self) -> u64 {
        self.issued() + self.held.len() as u64
    }

    /// Whether a command at this position ends without running.
    pub(super) fn skips(&self, position: u64) -> bool {
        position <= self.aborted || (self.is_poisoned && self.on_failure == OnFailure::Stop)
    }

    /// Puts the host function at the front of what is held into flight. Nobody else takes it or passes it from now on.
    pub(super) fn begin_function(&mut self) -> Option<Held<D>> {
        let held = self.held.pop_front()?;
        self.is_running = true;
        self.flight.push_back(Flight {
            shows: Shows::Running,
            awaited: None,
            tag: held.tag.clone(),
        });
        Some(held)
    }

    /// How far the command at `position` has come.
    pub(super) fn reach(&self, position: u64) -> Reach<D::Event> {
        if position <= self.completed {
            return Reach::Ended;
        }
        let offset = usize::try_from(position - self.completed).unwrap_or(usize::MAX);
        if offset > self.flight.len() {
            return Reach::Held;
        }
        // What has nothing of its own to do ends with what comes before it.
        let positions = (self.completed + 1..=position).rev();
        for (flight, at) in self.flight.range(..offset).rev().zip(positions) {
            match (&flight.shows, &flight.awaited) {
                (Shows::Event(event), _) => return Reach::Event(event.clone(), at),
                (Shows::Running, _) | (Shows::Nothing, Some(_)) => return Reach::Held,
                (Shows::Nothing, None) => {}
            }
        }
        Reach::Ended
    }

    /// Takes out who is to be told by now.
    pub(super) fn due(&mut self) -> Vec<Watcher<D>> {
        let completed = self.completed;
        let due = self
            .watchers
            .extract_if(.., |(position, _)| *position <= completed);
        due.map(|(_, watcher)| watcher).collect()
    }
}

impl<D: NativeDevice> Core<D> {
    /// Notes a failure, met at `position`; the first in the queue's order stays. What waits is known to fail when it is
    /// looked at, which may be before the driver tells of a command in front of it.
    pub(super) fn fail(&self, state: &mut State<D>, position: u64, error: DriverError, tag: &Tag) {
        if error.is_device_lost() {
            self.device.standing().lose();
        }
        state.is_poisoned = true;
        let position = Position::new(position);
        let mut verdict = self.verdict.lock();
        let is_first = verdict
            .failure
            .is_none_or(|first| position < first.position);
        if is_first {
            verdict.failure = Some(QueueFailure {
                position,
                error,
                origin: Some(tag.origin),
            });
        }
    }
}
