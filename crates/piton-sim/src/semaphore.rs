//! Semaphores: counters of their own, waited for like queues.
//!
//! The program's handle and the counter are two things: commands hold the counter, so that it is known when nobody is
//! left to raise it from outside.
//!
//! One that other processes have too has its number in a page that they share (`SharedNumber`) and here: the one in the page is
//! raised first, and a thread of its own brings what others have raised.

use crate::{
    deadlock,
    device::SimDevice,
    moments::Moments,
    presence::{self, Presence},
    progress::Progress,
    queue::{QueueCore, Watcher},
    urgency,
};
use piton_driver::{
    DeviceId, DriverError, ErrorKind, Operation, Semaphore, SemaphoreId, Semaphores, SignalledBy,
};
use piton_sync::{
    Listening, Mutex, MutexGuard, SharedNumber,
    atomic::{AtomicBool, Ordering},
};
use std::{
    any::Any,
    sync::{Arc, OnceLock, Weak},
};

/// A signal that was submitted and has not ended.
#[derive(Debug)]
struct Signal {
    queue: Weak<QueueCore>,
    position: u64,
    value: u64,
}

/// A counter that hosts and queues raise.
#[derive(Debug)]
pub(crate) struct SemaphoreCore {
    /// Its name in traces.
    pub(crate) id: SemaphoreId,
    device: SimDevice,
    signalled_by: SignalledBy,
    /// Nobody has a handle any more.
    is_closed: AtomicBool,
    pub(crate) progress: Progress<Watcher>,
    /// When it was raised, in virtual time alone. Also orders raises.
    raises: Mutex<Moments>,
    signals: Mutex<Vec<Signal>>,
    /// The number that other processes have too.
    pub(crate) shared: Option<Arc<SharedNumber>>,
    listening: OnceLock<Listening>,
}

impl SemaphoreCore {
    /// Raises the counter at virtual time `time`; leaves it alone if it is as high already.
    pub(crate) fn raise(&self, value: u64, time: u64) -> bool {
        let raises = self.raises.lock();
        let before = match &self.shared {
            Some(shared) => shared.raise(value),
            None => self.progress.reached(),
        };
        let is_raised = before < value;
        if is_raised {
            self.advance(raises, value, time);
        }
        is_raised
    }

    /// The number in the page is this now: another process may have raised it.
    fn learn(&self, value: u64) {
        let raises = self.raises.lock();
        if self.progress.reached() < value {
            let engine = &self.device.machine().engine;
            self.advance(raises, value, engine.host_now());
            engine.share();
        }
    }

    /// The counter is raised to `value`, which is above it, by whoever holds the lock.
    fn advance(&self, mut raises: MutexGuard<'_, Moments>, value: u64, time: u64) {
        if self.device.machine().engine.is_virtual() {
            raises.note(value, time);
        }
        let due = self.progress.advance(value);
        drop(raises);
        if let Some(due) = due {
            due.watchers.into_iter().for_each(Watcher::wake);
        }
    }

    /// When the counter got to `value`, in virtual time.
    pub(crate) fn raised_at(&self, value: u64) -> u64 {
        self.raises.lock().of(value).unwrap_or(0)
    }

    /// A signal is about to be published. Whoever waits for it lends its urgency; and it may be what closes a circle of
    /// waits, if the queue that will give it is in one.
    ///
    /// A queue that stalls looks at signals when its stall is in place, and here a stall is looked at when the signal is:
    /// of the two that close a circle at once, one sees the other.
    pub(crate) fn promise(&self, queue: &Arc<QueueCore>, position: u64, value: u64) {
        self.signals.lock().push(Signal {
            queue: Arc::downgrade(queue),
            position,
            value,
        });
        if !queue.device.machine().is_watched() {
            return;
        }
        let waiting = self.waiting(value);
        if let Some(band) = waiting.iter().map(|queue| queue.band()).min() {
            urgency::lend(band, queue, position);
        }
        if queue.stall.is_on() {
            deadlock::check(queue);
        }
    }

    /// The queue whose signal is the nearest that raises the counter to `value`, and where that stands.
    pub(crate) fn nearest_signal(&self, value: u64) -> Option<(Arc<QueueCore>, u64)> {
        let signals = self.signals.lock();
        let enough = signals.iter().filter(|signal| signal.value >= value);
        let nearest = enough.min_by_key(|signal| signal.value)?;
        Some((nearest.queue.upgrade()?, nearest.position))
    }

    /// A signal has ended: given, if `was_given`, or skipped.
    pub(crate) fn settle(&self, queue: &QueueCore, position: u64, was_given: bool) {
        let is_it = |signal: &Signal| {
            signal.position == position && std::ptr::eq(signal.queue.as_ptr(), queue)
        };
        let mut signals = self.signals.lock();
        let settled: Vec<Signal> = signals.extract_if(.., |signal| is_it(signal)).collect();
        drop(signals);
        drop(settled);
        if !was_given {
            self.check_waiting();
        }
    }

    /// Whether something outside may raise the counter: another process, or the host, if somebody has a handle and it is not for
    /// queues alone.
    pub(crate) fn is_for_host(&self) -> bool {
        let is_open = || !self.is_closed.load(Ordering::Acquire);
        self.shared.is_some() || (self.signalled_by == SignalledBy::Anyone && is_open())
    }

    /// The queues that may raise the counter to `value`; `None` if others may, or if it is there.
    pub(crate) fn helpers(&self, value: u64) -> Option<Vec<Arc<QueueCore>>> {
        let signals = self.signals.lock();
        let enough = signals.iter().filter(|signal| signal.value >= value);
        let helpers: Vec<_> = enough.filter_map(|signal| signal.queue.upgrade()).collect();
        drop(signals);
        let is_open = !self.is_closed.load(Ordering::Acquire);
        let is_for_host = self.is_for_host();
        let may_be_submitted = is_open && helpers.is_empty();
        // Looked at last: a signal that has gone from the list has been given before.
        let is_there = self.progress.reached() >= value;
        (!is_for_host && !may_be_submitted && !is_there).then_some(helpers)
    }

    /// Something that could have raised the counter is gone.
    fn check_waiting(&self) {
        for queue in self.waiting(u64::MAX) {
            deadlock::check(&queue);
        }
    }

    /// The queues that wait for `value` or less.
    fn waiting(&self, value: u64) -> Vec<Arc<QueueCore>> {
        self.progress.pick(|awaited, watcher| match watcher {
            Watcher::Queue(queue, _) if awaited <= value => Some(Arc::clone(queue)),
            Watcher::Queue(..) | Watcher::Waker(_) => None,
        })
    }
}

/// The program's handle.
#[derive(Debug)]
pub(crate) struct SimSemaphore {
    core: Arc<SemaphoreCore>,
    _presence: Presence,
}

impl Drop for SimSemaphore {
    fn drop(&mut self) {
        if self.core.device.machine().fork.is_fork() {
            presence::leave(&self.core);
            return;
        }
        self.core.is_closed.store(true, Ordering::Release);
        self.core.check_waiting();
        self.core.device.machine().engine.share();
    }
}

#[expect(unsafe_code, reason = "implements the contract's semaphore")]
// SAFETY: the value is a `Progress`: it only grows, raised with Release and read with Acquire.
unsafe impl Semaphore for SimSemaphore {
    fn value(&self) -> u64 {
        match &self.core.shared {
            // A fork takes no lock.
            Some(shared) if !self.core.device.machine().fork.is_fork() => {
                self.core.learn(shared.value());
            }
            _ => {}
        }
        self.core.progress.reached()
    }

    fn signal(&self, value: u64) -> Result<(), DriverError> {
        let (core, operation) = (&self.core, Operation::SignalSemaphore);
        core.device.gate(operation)?;
        let error = |kind| Err(core.device.error(kind, operation));
        if core.signalled_by == SignalledBy::Queues {
            return error(ErrorKind::NotForHost);
        }
        let now = core.device.machine().engine.host_now();
        if core.raise(value, now) {
            core.device.machine().engine.share();
            return Ok(());
        }
        error(ErrorKind::NotMonotonic {
            current: self.value(),
            given: value,
        })
    }
}

impl SimDevice {
    /// The simulated semaphore behind `semaphore`, if it is one of this machine's.
    pub(crate) fn own_semaphore(
        &self,
        semaphore: &dyn Semaphore,
        operation: Operation,
    ) -> Result<Arc<SemaphoreCore>, DriverError> {
        let semaphore: &dyn Any = semaphore;
        let found = semaphore.downcast_ref::<SimSemaphore>();
        let given = found.map_or(DeviceId(u32::MAX), |found| found.core.device.id());
        found
            .filter(|found| found.core.device.is_beside(self))
            .map(|found| Arc::clone(&found.core))
            .ok_or_else(|| self.error(ErrorKind::ForeignObject { given }, operation))
    }
}

impl Semaphores for SimDevice {
    fn create(
        &self,
        initial: u64,
        signalled_by: SignalledBy,
    ) -> Result<Arc<dyn Semaphore>, DriverError> {
        self.gate(Operation::CreateSemaphore)?;
        let core = self.semaphore(initial, signalled_by, None);
        Ok(self.handle_of(core))
    }
}

impl SimDevice {
    fn semaphore(
        &self,
        initial: u64,
        signalled_by: SignalledBy,
        shared: Option<Arc<SharedNumber>>,
    ) -> Arc<SemaphoreCore> {
        Arc::new(SemaphoreCore {
            id: SemaphoreId(self.machine().next_semaphore_id()),
            device: self.inside(),
            signalled_by,
            is_closed: AtomicBool::new(false),
            progress: Progress::new(initial),
            raises: Mutex::default(),
            signals: Mutex::default(),
            shared,
            listening: OnceLock::new(),
        })
    }

    fn handle_of(&self, core: Arc<SemaphoreCore>) -> Arc<dyn Semaphore> {
        let _presence = self.presence();
        Arc::new(SimSemaphore { core, _presence })
    }

    /// A semaphore of this number, which other processes raise too.
    ///
    /// # Errors
    /// The system's, as its number, where it has no thread left.
    pub(crate) fn semaphore_over(&self, number: SharedNumber) -> Result<Arc<dyn Semaphore>, i32> {
        let now = number.value();
        let number = Arc::new(number);
        let core = self.semaphore(now, SignalledBy::Anyone, Some(Arc::clone(&number)));
        let weak = Arc::downgrade(&core);
        let listening = number.listen(now, move |value| {
            if let Some(core) = weak.upgrade() {
                core.learn(value);
            }
        })?;
        let _first = core.listening.set(listening);
        Ok(self.handle_of(core))
    }
}
