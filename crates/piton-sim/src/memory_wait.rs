//! Queues that wait for a value in device memory.
//!
//! # Protocol
//! A queue that stalls is among the `listeners` before it looks at its value once more, under the list's lock; who has
//! written memory asks afterwards whether there are any ([`Listeners`]). So either it finds the queue, or the queue finds
//! the value.
//!
//! Whatever may have written memory calls `written` when it has ended; all listeners are looked at then, since a kernel
//! may write anywhere.

use crate::{device::SimDevice, listeners::Listeners, queue::QueueCore, word};
use piton_driver::{ErrorKind, MemoryWait};
use piton_sync::Mutex;
use std::sync::Arc;

/// A queue that waits for a value.
#[derive(Debug)]
pub(crate) struct Listener {
    queue: Arc<QueueCore>,
    ticket: u64,
    wait: MemoryWait,
}

impl Listener {
    fn is_met(&self) -> bool {
        is_met(&self.queue.device, self.wait) != Ok(false)
    }
}

/// The queues of a machine that wait for values in memory. They are a parameter, so that the model below needs no machine.
#[derive(Debug)]
pub(crate) struct MemoryWaits<L = Listener> {
    listeners: Listeners,
    list: Mutex<Vec<L>>,
}

impl<L> Default for MemoryWaits<L> {
    fn default() -> Self {
        Self {
            listeners: Listeners::new(),
            list: Mutex::new(Vec::new()),
        }
    }
}

impl<L> MemoryWaits<L> {
    /// Leaves a listener, or hands it back if it has nothing to wait for.
    fn leave(&self, listener: L, is_met: impl Fn(&L) -> bool) -> Result<(), L> {
        let mut list = self.list.lock();
        self.listeners.join();
        if is_met(&listener) {
            self.listeners.leave(1);
            return Err(listener);
        }
        list.push(listener);
        Ok(())
    }

    /// Takes the listeners of which that is so.
    fn take(&self, is_so: impl Fn(&L) -> bool) -> Vec<L> {
        let mut list = self.list.lock();
        let taken: Vec<L> = list.extract_if(.., |listener| is_so(listener)).collect();
        self.listeners.leave(taken.len());
        taken
    }

    /// Everybody who waits, who is not set going by this.
    pub(crate) fn take_all(&self) -> Vec<L> {
        self.take(|_| true)
    }
}

impl MemoryWaits {
    /// Leaves a stalled queue to be set going when its value is there; `false` if it is.
    pub(crate) fn watch(&self, queue: &Arc<QueueCore>, ticket: u64, wait: MemoryWait) -> bool {
        let listener = Listener {
            queue: Arc::clone(queue),
            ticket,
            wait,
        };
        self.leave(listener, Listener::is_met).is_ok()
    }

    /// Memory may have been written.
    pub(crate) fn written(&self) {
        if self.listeners.are_there() {
            self.look();
        }
    }

    /// Nothing will write memory any more: whoever waits fails.
    pub(crate) fn fail_all(&self) {
        let all = self.take_all();
        let waiting = all.len() as u64;
        for listener in all {
            let kind = ErrorKind::Deadlock { waiting };
            listener.queue.doom(listener.ticket, kind);
            listener.queue.engine().share();
        }
    }

    /// Sets going whoever has nothing to wait for any more: its value is there, or its stall has ended otherwise.
    fn look(&self) {
        let is_over =
            |listener: &Listener| !listener.queue.stall.is(listener.ticket) || listener.is_met();
        for listener in self.take(is_over) {
            listener.queue.end_stall(listener.ticket);
        }
    }
}

/// Whether the value is there.
pub(crate) fn is_met(device: &SimDevice, wait: MemoryWait) -> Result<bool, ErrorKind> {
    let found = word::read(device, wait.at_range(), wait.value)?;
    Ok(wait.comparison.holds(found, wait.value))
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{
        atomic::{AtomicU64, Ordering},
        model, thread,
    };

    /// The word itself orders nothing: it may be a kernel's plain store.
    #[test]
    fn who_waits_for_a_word_finds_it_or_is_found() {
        model(|| {
            let shared = Arc::new((MemoryWaits::<()>::default(), AtomicU64::new(0)));
            let other = Arc::clone(&shared);
            let is_there = |word: &AtomicU64| word.load(Ordering::Relaxed) == 1;
            let waiter = thread::spawn(move || other.0.leave((), |()| is_there(&other.1)).is_err());
            let (waits, word) = &*shared;
            word.store(1, Ordering::Relaxed);
            let is_told =
                waits.listeners.are_there() && !waits.take(|()| is_there(word)).is_empty();
            let has_found = waiter.join().unwrap();
            assert!(has_found != is_told, "it waits for ever, or goes on twice");
        });
    }
}
