//! What moves commands from held to in flight.
//!
//! # Protocol
//! [`pump`](Core::pump) takes the lock, looks at the front of what is held and does what can be done under it. It lets go
//! of the lock to ask another queue or a semaphore, and looks afterwards whether the front is still the same: two threads
//! may pump one queue. What is left as it is has told somebody to come back: a watcher of a queue, or of a semaphore.
//! [`advance`] pumps a queue, ends what has ended, and goes on with the queues that waited for that.

#![expect(unsafe_code, reason = "hands commands that name memory to the driver")]

use super::{
    Core, Work,
    state::{Awaited, Flight, Held, Reach, Shows, State, skipped},
    watch::Watcher,
};
use crate::backend::{NativeDevice, NativeQueue};
use piton_driver::{ErrorKind, HostFunction, Operation};
use std::sync::Arc;

/// Whether somebody who was to tell the queue something has told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    Yes,
    No,
}

/// Lets a queue go on as far as it can, and then those that waited for that.
pub(crate) fn advance<D: NativeDevice>(first: Arc<Core<D>>, fired: Fired) {
    let mut list = vec![(first, fired)];
    while let Some((core, fired)) = list.pop() {
        core.settle(fired, &mut list);
        if core.pump(&mut list) {
            core.settle(Fired::No, &mut list);
        }
    }
}

/// What the front of what is held needs.
enum Step<D: NativeDevice> {
    /// It was handed over, or ended without.
    Moved,
    /// Nothing can be done now.
    Stays,
    /// Another queue is to be asked how far it has come.
    Ask(Awaited<D>),
    /// A semaphore is to be asked to tell.
    Semaphore,
    /// A semaphore is to be raised.
    Raise,
    /// A host function is to be run.
    Call(HostFunction),
    /// A host function is to be dropped uncalled, before its position ends.
    Discard(Option<HostFunction>),
}

impl<D: NativeDevice> Core<D> {
    /// Hands over what is held, as far as it goes. Says whether anything moved.
    pub(super) fn pump(self: &Arc<Self>, list: &mut Vec<(Arc<Self>, Fired)>) -> bool {
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
                    self.device
                        .driven()
                        .functions
                        .run(Arc::clone(self), function);
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
            self.device.standing().keep_error(error);
        }
        has_moved
    }

    /// Looks at the front of what is held and does what can be done under the lock. Also what was dropped by it, for the
    /// caller to let go of without the lock.
    fn step(self: &Arc<Self>, state: &mut State<D>) -> (Step<D>, Option<Held<D>>) {
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
        state: &mut State<D>,
        event: Result<D::Event, D::Status>,
        awaited: Option<Awaited<D>>,
    ) -> Option<Held<D>> {
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
    fn ask(self: &Arc<Self>, awaited: &Awaited<D>) -> bool {
        awaited.queue.look();
        let reach = awaited.queue.state.lock().reach(awaited.position);
        let mut state = self.state.lock();
        let is_front = |work: &Work<D>| matches!(work, Work::Wait(front) if Arc::ptr_eq(&front.queue, &awaited.queue) && front.position == awaited.position);
        let position = state.issued() + 1;
        if state.skips(position) || !state.held.front().is_some_and(|held| is_front(&held.work)) {
            // Another thread was faster, or a failure came: look anew.
            return true;
        }
        // What is known to have failed now must stop what comes behind before that is handed over.
        let inherited = awaited.failure();
        let moved = match reach {
            Reach::Held => {
                state.waits_at = position;
                None
            }
            Reach::Event(event, _) if inherited.is_none() => {
                let barrier = self.place.native.barrier(&event);
                self.issue(&mut state, barrier, Some(awaited.clone()))
            }
            Reach::Event(..) | Reach::Ended => self.pass(&mut state, awaited, inherited),
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

    /// The front, a wait for another queue, has nothing of its own left to do, and fails if it inherits a failure.
    fn pass(
        &self,
        state: &mut State<D>,
        awaited: &Awaited<D>,
        inherited: Option<ErrorKind>,
    ) -> Option<Held<D>> {
        let position = state.issued() + 1;
        let held = state.held.pop_front()?;
        if let Some(kind) = inherited {
            let error = self.error(kind, held.tag.operation);
            self.fail(state, position, error, &held.tag);
        }
        let flight = skipped(Some(awaited.clone()), held.tag.clone());
        state.flight.push_back(flight);
        Some(held)
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
        // A late signal leaves it alone.
        let woken = semaphore.raise(value).unwrap_or_default();
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
}
