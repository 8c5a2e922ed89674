//! A queue: its numbers, its lock, and what its handles ask of it.
//!
//! [`submit`](Core::submit) hands a command to the driver where nothing is held, and holds it otherwise; `pump` hands over
//! what was held, `retire` ends what has ended.

#![expect(unsafe_code, reason = "hands commands that name memory to the driver")]

use super::{
    pump::{Fired, advance},
    request::{Native, Request, Work},
    state::{Awaited, Flight, Held, Reach, Shows, State, Tag, Verdict, skipped},
    watch::Watcher,
};
use crate::{
    backend::{NativeDevice, NativeEvent, NativeLaunch, NativeQueue, VendorStatus},
    placement::Place,
};
use piton_driver::{
    Admission, Awaited as AwaitedBy, DriverError, ErrorKind, Front, HostFunction, Operation,
    Position, Priority, QueueActivity, QueueFailure, QueueId, QueueOptions, WaitOutcome,
};
use piton_sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use std::{fmt, sync::Arc, time::Instant};

/// A queue. Handles of it, other queues that wait for it and whatever will tell it something keep it alive.
pub(crate) struct Core<D: NativeDevice> {
    pub(crate) id: QueueId,
    pub(crate) device: Arc<D>,
    pub(crate) place: Place<D::Queue>,
    pub(crate) priority: Priority,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) capacity: u64,
    /// The last position given out; stored under the lock.
    pub(super) submitted: AtomicU64,
    /// The last position that has ended; stored under the lock, with Release, loaded with Acquire.
    pub(super) completed: AtomicU64,
    pub(super) state: Mutex<State<D>>,
    pub(crate) verdict: Mutex<Verdict>,
    /// Rung, for threads that sleep until a position has ended.
    pub(super) bell: Condvar,
}

impl<D: NativeDevice> Core<D> {
    pub(crate) fn new(
        device: &Arc<D>,
        place: Place<D::Queue>,
        options: &QueueOptions,
    ) -> Arc<Self> {
        let most = device.info().limits.queue_commands;
        Arc::new(Self {
            id: device.driven().next_queue_id(),
            device: Arc::clone(device),
            place,
            priority: options.priority,
            label: options.label.clone(),
            capacity: options.commands.unwrap_or(most).into(),
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            state: Mutex::new(State::new(options.on_failure)),
            verdict: Mutex::new(Verdict::default()),
            bell: Condvar::new(),
        })
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    pub(super) fn error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.device.info().id)
    }

    /// Whether the position was given out.
    pub(crate) fn known(
        &self,
        position: Position,
        operation: Operation,
    ) -> Result<(), DriverError> {
        let submitted = Position::new(self.submitted());
        if position <= submitted {
            return Ok(());
        }
        let unknown = ErrorKind::UnknownPosition {
            position,
            submitted,
        };
        Err(self.error(unknown, operation))
    }

    /// Gives what was enqueued to the device.
    pub(crate) fn flush(&self, operation: Operation) -> Result<(), DriverError> {
        let flushed = self.place.native.flush();
        flushed.map_err(|status| status.error(operation, self.device.info().id))
    }

    /// The lock, where there is room for so many more commands.
    fn with_room(&self, count: u64) -> Option<MutexGuard<'_, State<D>>> {
        let has_room =
            |state: &State<D>| state.submitted() - state.completed + count <= self.capacity;
        let state = self.state.lock();
        if has_room(&state) {
            return Some(state);
        }
        drop(state);
        self.look();
        Some(self.state.lock()).filter(|state| has_room(state))
    }

    /// Puts a checked command at the end.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`].
    pub(crate) unsafe fn submit(
        self: &Arc<Self>,
        request: Request<'_, D>,
        tag: Tag,
    ) -> Result<Admission, DriverError> {
        let Some(mut state) = self.with_room(1) else {
            return Ok(Admission::Full);
        };
        let position = state.submitted() + 1;
        let native = request
            .native()
            .filter(|_| state.held.is_empty() && !state.is_running);
        if let Some(native) = native {
            let flight = if state.skips(position) {
                skipped(None, tag)
            } else {
                // SAFETY: the caller's promise.
                let event = unsafe { self.enqueue(&native) };
                let event = event.map_err(|status| self.refusal(status, tag.operation))?;
                Flight {
                    shows: Shows::Event(event),
                    awaited: None,
                    tag,
                }
            };
            state.flight.push_back(flight);
            self.submitted.store(position, Ordering::Release);
            return Ok(Admission::Accepted(Position::new(position)));
        }
        let is_first = state.held.is_empty();
        let work = request.into_work();
        state.held.push_back(Held { work, tag });
        self.submitted.store(position, Ordering::Release);
        drop(state);
        if is_first {
            advance(Arc::clone(self), Fired::No);
        }
        Ok(Admission::Accepted(Position::new(position)))
    }

    /// Puts checked commands at the end, all or none. They are held first, and go on from there as held ones do: what
    /// the driver refused of the last would come too late for the ones before it.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit_behind`].
    pub(crate) unsafe fn submit_all(
        self: &Arc<Self>,
        all: Vec<(Request<'_, D>, Tag)>,
    ) -> Admission {
        let Some(mut state) = self.with_room(all.len() as u64) else {
            return Admission::Full;
        };
        let is_first = state.held.is_empty();
        let held = all.into_iter().map(|(request, tag)| Held {
            work: request.into_work(),
            tag,
        });
        state.held.extend(held);
        let last = state.submitted();
        self.submitted.store(last, Ordering::Release);
        drop(state);
        if is_first {
            advance(Arc::clone(self), Fired::No);
        }
        Admission::Accepted(Position::new(last))
    }

    /// As [`submit`](Self::submit), for host functions: taken when accepted.
    pub(crate) fn call(
        self: &Arc<Self>,
        function: &mut Option<HostFunction>,
        tag: Tag,
    ) -> Admission {
        let Some(mut state) = self.with_room(1) else {
            return Admission::Full;
        };
        let position = state.submitted() + 1;
        let is_first = state.held.is_empty();
        state.held.push_back(Held {
            work: Work::Call(function.take()),
            tag,
        });
        self.submitted.store(position, Ordering::Release);
        drop(state);
        if is_first {
            advance(Arc::clone(self), Fired::No);
        }
        Admission::Accepted(Position::new(position))
    }

    pub(super) fn refusal(&self, status: D::Status, operation: Operation) -> DriverError {
        self.device.standing().called(status, operation)
    }

    /// Hands a command to the driver. Under the lock, as positions are in the order of the native queue; enqueueing
    /// does not wait for the device.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`].
    pub(super) unsafe fn enqueue(&self, native: &Native<'_, D>) -> Result<D::Event, D::Status> {
        let queue = &self.place.native;
        match *native {
            Native::Launch {
                kernel,
                grid,
                arguments,
                extents,
            } => {
                let launch = NativeLaunch {
                    of: self.id,
                    grid,
                    arguments,
                    extents,
                };
                // SAFETY: the caller's promise.
                unsafe { queue.launch(kernel, launch) }
            }
            // SAFETY: the caller's promise; overlap was refused.
            Native::Copy(copy) => unsafe { queue.copy(copy) },
            Native::Fill {
                dst,
                pattern,
                bytes,
            } => {
                // SAFETY: the caller's promise.
                unsafe { queue.fill(dst, pattern, bytes) }
            }
            Native::Timestamp { slots, index } => queue.stamp(slots, index),
        }
    }

    /// Blocks until the position has ended or the deadline has passed.
    pub(crate) fn wait(self: &Arc<Self>, position: u64, deadline: Option<Instant>) -> WaitOutcome {
        if self.completed.load(Ordering::Acquire) >= position {
            return WaitOutcome::Reached;
        }
        if deadline.is_none() {
            let reach = self.state.lock().reach(position);
            if let Reach::Event(event, at) = reach
                && event.wait()
            {
                let _blocked = self.retire_seen(&mut self.state.lock(), at);
                if self.completed.load(Ordering::Acquire) >= position {
                    return WaitOutcome::Reached;
                }
            }
        }
        self.look();
        if self.completed.load(Ordering::Acquire) >= position {
            return WaitOutcome::Reached;
        }
        if !self.watch(position, Watcher::Sleeper) {
            return WaitOutcome::Reached;
        }
        let mut state = self.state.lock();
        while state.completed < position {
            match deadline {
                None => self.bell.wait(&mut state),
                Some(deadline) => {
                    let is_over = self.bell.wait_until(&mut state, deadline).timed_out();
                    if is_over && state.completed < position {
                        return WaitOutcome::DeadlinePassed;
                    }
                }
            }
        }
        WaitOutcome::Reached
    }

    /// Ends what is held; what the driver has runs on.
    pub(crate) fn abort(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let first = state.issued() + 1;
        let Some(tag) = state.held.front().map(|held| held.tag.clone()) else {
            return;
        };
        state.aborted = state.submitted();
        let error = self.error(ErrorKind::Aborted, tag.operation);
        self.fail(&mut state, first, error, &tag);
        drop(state);
        advance(Arc::clone(self), Fired::No);
    }

    /// Forgets the failure, once everything has ended.
    pub(crate) fn clear_failure(&self) -> Result<Option<QueueFailure>, DriverError> {
        self.look();
        let mut state = self.state.lock();
        let (submitted, completed) = (state.submitted(), state.completed);
        if completed < submitted {
            let kind = ErrorKind::NotDrained {
                submitted,
                completed,
            };
            return Err(self.error(kind, Operation::ClearFailure));
        }
        let mut verdict = self.verdict.lock();
        let failure = verdict.failure.take();
        if let Some(failure) = failure {
            verdict.cleared.add(failure, Position::new(submitted));
        }
        state.is_poisoned = false;
        Ok(failure)
    }

    /// What the front is at.
    pub(crate) fn activity(&self) -> QueueActivity {
        let state = self.state.lock();
        let front = |position, tag: &Tag| Front {
            position: Position::new(position),
            operation: tag.operation,
            origin: Some(tag.origin),
        };
        let awaited = |awaited: &Awaited<D>| {
            AwaitedBy::Queue(awaited.queue.id, Position::new(awaited.position))
        };
        let next = state.completed + 1;
        if let Some(flight) = state.flight.front() {
            let front = front(next, &flight.tag);
            return match &flight.awaited {
                Some(other) => QueueActivity::Waiting(front, awaited(other)),
                None => QueueActivity::Running(front),
            };
        }
        let Some(held) = state.held.front() else {
            return QueueActivity::Idle;
        };
        let front = front(next, &held.tag);
        match &held.work {
            Work::Wait(other) => QueueActivity::Waiting(front, awaited(other)),
            Work::WaitSemaphore { semaphore, value } => {
                let (current, wanted) = (semaphore.value(), *value);
                QueueActivity::Waiting(front, AwaitedBy::Semaphore { current, wanted })
            }
            _ => QueueActivity::Ready(front.position),
        }
    }
}

impl<D: NativeDevice> fmt::Debug for Core<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.id)
            .field("submitted", &self.submitted)
            .field("completed", &self.completed)
            .finish_non_exhaustive()
    }
}
