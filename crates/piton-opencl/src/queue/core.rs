//! What moves a queue's commands: from held to in flight, from in flight to ended.
//!
//! # Protocol
//! - [`submit`](Core::submit) hands a command to the driver where nothing is held, and holds it otherwise.
//! - [`pump`](Core::pump) hands over what is held until something holds again. It lets go of the lock to ask another queue
//!   or a semaphore, and looks afterwards whether the front is still the same: two threads may pump one queue.
//! - [`retire`](Core::retire) ends what has ended, oldest first, and stores the counter with Release. Before that it waits
//!   for the last event it found complete, which returns at once and makes the device's writes visible: a look at an
//!   event's status alone does not (OpenCL 3.0, `clGetEventInfo`, is no point of synchronisation).
//! - [`advance`] does all of that for a queue and those that its progress lets go on.

#![expect(unsafe_code, reason = "hands commands that name memory to the driver")]

use super::{
    request::{Native, Request, Work},
    state::{Awaited, Flight, Held, Reach, Shows, State, Tag, Verdict},
    watch::Watcher,
};
use crate::{
    device::OpenClDevice,
    ffi::{Called, Event, event::Progress},
    placement::Place,
    status::Status,
};
use piton_driver::{
    Admission, Awaited as AwaitedBy, DriverError, ErrorKind, Front, HostFunction, Operation,
    Position, QueueActivity, QueueFailure, QueueId, QueueOptions, WaitOutcome,
};
use piton_sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use std::{fmt, sync::Arc, time::Instant};

/// A queue. Handles of it, other queues that wait for it and whatever will tell it something keep it alive.
pub(crate) struct Core {
    pub(crate) id: QueueId,
    pub(crate) device: Arc<OpenClDevice>,
    pub(crate) place: Place,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) capacity: u64,
    /// The last position given out; stored under the lock.
    submitted: AtomicU64,
    /// The last position that has ended; stored under the lock, with Release, loaded with Acquire.
    completed: AtomicU64,
    pub(super) state: Mutex<State>,
    pub(crate) verdict: Mutex<Verdict>,
    /// Rung, for threads that sleep until a position has ended.
    pub(super) bell: Condvar,
}

/// Whether somebody who was to tell the queue something has told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    Yes,
    No,
}

/// Lets a queue go on as far as it can, and then those that waited for that.
pub(crate) fn advance(first: Arc<Core>, fired: Fired) {
    let mut list = vec![(first, fired)];
    while let Some((core, fired)) = list.pop() {
        core.settle(fired, &mut list);
        if core.pump(&mut list) {
            core.settle(Fired::No, &mut list);
        }
    }
}

/// What the front of what is held needs.
enum Step {
    /// It was handed over, or ended without.
    Moved,
    /// Nothing can be done now.
    Stays,
    /// Another queue is to be asked how far it has come.
    Ask(Awaited),
    /// A semaphore is to be asked to tell.
    Semaphore,
    /// A semaphore is to be raised.
    Raise,
    /// A host function is to be run.
    Call(HostFunction),
    /// A host function is to be dropped uncalled, before its position ends.
    Discard(Option<HostFunction>),
}

impl Awaited {
    pub(super) fn has_ended(&self) -> bool {
        self.queue.completed.load(Ordering::Acquire) >= self.position
    }
}

impl Core {
    pub(crate) fn new(
        device: &Arc<OpenClDevice>,
        place: Place,
        options: &QueueOptions,
    ) -> Arc<Self> {
        let most = device.info.limits.queue_commands;
        Arc::new(Self {
            id: device.shared.next_queue_id(),
            device: Arc::clone(device),
            place,
            label: options.label.clone(),
            capacity: options.commands.unwrap_or(most).clamp(1, most).into(),
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

    fn error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.device.info.id)
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
        flushed.map_err(|status| status.error(operation, self.device.info.id))
    }

    /// The lock, where there is room for one more command.
    fn with_room(&self) -> Option<MutexGuard<'_, State>> {
        let has_room = |state: &State| state.submitted() - state.completed < self.capacity;
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
        request: Request<'_>,
        tag: Tag,
    ) -> Result<Admission, DriverError> {
        let Some(mut state) = self.with_room() else {
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

    /// As [`submit`](Self::submit), for host functions: taken when accepted.
    pub(crate) fn call(
        self: &Arc<Self>,
        function: &mut Option<HostFunction>,
        tag: Tag,
    ) -> Admission {
        let Some(mut state) = self.with_room() else {
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

    fn refusal(&self, status: Status, operation: Operation) -> DriverError {
        let error = status.error(operation, self.device.info.id);
        if error.is_device_lost() {
            self.device.lose();
        }
        error
    }

    /// Hands a command to the driver. Under the lock, as positions are in the order of the native queue; enqueueing
    /// does not wait for the device.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`].
    unsafe fn enqueue(&self, native: &Native<'_>) -> Called<Event> {
        let queue = &self.place.native;
        match *native {
            Native::Launch {
                kernel,
                ref global,
                arguments,
            } => {
                // SAFETY: the caller's promise.
                unsafe { kernel.enqueue(queue, self.id, global, arguments) }
            }
            // SAFETY: the caller's promise; overlap was refused.
            Native::Copy { dst, src, bytes } => unsafe { queue.copy(dst, src, bytes) },
            Native::Fill {
                dst,
                pattern,
                bytes,
            } => {
                // SAFETY: the caller's promise.
                unsafe { queue.fill(dst, pattern, bytes) }
            }
            Native::Timestamp { pool, index } => {
                let event = queue.marker()?;
                pool.written(index, event.clone());
                Ok(event)
            }
        }
    }

    /// Hands over what is held, as far as it goes. Says whether anything moved.
    fn pump(self: &Arc<Self>, list: &mut Vec<(Arc<Self>, Fired)>) -> bool {
        let mut has_moved = false;
        loop {
            let mut state = self.state.lock();
            let (step, dropped) = self.step(&mut state);
            let arm = match step {
                Step::Stays => self.arm(&mut state),
                _ => None,
            };
            drop(state);
            // What a skipped command held may run code of the program's when it goes.
            drop(dropped);
            self.follow(arm);
            let goes_on = match step {
                Step::Moved => true,
                Step::Stays => false,
                Step::Ask(awaited) => self.ask(&awaited),
                Step::Semaphore => self.ask_semaphore(),
                Step::Raise => self.raise(list),
                Step::Call(function) => {
                    self.device.shared.functions.run(Arc::clone(self), function);
                    true
                }
                Step::Discard(function) => {
                    drop(function);
                    self.function_gone(false);
                    true
                }
            };
            if !goes_on {
                break;
            }
            has_moved = true;
        }
        if has_moved && let Err(error) = self.flush(Operation::Flush) {
            self.device.keep_error(error);
        }
        has_moved
    }

    /// Looks at the front of what is held and does what can be done under the lock. Also what was dropped by it, for the
    /// caller to let go of without the lock.
    fn step(self: &Arc<Self>, state: &mut State) -> (Step, Option<Held>) {
        let position = state.issued() + 1;
        if state.is_running {
            return (Step::Stays, None);
        }
        let skips = state.skips(position);
        let Some(front) = state.held.front_mut() else {
            return (Step::Stays, None);
        };
        if skips {
            if let Work::Call(function) = &mut front.work {
                let function = function.take();
                return (Step::Discard(function), state.begin_function());
            }
            let awaited = front.work.awaited();
            let awaited = awaited.filter(|awaited| !Arc::ptr_eq(&awaited.queue, self));
            let tag = front.tag.clone();
            state.flight.push_back(skipped(awaited, tag));
            return (Step::Moved, state.held.pop_front());
        }
        if let Some(native) = front.work.native() {
            // SAFETY: whoever submitted it promised the contract's for as long as it has not ended.
            let event = unsafe { self.enqueue(&native) };
            return (Step::Moved, self.issue(state, event, None));
        }
        if state.waits_at == position {
            return (Step::Stays, None);
        }
        let is_alone = state.flight.is_empty();
        match &mut front.work {
            Work::Wait(awaited) if Arc::ptr_eq(&awaited.queue, self) || awaited.position == 0 => {
                // Order is there already; a failure of the own queue stops it, or is to be passed over.
                let flight = skipped(None, front.tag.clone());
                state.flight.push_back(flight);
                (Step::Moved, state.held.pop_front())
            }
            Work::Wait(awaited) => (Step::Ask(awaited.clone()), None),
            Work::WaitSemaphore { .. } => (Step::Semaphore, None),
            Work::Signal { .. } | Work::Call(_) if !is_alone => {
                state.waits_at = position;
                let watcher = Watcher::Queue(Arc::clone(self));
                state.watchers.push((position - 1, watcher));
                (Step::Stays, None)
            }
            Work::Signal { .. } => (Step::Raise, None),
            Work::Call(function) => match function.take() {
                Some(function) => (Step::Call(function), state.begin_function()),
                None => (Step::Stays, None),
            },
            Work::Native(_) => (Step::Stays, None),
        }
    }

    /// Puts the front of what is held into flight. What the driver refuses now has its position already: it fails.
    fn issue(
        &self,
        state: &mut State,
        event: Called<Event>,
        awaited: Option<Awaited>,
    ) -> Option<Held> {
        let position = state.issued() + 1;
        let held = state.held.pop_front()?;
        let shows = match event {
            Ok(event) => Shows::Event(event),
            Err(status) => {
                let error = self.refusal(status, held.tag.operation);
                self.fail(state, position, error, &held.tag);
                Shows::Nothing
            }
        };
        let tag = held.tag.clone();
        state.flight.push_back(Flight {
            shows,
            awaited,
            tag,
        });
        Some(held)
    }

    /// The front waits for another queue: how far has that come? Says whether the front moved, or may now.
    fn ask(self: &Arc<Self>, awaited: &Awaited) -> bool {
        awaited.queue.look();
        let reach = awaited.queue.state.lock().reach(awaited.position);
        let mut state = self.state.lock();
        let is_front = |work: &Work| matches!(work, Work::Wait(front) if Arc::ptr_eq(&front.queue, &awaited.queue) && front.position == awaited.position);
        let position = state.issued() + 1;
        if state.skips(position) || !state.held.front().is_some_and(|held| is_front(&held.work)) {
            // Another thread was faster, or a failure came: look anew.
            return true;
        }
        let moved = match reach {
            Reach::Ended => {
                let held = state.held.pop_front();
                let tag = held.as_ref().map(|held| held.tag.clone());
                state
                    .flight
                    .extend(tag.map(|tag| skipped(Some(awaited.clone()), tag)));
                held
            }
            Reach::Event(event) => {
                let barrier = self.place.native.barrier(&event);
                self.issue(&mut state, barrier, Some(awaited.clone()))
            }
            Reach::Held => {
                state.waits_at = position;
                None
            }
        };
        let has_moved = moved.is_some();
        drop(state);
        drop(moved);
        has_moved || {
            let watcher = Watcher::Queue(Arc::clone(self));
            let waits = awaited.queue.watch(awaited.position, watcher);
            if !waits {
                self.state.lock().waits_at = 0;
            }
            !waits
        }
    }

    /// The front waits for a semaphore. Says whether it moved, or may now.
    fn ask_semaphore(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        let position = state.issued() + 1;
        let (semaphore, value, tag) = match state.held.front() {
            Some(Held {
                work: Work::WaitSemaphore { semaphore, value },
                tag,
            }) => (Arc::clone(semaphore), *value, tag.clone()),
            _ => return true,
        };
        if state.skips(position) {
            return true;
        }
        if semaphore.value() < value {
            state.waits_at = position;
            // A leaf lock, and one that whoever raises the semaphore has let go of before it takes ours.
            if semaphore.watch(value, self) {
                return false;
            }
            state.waits_at = 0;
        }
        state.flight.push_back(skipped(None, tag));
        let held = state.held.pop_front();
        drop(state);
        drop(held);
        true
    }

    /// The front raises a semaphore, and everything before it has ended.
    fn raise(self: &Arc<Self>, list: &mut Vec<(Arc<Self>, Fired)>) -> bool {
        let mut state = self.state.lock();
        let (semaphore, value, tag) = match state.held.front() {
            Some(Held {
                work: Work::Signal { semaphore, value },
                tag,
            }) => (Arc::clone(semaphore), *value, tag.clone()),
            _ => return true,
        };
        // Another thread may have raised the one that was the front, and come to this one.
        if !state.flight.is_empty() || state.skips(state.issued() + 1) {
            return true;
        }
        let flight = skipped(None, tag);
        let woken = semaphore.raise(value);
        state.flight.push_back(flight);
        let held = state.held.pop_front();
        drop(state);
        drop(held);
        list.extend(woken.into_iter().map(|queue| (queue, Fired::Yes)));
        true
    }

    /// The host function in flight has returned, or panicked.
    pub(crate) fn function_ended(self: &Arc<Self>, has_panicked: bool) {
        self.function_gone(has_panicked);
        advance(Arc::clone(self), Fired::No);
    }

    /// The host function in flight is no more.
    fn function_gone(&self, has_panicked: bool) {
        let mut state = self.state.lock();
        state.is_running = false;
        let position = state.issued();
        let Some(last) = state.flight.back_mut() else {
            return;
        };
        last.shows = Shows::Nothing;
        if has_panicked {
            let tag = last.tag.clone();
            let error = self.error(ErrorKind::HostFunctionPanicked, tag.operation);
            self.fail(&mut state, position, error, &tag);
        }
    }

    /// Ends what has ended; tells who is due; sees to it that the rest will be told.
    fn settle(self: &Arc<Self>, fired: Fired, list: &mut Vec<(Arc<Self>, Fired)>) {
        self.look();
        let mut state = self.state.lock();
        if fired == Fired::Yes {
            (state.armed, state.waits_at) = (0, 0);
        }
        let due = state.due();
        let other = self.arm(&mut state);
        drop(state);
        self.tell(due, list);
        self.follow(other);
    }

    /// Ends what has ended. Where only another queue stands in the way, that one is looked at as well; each awaited
    /// position was given out before ours, so this never comes back to a queue it has looked at.
    pub(crate) fn look(&self) {
        loop {
            let blocked = self.retire(&mut self.state.lock());
            let Some(other) = blocked else {
                return;
            };
            other.queue.look();
            if !other.has_ended() {
                return;
            }
        }
    }

    /// As [`look`](Self::look), without waiting for a lock: for callers that may hold locks of their own. The counter.
    pub(crate) fn glance(&self) -> u64 {
        let completed = self.completed.load(Ordering::Acquire);
        if completed == self.submitted() {
            return completed;
        }
        while let Some(mut state) = self.state.try_lock() {
            let blocked = self.retire(&mut state);
            drop(state);
            let Some(other) = blocked else {
                break;
            };
            let _theirs = other.queue.glance();
            if !other.has_ended() {
                break;
            }
        }
        self.completed.load(Ordering::Acquire)
    }

    /// Ends, oldest first, what has ended. Returns the place of another queue that the oldest waits for, if it is that
    /// alone.
    fn retire(&self, state: &mut State) -> Option<Awaited> {
        let mut last: Option<Event> = None;
        let (before, mut blocked) = (state.completed, None);
        while let Some(front) = state.flight.front() {
            let failed = match &front.shows {
                Shows::Nothing => None,
                Shows::Running => break,
                Shows::Event(event) => match event.progress() {
                    Progress::Pending => break,
                    Progress::Done => None,
                    Progress::Failed(status) => Some(status),
                },
            };
            if let Some(awaited) = front
                .awaited
                .as_ref()
                .filter(|awaited| !awaited.has_ended())
            {
                blocked = Some(awaited.clone());
                break;
            }
            let Some(flight) = state.flight.pop_front() else {
                break;
            };
            let position = state.completed + 1;
            if let Some(error) = self.failure_of(&flight, failed) {
                self.fail(state, position, error, &flight.tag);
            }
            state.completed = position;
            self.device.trace.record(self, position, &flight);
            if let Shows::Event(event) = flight.shows {
                last = Some(event);
            }
        }
        if let Some(last) = last {
            last.wait();
        }
        if state.completed != before {
            self.completed.store(state.completed, Ordering::Release);
        }
        blocked
    }

    /// Why a command failed that is over.
    fn failure_of(&self, flight: &Flight, status: Option<Status>) -> Option<DriverError> {
        let inherited = flight.awaited.as_ref().filter(|awaited| awaited.inherits);
        let inherited = inherited
            .filter(|awaited| awaited.queue.verdict.lock().spoils(awaited.position))
            .map(|awaited| ErrorKind::DependencyFailed {
                queue: awaited.queue.id,
                position: Position::new(awaited.position),
            });
        let operation = flight.tag.operation;
        let own = status.map(|status| status.error(operation, self.device.info.id));
        inherited.map(|kind| self.error(kind, operation)).or(own)
    }

    /// Blocks until the position has ended or the deadline has passed.
    pub(crate) fn wait(self: &Arc<Self>, position: u64, deadline: Option<Instant>) -> WaitOutcome {
        if self.completed.load(Ordering::Acquire) >= position {
            return WaitOutcome::Reached;
        }
        if deadline.is_none() {
            let reach = self.state.lock().reach(position);
            if let Reach::Event(event) = reach {
                event.wait();
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
        let awaited =
            |awaited: &Awaited| AwaitedBy::Queue(awaited.queue.id, Position::new(awaited.position));
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

/// A command that has nothing of its own to do, and keeps its place behind what it waits for.
fn skipped(awaited: Option<Awaited>, tag: Tag) -> Flight {
    Flight {
        shows: Shows::Nothing,
        awaited,
        tag,
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.id)
            .field("submitted", &self.submitted)
            .field("completed", &self.completed)
            .finish_non_exhaustive()
    }
}
