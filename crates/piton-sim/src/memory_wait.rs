//! Queues that wait for a value in device memory.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `listeners` | [`watch`](MemoryWaits::watch) adds before it looks at the value again; [`written`](MemoryWaits::written) reads it by RMW after memory was written | AcqRel RMW on both sides |
//! | `list` | both, under its lock | |
//!
//! As for counters (`progress`): of the two RMWs one comes first, so either the writer sees the listener, or the
//! listener sees what was written.
//!
//! Whatever may have written memory calls `written` when it has ended; all listeners are looked at then, since a kernel
//! may write anywhere.

use crate::{device::SimDevice, queue::QueueCore, word};
use piton_driver::{ErrorKind, MemoryWait};
use piton_sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::sync::Arc;

#[derive(Debug)]
struct Listener {
    queue: Arc<QueueCore>,
    ticket: u64,
    wait: MemoryWait,
}

/// The queues of a machine that wait for values in memory.
#[derive(Debug)]
pub(crate) struct MemoryWaits {
    listeners: AtomicUsize,
    list: Mutex<Vec<Listener>>,
}

impl Default for MemoryWaits {
    fn default() -> Self {
        Self {
            listeners: AtomicUsize::new(0),
            list: Mutex::new(Vec::new()),
        }
    }
}

impl MemoryWaits {
    /// Leaves a stalled queue to be set going when its value is there; `false` if it is.
    pub(crate) fn watch(&self, queue: &Arc<QueueCore>, ticket: u64, wait: MemoryWait) -> bool {
        let mut list = self.list.lock();
        self.listeners.fetch_add(1, Ordering::AcqRel);
        if is_met(&queue.device, wait) != Ok(false) {
            self.listeners.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        list.push(Listener {
            queue: Arc::clone(queue),
            ticket,
            wait,
        });
        true
    }

    /// Memory may have been written.
    pub(crate) fn written(&self) {
        if self.listeners.fetch_add(0, Ordering::AcqRel) > 0 {
            self.look();
        }
    }

    /// Everybody who waits, who is not set going by this.
    pub(crate) fn take_all(&self) -> Vec<impl Sized> {
        let mut list = self.list.lock();
        self.listeners.fetch_sub(list.len(), Ordering::AcqRel);
        std::mem::take(&mut *list)
    }

    /// Nothing will write memory any more: whoever waits fails.
    pub(crate) fn fail_all(&self) {
        let mut list = self.list.lock();
        self.listeners.fetch_sub(list.len(), Ordering::AcqRel);
        let all = std::mem::take(&mut *list);
        drop(list);
        let waiting = all.len() as u64;
        for listener in all {
            let kind = ErrorKind::Deadlock { waiting };
            listener.queue.doom(listener.ticket, kind);
            listener.queue.engine().share();
        }
    }

    /// Sets going whoever has nothing to wait for any more: its value is there, or its stall has ended otherwise.
    pub(crate) fn look(&self) {
        let mut list = self.list.lock();
        let is_over = |listener: &mut Listener| {
            !listener.queue.is_in_stall(listener.ticket)
                || is_met(&listener.queue.device, listener.wait) != Ok(false)
        };
        let over: Vec<Listener> = list.extract_if(.., is_over).collect();
        self.listeners.fetch_sub(over.len(), Ordering::AcqRel);
        drop(list);
        for listener in over {
            listener.queue.end_stall(listener.ticket);
        }
    }
}

/// Whether the value is there.
pub(crate) fn is_met(device: &SimDevice, wait: MemoryWait) -> Result<bool, ErrorKind> {
    let found = word::read(device, wait.at_range(), wait.value)?;
    Ok(wait.comparison.holds(found, wait.value))
}
