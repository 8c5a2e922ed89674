//! A thread that tends a pool.
//!
//! # Protocol
//! One lock guards what the keeper is to do next; whoever changes it rings. The keeper waits for a ring or for the
//! end of its period, and tends under no lock. It has a ticket of the pool, which does not keep the pool open: when the last
//! handle goes, or the keeper's guard, the thread ends by itself.

use crate::{core::Core, tickets::Ticket};
use piton_sync::{Condvar, Mutex, thread};
use piton_timeline::Timeline;
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Wait,
    Tend,
    End,
}

/// How a keeper is called.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    next: Mutex<Next>,
    rung: Condvar,
}

impl Bell {
    /// Has the pool tended soon.
    pub(crate) fn ring(&self) {
        self.set(Next::Tend);
    }

    fn set(&self, next: Next) {
        let mut now = self.next.lock();
        if *now != Next::End {
            *now = next;
        }
        drop(now);
        self.rung.notify_all();
    }

    /// Waits for a ring or until `period` has passed; whether to go on.
    fn wait(&self, period: Duration) -> bool {
        let deadline = Instant::now().checked_add(period);
        let mut next = self.next.lock();
        while *next == Next::Wait {
            match deadline {
                Some(deadline) if self.rung.wait_until(&mut next, deadline).timed_out() => break,
                Some(_) => {}
                None => self.rung.wait(&mut next),
            }
        }
        let goes_on = *next != Next::End;
        if goes_on {
            *next = Next::Wait;
        }
        goes_on
    }
}

/// A thread that tends a pool, until this is dropped or the pool's last handle is.
///
/// Dropping it does not block: the thread ends when it has ended its round.
#[derive(Debug)]
pub struct Keeper {
    bell: Arc<Bell>,
    thread: Option<thread::JoinHandle<()>>,
    timeline: Arc<Timeline>,
}

impl Keeper {
    /// Starts the thread.
    pub(crate) fn spawn(core: &Ticket<Core>, period: Duration) -> io::Result<Self> {
        let bell = Arc::new(Bell::default());
        core.attach(Arc::clone(&bell));
        let timeline = Arc::clone(&core.timeline);
        let (theirs, core) = (Arc::clone(&bell), core.clone());
        let name = thread::Builder::new().name("piton-pinned".into());
        let thread = name.spawn(move || {
            while theirs.wait(period) && !core.is_closed() {
                if core.tend().is_err() {
                    core.events.tend_failure();
                }
            }
        })?;
        Ok(Self {
            bell,
            timeline,
            thread: Some(thread),
        })
    }

    /// Ends the thread, and waits until it has ended.
    pub fn stop(mut self) {
        self.bell.set(Next::End);
        // Nothing in the thread panics.
        drop(self.thread.take().map(thread::JoinHandle::join));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // In a fork there is no thread; its lock may be held for ever.
        if self.thread.is_some() && !self.timeline.is_forked() {
            self.bell.set(Next::End);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Whoever rings is heard, and an end is an end, whatever the keeper is at.

    use super::*;
    use piton_sync::model;

    /// No deadline is as far: the keeper waits for a ring.
    const NEVER: Duration = Duration::MAX;

    #[test]
    fn a_ring_is_heard_whenever_it_comes() {
        model(|| {
            let bell = Arc::new(Bell::default());
            let theirs = Arc::clone(&bell);
            let caller = thread::spawn(move || theirs.ring());
            // The model ends in a deadlock if the ring is missed.
            assert!(bell.wait(NEVER));
            caller.join().unwrap();
        });
    }

    #[test]
    fn an_end_is_not_undone_by_a_ring_that_comes_late() {
        model(|| {
            let bell = Arc::new(Bell::default());
            let theirs = Arc::clone(&bell);
            let caller = thread::spawn(move || theirs.ring());
            bell.set(Next::End);
            caller.join().unwrap();
            assert!(!bell.wait(NEVER));
        });
    }
}
