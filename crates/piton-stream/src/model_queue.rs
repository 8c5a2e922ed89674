//! A queue for the model checker: one counter, one failure, its watchers. Takes no commands; the model says how
//! many there were and ends them.

#![expect(unsafe_code, reason = "implements the contract's queue")]

use piton_driver::{
    Admission, Command, DeviceId, DriverError, ErrorKind, HardwareQueue, Operation, Origin,
    Position, Priority, Queue, QueueFailure, QueueId, QueueWait, WaitOutcome,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::{sync::Arc, task::Waker, time::Instant};

#[derive(Debug)]
pub(crate) struct ModelQueue {
    submitted: u64,
    completed: AtomicU64,
    failed: AtomicU64,
    watchers: Mutex<Vec<(u64, Waker)>>,
}

impl ModelQueue {
    pub(crate) fn new(submitted: u64) -> Arc<Self> {
        Arc::new(Self {
            submitted,
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            watchers: Mutex::new(Vec::new()),
        })
    }

    /// Ends everything up to `position`, which fails if `is_failure`.
    pub(crate) fn end(&self, position: u64, is_failure: bool) {
        if is_failure {
            self.failed.store(position, Ordering::Release);
        }
        let mut watchers = self.watchers.lock();
        self.completed.store(position, Ordering::Release);
        let due: Vec<_> = watchers.drain(..).collect();
        drop(watchers);
        for (awaited, waker) in due {
            assert!(awaited <= position, "the models end all that is awaited");
            waker.wake();
        }
    }
}

fn refused<T>() -> Result<T, DriverError> {
    let kind = ErrorKind::Vendor;
    Err(DriverError::new(kind, Operation::Launch, DeviceId(0)))
}

// SAFETY: no command is ever taken, so none touches memory.
unsafe impl Queue for ModelQueue {
    fn id(&self) -> QueueId {
        QueueId(0)
    }
    fn device(&self) -> DeviceId {
        DeviceId(0)
    }
    fn priority(&self) -> Priority {
        Priority::DEFAULT
    }
    fn hardware_queue(&self) -> HardwareQueue {
        HardwareQueue(0)
    }
    fn capacity(&self) -> u64 {
        self.submitted
    }
    fn submitted(&self) -> Position {
        Position::new(self.submitted)
    }
    fn completed(&self) -> Position {
        Position::new(self.completed.load(Ordering::Acquire))
    }
    fn failure(&self) -> Option<QueueFailure> {
        let position = self.failed.load(Ordering::Acquire);
        (position > 0).then(|| QueueFailure {
            position: Position::new(position),
            error: DriverError::new(ErrorKind::Vendor, Operation::Launch, DeviceId(0)),
            origin: None,
        })
    }
    unsafe fn submit(&self, _: &Command<'_>, _: Origin) -> Result<Admission, DriverError> {
        refused()
    }
    unsafe fn submit_behind(
        &self,
        _: &[QueueWait<'_>],
        _: &Command<'_>,
        _: Origin,
    ) -> Result<Admission, DriverError> {
        refused()
    }
    fn flush(&self) -> Result<(), DriverError> {
        Ok(())
    }
    fn wait(&self, _: Position, _: Option<Instant>) -> Result<WaitOutcome, DriverError> {
        refused()
    }
    fn notify(&self, position: Position, waker: &Waker) -> Result<(), DriverError> {
        let mut watchers = self.watchers.lock();
        if self.completed() < position {
            watchers.push((position.get(), waker.clone()));
            return Ok(());
        }
        drop(watchers);
        waker.wake_by_ref();
        Ok(())
    }
}
