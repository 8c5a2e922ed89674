//! Urgency that is handed on: who holds an urgent queue up is as urgent, until it has got there.
//!
//! # The idea
//! A queue that stalls lends its band to whoever can end its wait: the queue that it waits for; of those whose
//! signals would do, the one with the lowest value, which is the nearest where values come in order. And so on along the
//! chain. A signal that is submitted while urgent queues wait for it borrows theirs then.
//!
//! All of it is a hint. A loan lost to a race makes its queue wait as long as it would without.

use crate::{deadlock::Awaits, queue::QueueCore};
use std::sync::Arc;

/// How far it is handed on along a chain of waiting queues.
const LONGEST_CHAIN: u32 = 64;

/// A queue and the position it is to get to.
type Goal = (Arc<QueueCore>, u64);

/// A queue of `band` waits for this.
pub(crate) fn hand_on(band: usize, awaits: Awaits) {
    if let Some((queue, position)) = goal(awaits) {
        lend(band, &queue, position);
    }
}

/// The queue is as urgent as `band` until it has ended the position, and so is whoever it waits for itself.
pub(crate) fn lend(band: usize, queue: &Arc<QueueCore>, position: u64) {
    let mut next = lend_to(band, queue, position);
    for _ in 1..LONGEST_CHAIN {
        let Some((queue, position)) = next else {
            return;
        };
        next = lend_to(band, &queue, position);
    }
}

/// Says whom the queue waits for, if it is more urgent now than it was.
fn lend_to(band: usize, queue: &Arc<QueueCore>, position: u64) -> Option<Goal> {
    if !queue.lift_to(band, position) {
        return None;
    }
    queue.promote(band);
    queue.stall.get().and_then(|(_, awaits)| goal(awaits))
}

impl QueueCore {
    /// Puts it before less urgent ones in whatever list it stands: of ready queues, or of queues that wait for a hardware
    /// queue or a copy engine.
    fn promote(self: &Arc<Self>, band: usize) {
        self.engine().promote(self, band);
        let device = self.device.core();
        let hardware = device.hardware.get(self.hardware as usize);
        for resource in hardware.into_iter().chain(device.copy_engines()) {
            resource.promote(band, |other| Arc::ptr_eq(other, self));
        }
    }
}

/// What would end this wait.
fn goal(awaits: Awaits) -> Option<Goal> {
    match awaits {
        Awaits::Queue(queue, position) => Some((queue, position)),
        Awaits::Semaphore(semaphore, value) => semaphore.nearest_signal(value),
        Awaits::Memory(_) | Awaits::Never => None,
    }
}
