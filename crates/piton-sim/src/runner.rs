//! What a thread that runs queues has at hand from one slice to the next.
//!
//! # A woken queue stays with who woke it
//! Where a command ends that another queue waits for, its thread owns the front of both. It keeps the woken one, and
//! runs it next if its own queue has nothing to run then: two queues that wait for each other in turn stay on one core,
//! and with them every line they touch. It gives it to the ready list, for others to take, as soon as it goes on with
//! something else itself. Where anything is on the list already, the list and its bands say who is next.
//!
//! Not in virtual time, where the seed says who is next.

use crate::{engine::Engine, pace::Pace, queue::QueueCore};
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    /// A worker's. A host thread has somewhere to go, and does not wait for more.
    pace: Option<Pace>,
    /// Made ready by what this thread ran, and not on the list. Its front is this thread's.
    woken: Option<Arc<QueueCore>>,
}

impl Runner {
    /// A worker thread.
    pub(crate) fn worker() -> Self {
        Self {
            pace: Some(Pace::default()),
            woken: None,
        }
    }

    /// A host thread that helps.
    pub(crate) fn host() -> Self {
        Self::default()
    }

    /// The caller has ended a command, and owns the front of a queue that waited for it.
    #[inline]
    pub(crate) fn take_on(&mut self, woken: Option<Arc<QueueCore>>) {
        if let Some(queue) = woken {
            self.keep(queue);
        }
    }

    fn keep(&mut self, queue: Arc<QueueCore>) {
        let engine = queue.engine();
        if self.woken.is_some() || engine.is_virtual() || engine.has_pending() {
            engine.schedule(&queue);
        } else {
            self.woken = Some(queue);
        }
    }

    /// The queue to run next, if the thread has one and nothing else is ready.
    pub(crate) fn next(&mut self) -> Option<Arc<QueueCore>> {
        let queue = self.woken.take()?;
        if queue.engine().has_pending() {
            queue.engine().schedule(&queue);
            return None;
        }
        Some(queue)
    }

    /// The thread does something else now: whoever is free may run what it has kept.
    #[inline]
    pub(crate) fn hand_over(&mut self) {
        if let Some(queue) = self.woken.take() {
            queue.engine().schedule(&queue);
            queue.engine().share();
        }
    }

    /// Whether the thread may go on with a queue that has had its slice: nothing else waits for it, as far as it knows.
    pub(crate) fn is_free(&self, engine: &Engine) -> bool {
        self.pace.is_some() && self.woken.is_none() && !engine.has_pending()
    }

    /// Stays with a queue that has drained up to `next`, for a moment; says whether more has come.
    pub(crate) fn linger(&mut self, queue: &QueueCore, next: u64) -> bool {
        let Some(pace) = &mut self.pace else {
            return false;
        };
        if self.woken.is_some() {
            return false;
        }
        let found = || (queue.ring.submitted() + 1).saturating_sub(next);
        pace.wait(found, || queue.engine().has_pending())
    }
}
