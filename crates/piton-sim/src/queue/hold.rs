//! A queue whose front belongs to a host thread, between two looks at whether it is idle.
//!
//! A queue that nobody owns becomes somebody's with its next command: that somebody is the engine's ready list, and a worker
//! takes it from there. A host thread that is about to submit one command and would run it itself takes the front *before*
//! it submits, so no worker is woken and none comes in between. It gives the front back as a thread does that has run a slice.

use super::QueueCore;
use crate::execute;
use piton_driver::{Position, QueueHold};
use std::sync::Arc;

/// The hold.
///
/// # Invariant
/// While `is_mine`, the front is this value's.
#[derive(Debug)]
pub(super) struct SimHold<'a> {
    queue: &'a Arc<QueueCore>,
    is_mine: bool,
}

impl<'a> SimHold<'a> {
    /// The hold of an idle queue. In virtual time there is none: who runs what is the seed's to say.
    pub(super) fn new(queue: &'a Arc<QueueCore>) -> Option<Self> {
        if queue.engine().is_virtual() || !queue.is_drained() || !queue.ring.ring() {
            return None;
        }
        // INVARIANT: nobody owned the front.
        let hold = Self {
            queue,
            is_mine: true,
        };
        // Somebody may have submitted since: dropped, the hold starts that.
        queue.is_drained().then_some(hold)
    }
}

impl QueueHold for SimHold<'_> {
    fn help(mut self: Box<Self>, position: Position) {
        self.is_mine = false;
        self.queue.engine().carry_out(self.queue, position.get());
    }
}

impl Drop for SimHold<'_> {
    fn drop(&mut self) {
        if self.is_mine && !self.queue.device.machine().fork.is_fork() {
            execute::let_go(self.queue);
        }
    }
}
