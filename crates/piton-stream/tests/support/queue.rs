//! The fake device's queue.

#![expect(unsafe_code, reason = "implements the contract's queue")]

use super::{
    TRAP,
    machine::{Machine, Work},
};
use piton_driver::{
    Admission, DeviceId, DevicePtr, DriverError, ErrorKind, FillPattern, HardwareQueue, Launch,
    Operation, Position, Priority, Queue, QueueFailure, QueueId, WaitOutcome,
};
use std::{any::Any, ptr::NonNull, sync::Arc, task::Waker, time::Instant};

#[derive(Debug)]
pub(crate) struct FakeQueue {
    pub(crate) machine: Arc<Machine>,
    pub(crate) index: usize,
    pub(crate) device: DeviceId,
    pub(crate) priority: Priority,
    pub(crate) hardware: HardwareQueue,
    pub(crate) capacity: u64,
    /// Whether a command ends right after each refusal.
    pub(crate) moves_on_refusal: bool,
    /// Counts live handles of the device's queues.
    pub(crate) _alive: Arc<()>,
}

impl FakeQueue {
    pub(crate) fn push(&self, work: Work) -> Admission {
        let mut inner = self.machine.inner.lock();
        let book = &mut inner.books[self.index];
        if book.submitted - book.completed >= self.capacity {
            drop(inner);
            if self.moves_on_refusal {
                self.machine.step(self.index);
            }
            return Admission::Full;
        }
        book.commands.push_back(work);
        book.submitted += 1;
        Admission::Accepted(Position::new(book.submitted))
    }

    /// As `push`, taking the work only where there is room.
    pub(crate) fn push_from<T>(
        &self,
        slot: &mut Option<T>,
        work: impl FnOnce(T) -> Work,
    ) -> Admission {
        if self.submitted().get() - self.completed().get() >= self.capacity {
            return Admission::Full;
        }
        slot.take()
            .map_or(Admission::Full, |value| self.push(work(value)))
    }

    fn error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.device)
    }

    fn known(&self, position: Position, operation: Operation) -> Result<(), DriverError> {
        let submitted = self.submitted();
        if position <= submitted {
            return Ok(());
        }
        let kind = ErrorKind::UnknownPosition {
            position,
            submitted,
        };
        Err(self.error(kind, operation))
    }
}

// SAFETY: commands end one at a time, in order, under one lock, and touch no memory at all.
unsafe impl Queue for FakeQueue {
    fn id(&self) -> QueueId {
        QueueId(self.index as u64)
    }
    fn device(&self) -> DeviceId {
        self.device
    }
    fn priority(&self) -> Priority {
        self.priority
    }
    fn hardware_queue(&self) -> HardwareQueue {
        self.hardware
    }
    fn submitted(&self) -> Position {
        Position::new(self.machine.inner.lock().books[self.index].submitted)
    }
    fn completed(&self) -> Position {
        Position::new(self.machine.inner.lock().books[self.index].completed)
    }
    fn failure(&self) -> Option<QueueFailure> {
        self.machine.inner.lock().books[self.index].failure
    }
    unsafe fn launch(&self, _: &Launch<'_>) -> Result<Admission, DriverError> {
        Ok(self.push(Work::Touch(Operation::Launch)))
    }
    unsafe fn copy_to_device(
        &self,
        _: DevicePtr,
        _: NonNull<u8>,
        _: u64,
    ) -> Result<Admission, DriverError> {
        Ok(self.push(Work::Touch(Operation::CopyToDevice)))
    }
    unsafe fn copy_to_host(
        &self,
        _: NonNull<u8>,
        _: DevicePtr,
        _: u64,
    ) -> Result<Admission, DriverError> {
        Ok(self.push(Work::Touch(Operation::CopyToHost)))
    }
    unsafe fn copy_on_device(
        &self,
        _: DevicePtr,
        _: DevicePtr,
        _: u64,
    ) -> Result<Admission, DriverError> {
        Ok(self.push(Work::Touch(Operation::CopyOnDevice)))
    }
    unsafe fn fill(
        &self,
        dst: DevicePtr,
        _: FillPattern,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        if bytes == 0 {
            let maximum = u64::MAX;
            let kind = ErrorKind::InvalidSize { bytes, maximum };
            return Err(self.error(kind, Operation::Fill));
        }
        Ok(self.push(if dst == TRAP {
            Work::Trap(Operation::Fill)
        } else {
            Work::Touch(Operation::Fill)
        }))
    }
    fn wait_for(&self, other: &dyn Queue, position: Position) -> Result<Admission, DriverError> {
        let given = other.device();
        let other: &dyn Any = other;
        let Some(other) = other.downcast_ref::<Self>() else {
            return Err(self.error(ErrorKind::ForeignObject { given }, Operation::WaitQueue));
        };
        other.known(position, Operation::WaitQueue)?;
        Ok(self.push(Work::WaitQueue(other.index, position.get())))
    }
    fn flush(&self) -> Result<(), DriverError> {
        Ok(())
    }
    fn wait(
        &self,
        position: Position,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, DriverError> {
        self.known(position, Operation::Wait)?;
        while self.completed() < position {
            if !self.machine.step_any() {
                return match deadline {
                    Some(_) => Ok(WaitOutcome::DeadlinePassed),
                    None => Err(self.error(ErrorKind::Deadlock { waiting: 1 }, Operation::Wait)),
                };
            }
        }
        Ok(WaitOutcome::Reached)
    }
    fn notify(&self, position: Position, waker: &Waker) -> Result<(), DriverError> {
        self.known(position, Operation::Notify)?;
        let mut inner = self.machine.inner.lock();
        let book = &mut inner.books[self.index];
        if book.completed < position.get() {
            book.watchers.push((position.get(), waker.clone()));
            return Ok(());
        }
        drop(inner);
        waker.wake_by_ref();
        Ok(())
    }
}
