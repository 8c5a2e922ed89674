//! Semaphores: counters of their own, waited for like queues.

use crate::{device::SimDevice, progress::Progress, queue::Watcher};
use piton_driver::{
    DeviceId, DriverError, ErrorKind, Operation, Semaphore, Semaphores, SignalledBy,
};
use piton_sync::Mutex;
use std::{any::Any, sync::Arc};

/// A counter that hosts and queues raise.
#[derive(Debug)]
pub(crate) struct SimSemaphore {
    device: SimDevice,
    pub(crate) signalled_by: SignalledBy,
    pub(crate) progress: Progress<Watcher>,
    /// Value and the virtual time it was raised to that, in order of both. Also orders raises.
    raises: Mutex<Vec<(u64, u64)>>,
}

impl SimSemaphore {
    /// Raises the counter at virtual time `time`; leaves it alone if it is as high already.
    pub(crate) fn raise(&self, value: u64, time: u64) -> bool {
        let mut raises = self.raises.lock();
        if self.progress.reached() >= value {
            return false;
        }
        if self.device.machine().engine.is_virtual() {
            raises.push((value, time));
        }
        let woken = self.progress.advance(value);
        drop(raises);
        woken.into_iter().for_each(Watcher::wake);
        true
    }

    /// When the counter got to `value`, in virtual time.
    pub(crate) fn raised_at(&self, value: u64) -> u64 {
        let raises = self.raises.lock();
        let at = raises.partition_point(|(raised, _)| *raised < value);
        raises.get(at).map_or(0, |(_, time)| *time)
    }
}

#[expect(unsafe_code, reason = "implements the contract's semaphore")]
// SAFETY: the value is a `Progress`: it only grows, raised with Release and read with Acquire.
unsafe impl Semaphore for SimSemaphore {
    fn value(&self) -> u64 {
        self.progress.reached()
    }

    fn signal(&self, value: u64) -> Result<(), DriverError> {
        self.device.gate(Operation::SignalSemaphore)?;
        if self.signalled_by == SignalledBy::Queues {
            let kind = ErrorKind::NotForHost;
            return Err(self.device.error(kind, Operation::SignalSemaphore));
        }
        let now = self.device.machine().engine.host_now();
        if self.raise(value, now) {
            return Ok(());
        }
        let kind = ErrorKind::NotMonotonic {
            current: self.value(),
            given: value,
        };
        Err(self.device.error(kind, Operation::SignalSemaphore))
    }
}

impl SimDevice {
    pub(crate) fn own_semaphore(
        &self,
        semaphore: &Arc<dyn Semaphore>,
        operation: Operation,
    ) -> Result<Arc<SimSemaphore>, DriverError> {
        let semaphore: Arc<dyn Any + Send + Sync> = Arc::clone(semaphore) as _;
        let found = semaphore.downcast::<SimSemaphore>().ok();
        let given = found
            .as_ref()
            .map_or(DeviceId(u32::MAX), |found| found.device.id());
        found
            .filter(|found| found.device.is_beside(self))
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
        let progress = Progress::new(initial);
        Ok(Arc::new(SimSemaphore {
            device: self.clone(),
            signalled_by,
            progress,
            raises: Mutex::default(),
        }))
    }
}
