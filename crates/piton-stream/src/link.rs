//! A lane's way to its queue: what the queue last said, and the queue itself until the lane has drained.
//!
//! # The idea
//! The timeline, events and streams that wait all reach a lane's queue through its link, for as long as the
//! queue has anything left to say. When the stream is gone and everything it submitted has ended, the link
//! lets the queue go, so that an event kept for years holds a few numbers and not a queue of the device.
//!
//! # Protocol
//! | word | written | order |
//! |---|---|---|
//! | `completed` | under the lock, after `failed` | Release; a reader that sees it sees the failure it covers |
//! | `failed` | under the lock, and only lowered: the first failure ever | Release |
//! | `failure`, `forgotten` | under the lock | the lock; looked at only where `failed` says that there is something |
//! | `submitted` | under the lock, with `completed` and no less | Release |
//! | `queue` | taken away once, under the lock, when `completed` has reached everything submitted and nobody visits it (`visited`) | the lock, or the visit |
//!
//! **Whoever finds the queue gone finds everything complete**: the last numbers were stored under the same lock
//! before. The queue's counter is read before its failure is asked for; the other way round a command that
//! fails in between would be reported as done.
//!
//! What is known to be complete is one load. Who must ask the queue takes the lock, since the queue goes away one day; but
//! of those who wait for it one at a time is its visitor, and takes none.

#![expect(
    unsafe_code,
    reason = "the queue is looked at under the lock it is taken under"
)]

use crate::visited::{Visit, Visited};
use piton_driver::{ClearedFailures, DriverError, Position, Queue, QueueFailure};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use piton_timeline::Progress;
use std::{fmt, sync::Arc};

/// Nothing has failed while the word holds this.
const NOT_FAILED: u64 = u64::MAX;

#[derive(Default)]
struct Told {
    /// The first failure that was not forgotten, once it was seen.
    failure: Option<QueueFailure>,
    forgotten: ClearedFailures,
}

/// What is under the link's lock.
#[derive(Default)]
struct Served {
    /// Made when something has failed.
    told: Option<Box<Told>>,
}

impl Served {
    /// The failure that spoils a position.
    fn spoilt_by(&self, position: Position) -> Option<QueueFailure> {
        let told = self.told.as_ref()?;
        let past = told.forgotten.spoiling(position).copied();
        past.or_else(|| told.failure.filter(|failure| failure.position <= position))
    }

    /// The first failure that was not forgotten.
    fn failure(&self) -> Option<QueueFailure> {
        self.told.as_ref()?.failure
    }
}

/// See the module.
pub(crate) struct Link {
    /// The queue, until the lane has drained.
    queue: Visited<Arc<dyn Queue>>,
    served: Mutex<Served>,
    completed: AtomicU64,
    failed: AtomicU64,
    submitted: AtomicU64,
}

/// What whoever would wait for a position finds.
pub(crate) enum Reach {
    /// It has ended, and nothing up to it failed.
    Ended,
    /// It has not, or something failed and the queue is there to spread it.
    Wait(Arc<dyn Queue>),
    /// Everything has ended, and the queue is gone.
    Gone,
}

/// Why a failure was not forgotten.
pub(crate) enum Trouble {
    /// So much was submitted, and so much has ended.
    Pending(Position, Position),
    Driver(DriverError),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("completed", &self.completed.load(Ordering::Acquire))
            .field("failed", &self.failed_at())
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(queue: Arc<dyn Queue>) -> Self {
        Self {
            queue: Visited::new(queue),
            served: Mutex::new(Served::default()),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(NOT_FAILED),
            submitted: AtomicU64::new(0),
        }
    }

    /// Whether the position is known to have ended. One load.
    #[inline]
    pub(crate) fn has_completed(&self, position: Position) -> bool {
        self.completed.load(Ordering::Acquire) >= position.get()
    }

    /// Whether the position is known to have ended, and nothing up to it ever failed. Two loads, in this order: see the
    /// protocol.
    #[inline]
    pub(crate) fn has_ended_well(&self, position: Position) -> bool {
        self.has_completed(position) && self.failed.load(Ordering::Acquire) > position.get()
    }

    /// The queue, if the position has not ended there, as its visitor: no lock. `None` says nothing, and
    /// [`reach`](Self::reach) is to be asked.
    #[inline]
    pub(crate) fn visit(&self, position: Position) -> Option<Visit<'_, Arc<dyn Queue>>> {
        let queue = self.queue.visit()?;
        (queue.completed() < position).then_some(queue)
    }

    /// What there is to wait for, asking the queue. Does not block.
    pub(crate) fn reach(&self, position: Position) -> Reach {
        let mut served = self.served.lock();
        self.absorb(&mut served);
        if self.has_completed(position) && served.spoilt_by(position).is_none() {
            return Reach::Ended;
        }
        match self.queue_of(&served) {
            Some(queue) => Reach::Wait(Arc::clone(queue)),
            None => Reach::Gone,
        }
    }

    /// The queue, or `None` once everything is complete and the stream gone.
    pub(crate) fn queue(&self) -> Option<Arc<dyn Queue>> {
        self.queue_of(&self.served.lock()).cloned()
    }

    /// Asks the queue how far it is. Does not block.
    pub(crate) fn refresh(&self) -> Position {
        self.absorb(&mut self.served.lock());
        Position::new(self.completed.load(Ordering::Acquire))
    }

    /// How much was submitted in all.
    pub(crate) fn submitted(&self) -> Position {
        match self.queue_of(&self.served.lock()) {
            Some(queue) => queue.submitted(),
            None => Position::new(self.completed.load(Ordering::Acquire)),
        }
    }

    /// The failure that spoils a position seen complete, forgotten since or not. One load while nothing up to it has
    /// ever failed.
    pub(crate) fn failure_at(&self, position: Position) -> Option<QueueFailure> {
        if self.failed_at().is_none_or(|failed| failed > position) {
            return None;
        }
        self.served.lock().spoilt_by(position)
    }

    /// Forgets the failure, which spoils nothing past what was submitted, and returns it. The caller keeps others
    /// from submitting. Does not block.
    pub(crate) fn forget_failure(&self) -> Result<Option<QueueFailure>, Trouble> {
        let mut served = self.served.lock();
        let Some(queue) = self.queue_of(&served).cloned() else {
            return Ok(None);
        };
        let (submitted, completed) = (queue.submitted(), queue.completed());
        if completed < submitted {
            return Err(Trouble::Pending(submitted, completed));
        }
        // All has ended, so a failure that there is is seen now.
        self.absorb(&mut served);
        self.absorb_failure(&mut served);
        queue.clear_failure().map_err(Trouble::Driver)?;
        let forgotten = served.told.as_mut().and_then(|told| {
            let failure = told.failure.take()?;
            told.forgotten.add(failure, submitted);
            Some(failure)
        });
        drop(served);
        Ok(forgotten)
    }

    /// The first failure as the queue tells it, now; not one that was forgotten.
    pub(crate) fn failure(&self) -> Option<QueueFailure> {
        let mut served = self.served.lock();
        self.absorb(&mut served);
        self.absorb_failure(&mut served);
        served.failure()
    }

    /// The places of the failures that positions still answer with.
    pub(crate) fn failures(&self) -> Vec<Position> {
        let served = self.served.lock();
        let told = served.told.iter();
        let all = told.flat_map(|told| told.forgotten.failures().chain(&told.failure));
        all.map(|failure| failure.position).collect()
    }

    /// Where the first failure ever stands, as far as it is known: for every position that was seen complete.
    pub(crate) fn failed_at(&self) -> Option<Position> {
        let failed = self.failed.load(Ordering::Acquire);
        (failed != NOT_FAILED).then_some(Position::new(failed))
    }

    /// Whether the queue is still held.
    pub(crate) fn is_open(&self) -> bool {
        self.queue_of(&self.served.lock()).is_some()
    }

    /// Lets the queue go if everything has ended and nobody visits it; for lanes whose stream is gone, so that nothing
    /// more comes. The queue is handed out to be dropped under no lock.
    pub(crate) fn close_if_drained(&self) -> Option<Arc<dyn Queue>> {
        let mut served = self.served.lock();
        self.absorb(&mut served);
        let submitted = self.queue_of(&served)?.submitted().get();
        if self.completed.load(Ordering::Acquire) < submitted {
            return None;
        }
        // SAFETY: the lock is held, and what was borrowed under it is not used any more.
        unsafe { self.queue.take() }
    }

    /// The queue, for whoever has the lock.
    fn queue_of<'a>(&'a self, _held: &'a Served) -> Option<&'a Arc<dyn Queue>> {
        // SAFETY: what is under the lock is borrowed for as long.
        unsafe { self.queue.get() }
    }

    /// Stores what the queue says. The counter comes first: see the module.
    fn absorb(&self, served: &mut Served) {
        let Some(queue) = self.queue_of(served) else {
            return;
        };
        let completed = queue.completed().get();
        if completed > self.completed.load(Ordering::Relaxed) {
            let submitted = queue.submitted().get();
            self.absorb_failure(served);
            self.submitted.store(submitted, Ordering::Release);
            self.completed.store(completed, Ordering::Release);
        }
    }

    fn absorb_failure(&self, served: &mut Served) {
        if served.failure().is_none()
            && let Some(failure) = self.queue_of(served).and_then(|queue| queue.failure())
        {
            served.told.get_or_insert_default().failure = Some(failure);
            // The first ever: what was forgotten is looked up behind it.
            self.failed
                .fetch_min(failure.position.get(), Ordering::Release);
        }
    }
}

impl Progress for Link {
    fn completed(&self) -> u64 {
        self.refresh().get()
    }

    fn failed(&self) -> Option<u64> {
        self.failed_at().map(Position::get)
    }

    fn submitted(&self) -> Option<u64> {
        Some(self.submitted.load(Ordering::Acquire))
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! The queue let go against a late wait, and a failure against the count that covers it.

    use super::*;
    use crate::model_queue::ModelQueue;
    use piton_sync::{model, thread};

    #[test]
    fn whoever_finds_the_queue_gone_finds_everything_complete() {
        model(|| {
            let queue = ModelQueue::new(1);
            let link = Arc::new(Link::new(queue.clone()));
            let device = thread::spawn(move || queue.end(1, true));
            let pruner = {
                let link = Arc::clone(&link);
                thread::spawn(move || drop(link.close_if_drained()))
            };
            if link.queue().is_none() {
                assert_eq!(link.refresh(), Position::new(1));
                assert_eq!(link.failed_at(), Some(Position::new(1)));
                assert!(link.failure().is_some());
            }
            device.join().unwrap();
            pruner.join().unwrap();
        });
    }

    #[test]
    fn a_failure_is_known_as_soon_as_it_is_counted() {
        model(|| {
            let queue = ModelQueue::new(1);
            let link = Arc::new(Link::new(queue.clone()));
            let device = thread::spawn(move || queue.end(1, true));
            let other = {
                let link = Arc::clone(&link);
                thread::spawn(move || link.refresh())
            };
            if Progress::completed(&*link) == 1 {
                assert_eq!(Progress::failed(&*link), Some(1));
            }
            device.join().unwrap();
            other.join().unwrap();
        });
    }
}
