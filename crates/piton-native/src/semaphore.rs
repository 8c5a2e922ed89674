//! Semaphores: numbers of the host's. Queues that wait for one hold their commands until it is raised.
//!
//! The number of one that other processes have too is in a page that they share (`SharedNumber`); a thread of its own hears of
//! their raises.

#![expect(unsafe_code, reason = "implements the contract")]

use crate::{
    Driven,
    backend::NativeDevice,
    queue::{Core, Fired, advance},
};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, Semaphore, SignalledBy};
use piton_sync::{
    Listening, Mutex, SharedNumber,
    atomic::{AtomicU64, Ordering},
};
use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

/// What queues hold of a semaphore.
#[derive(Debug)]
pub(crate) struct SemaphoreCore<D: NativeDevice> {
    driven: Arc<Driven<D>>,
    device: DeviceId,
    signalled_by: SignalledBy,
    /// Stored under the lock with Release; loaded with Acquire, so that who reads it sees what came before the signal.
    value: AtomicU64,
    /// Takes the value's place where other processes have it too.
    pub(crate) shared: Option<Arc<SharedNumber>>,
    /// Has the queues that wait told of what other processes raise.
    listening: OnceLock<Listening>,
    /// Queues that wait, and what for.
    waiting: Mutex<Vec<(u64, Arc<Core<D>>)>>,
}

/// A handle.
#[derive(Debug)]
pub(crate) struct HostSemaphore<D: NativeDevice>(Arc<SemaphoreCore<D>>);

/// This backend's semaphore behind the contract's, if it is one.
pub(crate) fn core_of<D: NativeDevice>(
    semaphore: &dyn Semaphore,
) -> Option<&Arc<SemaphoreCore<D>>> {
    let own = (semaphore as &dyn Any).downcast_ref::<HostSemaphore<D>>();
    own.map(|own| &own.0)
}

impl<D: NativeDevice> SemaphoreCore<D> {
    pub(crate) fn is_of(&self, driven: &Arc<Driven<D>>) -> bool {
        Arc::ptr_eq(&self.driven, driven)
    }

    pub(crate) fn value(&self) -> u64 {
        let own = || self.value.load(Ordering::Acquire);
        self.shared
            .as_ref()
            .map_or_else(own, |shared| shared.value())
    }

    /// Lets `queue` go on when the value is reached. False if it is.
    pub(crate) fn watch(&self, value: u64, queue: &Arc<Core<D>>) -> bool {
        let mut waiting = self.waiting.lock();
        if self.value() >= value {
            return false;
        }
        waiting.push((value, Arc::clone(queue)));
        true
    }

    /// Raises the value. The queues that may go on now, for the caller to advance when it holds no lock.
    ///
    /// # Errors
    /// What it is, if that is as high already.
    pub(crate) fn raise(&self, value: u64) -> Result<Vec<Arc<Core<D>>>, u64> {
        let mut waiting = self.waiting.lock();
        let own = || self.value.load(Ordering::Acquire);
        let raise = |shared: &Arc<SharedNumber>| shared.raise(value);
        let before = self.shared.as_ref().map_or_else(own, raise);
        if value <= before {
            return Err(before);
        }
        if self.shared.is_none() {
            self.value.store(value, Ordering::Release);
        }
        Ok(due(&mut waiting, value))
    }

    /// Another process has raised the value so far: lets who waits for that go on.
    fn learn(&self, value: u64) {
        let due = due(&mut self.waiting.lock(), value);
        for queue in due {
            advance(queue, Fired::Yes);
        }
    }
}

/// Takes out who waits for no more than `value`.
fn due<D: NativeDevice>(waiting: &mut Vec<(u64, Arc<Core<D>>)>, value: u64) -> Vec<Arc<Core<D>>> {
    let due = waiting.extract_if(.., |(wanted, _)| *wanted <= value);
    due.map(|(_, queue)| queue).collect()
}

// SAFETY: the value is raised under the lock and never lowered; a queue raises it when everything before has ended, which
// it saw with Acquire before it stored with Release.
unsafe impl<D: NativeDevice> Semaphore for HostSemaphore<D> {
    fn value(&self) -> u64 {
        self.0.value()
    }

    fn signal(&self, value: u64) -> Result<(), DriverError> {
        let (core, operation) = (&self.0, Operation::SignalSemaphore);
        let error = |kind| DriverError::new(kind, operation, core.device);
        if core.signalled_by == SignalledBy::Queues {
            return Err(error(ErrorKind::NotForHost));
        }
        let woken = core.raise(value).map_err(|current| {
            let given = value;
            error(ErrorKind::NotMonotonic { current, given })
        })?;
        for queue in woken {
            advance(queue, Fired::Yes);
        }
        Ok(())
    }
}

/// The body of [`piton_driver::Semaphores::create`] on a device.
///
/// # Errors
/// [`DeviceLost`](ErrorKind::DeviceLost).
pub fn create_semaphore<D: NativeDevice>(
    device: &D,
    initial: u64,
    signalled_by: SignalledBy,
) -> Result<Arc<dyn Semaphore>, DriverError> {
    device.standing().alive(Operation::CreateSemaphore)?;
    let core = SemaphoreCore::new(device, initial, signalled_by, None);
    Ok(Arc::new(HostSemaphore(Arc::new(core))))
}

impl<D: NativeDevice> SemaphoreCore<D> {
    fn new(
        device: &D,
        initial: u64,
        signalled_by: SignalledBy,
        shared: Option<Arc<SharedNumber>>,
    ) -> Self {
        Self {
            driven: Arc::clone(device.driven()),
            device: device.info().id,
            signalled_by,
            value: AtomicU64::new(initial),
            shared,
            listening: OnceLock::new(),
            waiting: Mutex::default(),
        }
    }
}

/// A semaphore whose value is this number, which other processes raise too.
///
/// # Errors
/// The system's, as its number, where it has no thread left.
pub(crate) fn over<D: NativeDevice>(
    device: &D,
    number: SharedNumber,
) -> Result<Arc<dyn Semaphore>, i32> {
    let number = Arc::new(number);
    let shared = Some(Arc::clone(&number));
    let core = Arc::new(SemaphoreCore::new(device, 0, SignalledBy::Anyone, shared));
    // Nobody waits yet, and who comes looks at the number itself: so only what is raised from now on is of interest.
    let weak = Arc::downgrade(&core);
    let listening = number.listen(number.value(), move |value| {
        if let Some(core) = weak.upgrade() {
            core.learn(value);
        }
    })?;
    let _first = core.listening.set(listening);
    Ok(Arc::new(HostSemaphore(core)))
}
