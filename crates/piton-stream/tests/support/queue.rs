//! The fake device's queue.

#![expect(unsafe_code, reason = "implements the contract's queue")]

use super::{
    TRAP,
    device::{cell, slots},
    machine::{Machine, Work},
};
use piton_driver::{
    Admission, Awaited, Command, DeviceId, DriverError, ErrorKind, Front, HardwareQueue, Operation,
    Origin, Position, Priority, Queue, QueueActivity, QueueFailure, QueueId, QueueWait,
    WaitOutcome,
};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{any::Any, sync::Arc, task::Waker, time::Instant};

#[derive(Debug)]
pub(crate) struct FakeQueue {
    pub(crate) machine: Arc<Machine>,
    pub(crate) index: usize,
    pub(crate) device: DeviceId,
    pub(crate) priority: Priority,
    pub(crate) hardware: HardwareQueue,
    pub(crate) capacity: u64,
    /// Whether a command ends right after each second refusal.
    pub(crate) moves_on_refusal: bool,
    pub(crate) refusals: AtomicU64,
    /// Counts live handles of the device's queues.
    pub(crate) _alive: Arc<()>,
}

impl FakeQueue {
    pub(crate) fn push(&self, work: Work, origin: Origin) -> Admission {
        self.push_all([work], origin)
    }

    fn push_all(
        &self,
        works: impl IntoIterator<Item = Work, IntoIter: ExactSizeIterator>,
        origin: Origin,
    ) -> Admission {
        let works = works.into_iter();
        let mut inner = self.machine.inner.lock();
        let book = &mut inner.books[self.index];
        if book.submitted - book.completed + works.len() as u64 > self.capacity {
            drop(inner);
            let refusals = self.refusals.fetch_add(1, Ordering::Relaxed) + 1;
            if self.moves_on_refusal && refusals.is_multiple_of(2) {
                self.machine.step(self.index);
            }
            return Admission::Full;
        }
        for work in works {
            book.origins.push_back((work.operation(), origin));
            book.commands.push_back(work);
            book.submitted += 1;
        }
        Admission::Accepted(Position::new(book.submitted))
    }

    /// As `push`, taking the work only where there is room.
    pub(crate) fn push_from<T>(
        &self,
        slot: &mut Option<T>,
        work: impl FnOnce(T) -> Work,
        origin: Origin,
    ) -> Admission {
        if self.submitted().get() - self.completed().get() >= self.capacity {
            return Admission::Full;
        }
        slot.take()
            .map_or(Admission::Full, |value| self.push(work(value), origin))
    }

    fn error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.device)
    }

    /// What a command is here.
    fn work(&self, command: &Command<'_>) -> Result<Work, DriverError> {
        Ok(match *command {
            Command::Fill { bytes: 0, .. } => {
                let (bytes, maximum) = (0, u64::MAX);
                let kind = ErrorKind::InvalidSize { bytes, maximum };
                return Err(self.error(kind, Operation::Fill));
            }
            Command::Fill { dst: TRAP, .. } => Work::Trap(Operation::Fill),
            Command::WaitQueue {
                queue,
                position,
                inherits,
            } => {
                let given = queue.device();
                let other: &dyn Any = queue;
                let Some(other) = other.downcast_ref::<Self>() else {
                    let kind = ErrorKind::ForeignObject { given };
                    return Err(self.error(kind, Operation::WaitQueue));
                };
                other.known(position, Operation::WaitQueue)?;
                Work::WaitQueue(other.index, position.get(), inherits)
            }
            Command::WaitSemaphore { semaphore, value } => Work::WaitValue(cell(semaphore), value),
            Command::SignalSemaphore { semaphore, value } => Work::Signal(cell(semaphore), value),
            Command::WriteTimestamp { pool, index } => Work::Stamp(slots(pool), index as usize),
            _ => Work::Touch(command.operation()),
        })
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
    fn capacity(&self) -> u64 {
        self.capacity
    }
    fn submitted(&self) -> Position {
        Position::new(self.machine.inner.lock().books[self.index].submitted)
    }
    fn completed(&self) -> Position {
        self.machine.pass();
        Position::new(self.machine.inner.lock().books[self.index].completed)
    }
    fn failure(&self) -> Option<QueueFailure> {
        self.machine.inner.lock().books[self.index].failure
    }
    unsafe fn submit(
        &self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        self.machine.pass();
        Ok(self.push(self.work(command)?, origin))
    }
    unsafe fn submit_behind(
        &self,
        waits: &[QueueWait<'_>],
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        self.machine.pass();
        let waits = waits.iter().map(|wait| self.work(&wait.command()));
        let works = waits.chain([self.work(command)]);
        Ok(self.push_all(works.collect::<Result<Vec<_>, _>>()?, origin))
    }
    fn abort(&self) -> Result<(), DriverError> {
        let mut inner = self.machine.inner.lock();
        let book = &mut inner.books[self.index];
        book.aborted = book.submitted;
        Ok(())
    }
    fn clear_failure(&self) -> Result<Option<QueueFailure>, DriverError> {
        let mut inner = self.machine.inner.lock();
        let book = &mut inner.books[self.index];
        assert_eq!(book.completed, book.submitted, "the stream asks before");
        let cleared = book.failure.take();
        if let Some(failure) = &cleared {
            let range = (failure.position.get(), book.submitted);
            book.cleared.push(range);
        }
        Ok(cleared)
    }
    fn activity(&self) -> QueueActivity {
        let inner = self.machine.inner.lock();
        let book = &inner.books[self.index];
        let position = Position::new(book.completed + 1);
        let Some(front) = book.commands.front() else {
            return QueueActivity::Idle;
        };
        let (operation, origin) = book.origins.front().copied().unzip();
        let about = Front {
            position,
            operation: operation.unwrap_or(Operation::Fill),
            origin,
        };
        match front {
            Work::WaitQueue(other, position, _) => {
                let (queue, position) = (QueueId(*other as u64), Position::new(*position));
                QueueActivity::Waiting(about, Awaited::Queue(queue, position))
            }
            Work::WaitValue(cell, wanted) => {
                let (current, wanted) = (*cell.lock(), *wanted);
                QueueActivity::Waiting(about, Awaited::Semaphore { current, wanted })
            }
            _ if book.is_busy => QueueActivity::Running(about),
            _ => QueueActivity::Ready(position),
        }
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
