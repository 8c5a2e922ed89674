//! Semaphores: numbers of the host's. Queues that wait for one hold their commands until it is raised.

#![expect(unsafe_code, reason = "implements the contract")]

use crate::{
    Driven,
    backend::NativeDevice,
    queue::{Core, Fired, advance},
};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, Semaphore, SignalledBy};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::{any::Any, sync::Arc};

/// What queues hold of a semaphore.
#[derive(Debug)]
pub(crate) struct SemaphoreCore<D: NativeDevice> {
    driven: Arc<Driven<D>>,
    device: DeviceId,
    signalled_by: SignalledBy,
    /// Stored under the lock with Release; loaded with Acquire, so that who reads it sees what came before the signal.
    value: AtomicU64,
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
        self.value.load(Ordering::Acquire)
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

    /// Raises the value, unless it is as high already. The queues that may go on now, for the caller to advance when it
    /// holds no lock.
    pub(crate) fn raise(&self, value: u64) -> Vec<Arc<Core<D>>> {
        let mut waiting = self.waiting.lock();
        if value <= self.value() {
            return Vec::new();
        }
        self.value.store(value, Ordering::Release);
        let due = waiting.extract_if(.., |(wanted, _)| *wanted <= value);
        due.map(|(_, queue)| queue).collect()
    }
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
        let current = core.value();
        let woken = core.raise(value);
        if value <= current {
            let given = value;
            return Err(error(ErrorKind::NotMonotonic { current, given }));
        }
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
    Ok(Arc::new(HostSemaphore(Arc::new(SemaphoreCore {
        driven: Arc::clone(device.driven()),
        device: device.info().id,
        signalled_by,
        value: AtomicU64::new(initial),
        waiting: Mutex::default(),
    }))))
}
