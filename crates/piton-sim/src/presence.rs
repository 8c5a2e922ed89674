//! Whether anybody outside can still ask the machine for something.
//!
//! Queues hold the machine they run on, and the machine, its engine and its counters hold queues that are ready or wait.
//! Work that will end lets go by itself. What will not is let go of when the last handle outside is gone, since then
//! nobody can submit, signal or drive any more: queues that wait for a value in memory fail once nothing runs that could
//! write it; in virtual time, where only waiting runs anything, what has not ended is dropped.

use crate::machine::{DeviceCore, Machine};
use piton_sync::atomic::Ordering;
use std::{mem::ManuallyDrop, sync::Arc};

/// One handle outside: of the driver, a device, a queue, a semaphore.
#[derive(Debug)]
pub(crate) struct Presence(Arc<Machine>);

impl Presence {
    pub(crate) fn new(machine: &Arc<Machine>) -> Self {
        machine.handles.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(machine))
    }
}

impl Clone for Presence {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.0.fork.is_fork() {
            leave(&self.0);
            return;
        }
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.abandon();
        }
    }
}

/// In a fork: makes sure that what a handle holds is never dropped. Locks in it may be held by threads that are not
/// there, and what they were in the middle of is as they left it.
pub(crate) fn leave<T>(held: &Arc<T>) {
    let _never_dropped = ManuallyDrop::new(Arc::clone(held));
}

impl Machine {
    fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
        if self.engine.is_virtual() {
            self.drop_rest();
        } else {
            self.settle_if_abandoned();
        }
    }

    /// Drops what is under way in virtual time. Queues wait for each other and for their turns, so lists of them, and what is in
    /// their rings, may hold them in a circle.
    fn drop_rest(&self) {
        let queues: Vec<_> = self.live_queues().collect();
        drop(self.engine.take_ready());
        drop(self.memory_waits.take_all());
        for resource in self.devices.iter().flat_map(DeviceCore::resources) {
            drop(resource.take_waiting());
        }
        for queue in &queues {
            // SAFETY: a queue is run by whoever waits, and that takes a handle; no handle is left, and none can be had any more.
            #[expect(unsafe_code, reason = "gives up queues that nobody runs")]
            unsafe {
                queue.drop_rest();
            }
        }
    }

    /// Fails waits for values in memory that nothing will write any more. Called when a queue has stopped running.
    pub(crate) fn settle_if_abandoned(&self) {
        if !self.is_abandoned.load(Ordering::Acquire) {
            return;
        }
        let runs = |queue: &crate::queue::QueueCore| !queue.stall.is_on() && !queue.is_drained();
        if self.live_queues().any(|queue| runs(&queue)) {
            return;
        }
        self.memory_waits.fail_all();
    }
}
