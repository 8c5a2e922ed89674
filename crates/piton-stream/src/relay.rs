//! Between a queue that wakes once and a future that may be polled by one task today and another tomorrow.
//!
//! # Protocol
//! The queue is given the relay as its waker, once. The relay keeps the waker of the task that polled last and
//! whether the queue has called. Both change under one lock: a poll that finds "not called" has left its waker
//! in the same step, so the call finds it. Wakers are cloned, called and dropped under no lock: they are user
//! code.

use piton_driver::{DriverError, Position, Queue};
use piton_sync::Mutex;
use piton_timeline::Timeline;
use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

enum State {
    /// The queue has not called; the waker of whoever polled last.
    Waiting(Option<Waker>),
    /// It has.
    Called,
}

pub(crate) struct Relay {
    state: Mutex<State>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("was_called", &matches!(*self.state.lock(), State::Called))
            .finish()
    }
}

impl Relay {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::Waiting(None)),
        }
    }

    /// Leaves a waker to be called, unless the queue has called already: then returns true and keeps nothing.
    pub(crate) fn leave(&self, waker: &Waker) -> bool {
        let fresh = Some(waker.clone());
        let mut state = self.state.lock();
        let stale = match &mut *state {
            State::Called => return true,
            State::Waiting(kept) => mem::replace(kept, fresh),
        };
        drop(state);
        drop(stale);
        false
    }

    /// Takes the waker back: nobody waits any more.
    pub(crate) fn withdraw(&self) {
        let kept = match &mut *self.state.lock() {
            State::Called => None,
            State::Waiting(kept) => kept.take(),
        };
        drop(kept);
    }

    /// The queue calls.
    pub(crate) fn call(&self) {
        let before = mem::replace(&mut *self.state.lock(), State::Called);
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.call();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

/// Waits, as a future does, for a queue to have ended a position.
#[derive(Debug)]
pub(crate) struct Watch {
    position: Position,
    /// What the queue will call, once it was asked to, and the timeline that orders the queue.
    asked: Option<(Arc<Relay>, Arc<Timeline>)>,
}

impl Watch {
    pub(crate) fn new(position: Position) -> Self {
        Self {
            position,
            asked: None,
        }
    }

    /// Ready when the position has ended. Pending leaves the context's waker to be called.
    pub(crate) fn poll(
        &mut self,
        (queue, timeline): (&dyn Queue, &Arc<Timeline>),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), DriverError>> {
        if queue.completed() >= self.position {
            return Poll::Ready(Ok(()));
        }
        let was_called = match &self.asked {
            Some((relay, _)) => relay.leave(cx.waker()),
            None => true,
        };
        if was_called {
            // Not asked yet, or woken too early: ask, the waker being in place before.
            let relay = Arc::new(Relay::new());
            let _not_called_yet = relay.leave(cx.waker());
            queue.notify(self.position, &Waker::from(Arc::clone(&relay)))?;
            self.asked = Some((relay, Arc::clone(timeline)));
        }
        // It may have ended between the first look and the waker's being left.
        if queue.completed() >= self.position {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((relay, timeline)) = &self.asked
            && !timeline.is_forked()
        {
            relay.withdraw();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! A waker that is left against the call that comes once.

    use super::*;
    use crate::model_queue::ModelQueue;
    use piton_sync::{
        atomic::{AtomicU32, Ordering},
        model, thread,
    };

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        (count, waker)
    }

    #[test]
    fn whoever_polled_last_and_was_not_told_is_woken() {
        model(|| {
            let relay = Arc::new(Relay::new());
            let (first, first_waker) = counting();
            let (second, second_waker) = counting();
            let caller = {
                let relay = Arc::clone(&relay);
                thread::spawn(move || relay.call())
            };
            let told_first = relay.leave(&first_waker);
            let told_second = relay.leave(&second_waker);
            caller.join().unwrap();
            let wakes = first.0.load(Ordering::Acquire) + second.0.load(Ordering::Acquire);
            assert!(told_first || told_second || second.0.load(Ordering::Acquire) == 1);
            assert!(wakes <= 1);
            if told_second && !told_first {
                assert_eq!(first.0.load(Ordering::Acquire), 1);
            }
        });
    }

    #[test]
    fn a_pending_watch_is_woken_when_the_position_ends() {
        model(|| {
            let queue = ModelQueue::new(1);
            let (count, waker) = counting();
            let device = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.end(1, false))
            };
            let mut watch = Watch::new(Position::new(1));
            let timeline = Timeline::new();
            let mut cx = Context::from_waker(&waker);
            let first = watch.poll((&*queue, &timeline), &mut cx);
            let is_pending =
                first.is_pending() && watch.poll((&*queue, &timeline), &mut cx).is_pending();
            device.join().unwrap();
            assert!(!is_pending || count.0.load(Ordering::Acquire) >= 1);
            assert!(watch.poll((&*queue, &timeline), &mut cx).is_ready());
        });
    }
}
