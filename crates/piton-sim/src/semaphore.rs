//! Semaphores: counters of their own, waited for like queues.

use crate::{command::Command, device::SimDevice, progress::Progress, queue::Watcher};
use piton_driver::{
    Admission, DeviceId, DriverError, ErrorKind, Operation, Queue, Semaphore, Semaphores,
};
use piton_sync::Mutex;
use std::{any::Any, sync::Arc};

/// A counter that hosts and queues raise.
#[derive(Debug)]
pub(crate) struct SimSemaphore {
    device: SimDevice,
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
    fn own_semaphore(
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
    fn create(&self, initial: u64) -> Result<Arc<dyn Semaphore>, DriverError> {
        self.gate(Operation::CreateSemaphore)?;
        let progress = Progress::new(initial);
        Ok(Arc::new(SimSemaphore {
            device: self.clone(),
            progress,
            raises: Mutex::default(),
        }))
    }

    fn wait(
        &self,
        queue: &dyn Queue,
        semaphore: &Arc<dyn Semaphore>,
        value: u64,
    ) -> Result<Admission, DriverError> {
        let operation = Operation::WaitSemaphore;
        let queue = self.own_queue(queue, operation)?;
        let semaphore = self.own_semaphore(semaphore, operation)?;
        self.gate(operation)?;
        Ok(queue.submit(|_| Some(Command::WaitSemaphore { semaphore, value })))
    }

    fn signal(
        &self,
        queue: &dyn Queue,
        semaphore: &Arc<dyn Semaphore>,
        value: u64,
    ) -> Result<Admission, DriverError> {
        let operation = Operation::SignalSemaphore;
        let queue = self.own_queue(queue, operation)?;
        let semaphore = self.own_semaphore(semaphore, operation)?;
        self.gate(operation)?;
        Ok(queue.submit(|_| Some(Command::SignalSemaphore { semaphore, value })))
    }
}
