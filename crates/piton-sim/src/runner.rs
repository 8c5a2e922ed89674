//! What a thread that runs queues has at hand from one slice to the next.
//!
//! # A woken queue stays with who woke it
//! Where a command ends that another queue waits for, its thread owns the front of both. It keeps the woken one, and
//! runs it next if its own queue has nothing to run then: two queues that wait for each other in turn stay on one core,
//! and with them every line they touch. It gives it to the ready list, for others to take, as soon as it goes on with
//! something else itself. Where anything is on the list already, the list and its bands say who is next.
//!
//! Not in virtual time, where the seed says who is next.
//!
//! # A host thread stops when it has what it waits for
//! It helps because it has nothing to do. Commands behind the one it waits for are others' to run: a program that
//! waits for the first part of a copy looks at it while the device copies the next, and would otherwise find all parts copied
//! by itself and nothing under way. In virtual time it goes on to the end of its slice, since nobody else runs anything.

use crate::{
    engine::Engine,
    pace::Pace,
    progress::Progress,
    queue::{QueueCore, Watcher},
};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    kind: Kind<'a>,
    /// Made ready by what this thread ran, and not on the list. Its front is this thread's.
    woken: Option<Arc<QueueCore>>,
}

/// What kind of thread it is.
#[derive(Debug)]
enum Kind<'a> {
    /// A worker.
    Worker(Pace),
    /// A host thread that helps. It has somewhere to go, and does not wait for more.
    Host(Awaited<'a>),
}

/// What a host thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited<'a> {
    pub(crate) progress: &'a Progress<Watcher>,
    pub(crate) number: u64,
}

impl Awaited<'_> {
    /// Whether it has come.
    #[inline]
    pub(crate) fn is_met(&self) -> bool {
        self.progress.reached() >= self.number
    }
}

impl<'a> Runner<'a> {
    /// A worker thread.
    pub(crate) fn worker() -> Self {
        Self {
            kind: Kind::Worker(Pace::default()),
            woken: None,
        }
    }

    /// A host thread that helps until it has what it waits for.
    pub(crate) fn host(awaited: Awaited<'a>) -> Self {
        Self {
            kind: Kind::Host(awaited),
            woken: None,
        }
    }

    /// Whether the thread has something better to do than the queue's next command.
    #[inline]
    pub(crate) fn is_called_away(&self, engine: &Engine) -> bool {
        match &self.kind {
            Kind::Worker(_) => false,
            Kind::Host(awaited) => awaited.is_met() && !engine.is_virtual(),
        }
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
        matches!(self.kind, Kind::Worker(_)) && self.woken.is_none() && !engine.has_pending()
    }

    /// Stays with a queue that has drained up to `next`, for a moment; says whether more has come.
    pub(crate) fn linger(&mut self, queue: &QueueCore, next: u64) -> bool {
        let Kind::Worker(pace) = &mut self.kind else {
            return false;
        };
        if self.woken.is_some() {
            return false;
        }
        let found = || (queue.ring.submitted() + 1).saturating_sub(next);
        pace.wait(found, || queue.engine().has_pending())
    }
}
