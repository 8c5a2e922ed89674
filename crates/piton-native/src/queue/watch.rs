//! Who is told that a position has ended, and how it comes that somebody tells.
//!
//! # Protocol
//! A queue's watchers are under its lock. Whoever adds one, or finds some left, *arms* the lowest of them before it lets
//! go of the lock: the driver is asked to call back for the event that its position, or the nearest before it, ends with;
//! or the other queue that position waits for is asked to tell. Whichever comes, the completion thread looks again, tells
//! who is due, and arms the next. So as long as there is a watcher whose position is in flight, something is on its way
//! that leads to a look; a watcher whose position is held is reached when what holds it goes on, which arms as well.

use super::{
    Core,
    pump::Fired,
    state::{Awaited, Shows, State},
};
use crate::backend::{Listener, NativeDevice, NativeEvent};
use piton_driver::shield;
use std::{fmt, sync::Arc, task::Waker};

/// Who is told.
pub(crate) enum Watcher<D: NativeDevice> {
    /// A task.
    Waker(Waker),
    /// Threads that sleep on the queue's bell.
    Sleeper,
    /// A queue that may go on.
    Queue(Arc<Core<D>>),
}

impl<D: NativeDevice> fmt::Debug for Watcher<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waker(_) => "Waker",
            Self::Sleeper => "Sleeper",
            Self::Queue(_) => "Queue",
        })
    }
}

/// An event of the queue's is over: the driver says so, on a thread of its own.
impl<D: NativeDevice> Listener for Core<D> {
    fn over(self: Arc<Self>) {
        let driven = Arc::clone(self.device.driven());
        driven.completion.post(self);
    }
}

impl<D: NativeDevice> Core<D> {
    /// Tells `watcher` when `position` has ended. False if it has: then nobody is told.
    pub(crate) fn watch(self: &Arc<Self>, position: u64, watcher: Watcher<D>) -> bool {
        self.look();
        let mut state = self.state.lock();
        if state.completed >= position {
            return false;
        }
        // Threads on one bell need one entry: those whose deadline passed left theirs.
        let is_there = |(at, known): &(u64, Watcher<D>)| {
            *at == position && matches!((known, &watcher), (Watcher::Sleeper, Watcher::Sleeper))
        };
        if !state.watchers.iter().any(is_there) {
            state.watchers.push((position, watcher));
        }
        let other = self.arm(&mut state);
        drop(state);
        self.follow(other);
        true
    }

    /// Sees to it that somebody tells us when the lowest watched position in flight has ended. Returns the place of
    /// another queue that is to be watched for that, by the caller and without the lock: see [`follow`](Self::follow).
    #[must_use]
    pub(super) fn arm(self: &Arc<Self>, state: &mut State<D>) -> Option<Awaited<D>> {
        let lowest = state.watchers.iter().map(|(position, _)| *position).min()?;
        let target = lowest.min(state.issued());
        if target <= state.completed || (state.completed < state.armed && state.armed <= target) {
            return None;
        }
        let count = usize::try_from(target - state.completed).unwrap_or(0);
        for offset in (0..count).rev() {
            let position = state.completed + offset as u64 + 1;
            let flight = &state.flight[offset];
            match (&flight.shows, &flight.awaited) {
                (Shows::Event(event), _) => {
                    match event.tell(Arc::clone(self)) {
                        Ok(()) => state.armed = position,
                        // Nobody will tell: the completion thread asks at once, and again.
                        Err(_) => self.device.driven().completion.post(Arc::clone(self)),
                    }
                    return None;
                }
                (Shows::Running, _) => return None,
                (Shows::Nothing, Some(awaited)) if !awaited.has_ended() => {
                    state.armed = position;
                    return Some(awaited.clone());
                }
                (Shows::Nothing, _) => {}
            }
        }
        None
    }

    /// Watches the place of another queue for this one.
    pub(super) fn follow(self: &Arc<Self>, other: Option<Awaited<D>>) {
        let Some(other) = other else {
            return;
        };
        let watcher = Watcher::Queue(Arc::clone(self));
        if !other.queue.watch(other.position, watcher) {
            // It has ended meanwhile; whoever called us may hold a place in a loop over queues, so another thread looks.
            self.device.driven().completion.post(Arc::clone(self));
        }
    }

    /// Tells who is due. Queues that may go on are put on the list.
    pub(super) fn tell(&self, due: Vec<Watcher<D>>, list: &mut Vec<(Arc<Self>, Fired)>) {
        for watcher in due {
            match watcher {
                Watcher::Waker(waker) => {
                    let _returned = shield::run(|| waker.wake());
                }
                Watcher::Sleeper => {
                    // The lock orders this behind a sleeper that has looked and not yet slept.
                    drop(self.state.lock());
                    self.bell.notify_all();
                }
                Watcher::Queue(queue) => list.push((queue, Fired::Yes)),
            }
        }
    }
}
