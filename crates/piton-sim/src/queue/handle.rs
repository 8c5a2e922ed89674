//! The contract's queue: the program's handle, and what it asks and says.

#![expect(unsafe_code, reason = "implements the contract's queue")]

use super::{QueueCore, Watcher, hold::SimHold, writer::SimWriter};
use crate::{
    command::Command,
    engine::Deadlock,
    presence::{self, Presence},
};
use piton_driver as contract;
use piton_driver::{
    Admission, DeviceId, DriverError, ErrorKind, HardwareQueue, Operation, Origin, Position,
    Priority, Queue, QueueActivity, QueueFailure, QueueHold, QueueId, QueueWait, QueueWriter,
    WaitOutcome,
};
use smallvec::SmallVec;
use std::{sync::Arc, task::Waker, time::Instant};

/// The handle of a queue. Dropping it frees its place on the hardware queue; what was submitted still runs.
#[derive(Debug)]
pub(crate) struct SimQueue {
    pub(crate) core: Arc<QueueCore>,
    pub(super) _presence: Presence,
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        if self.core.device.machine().fork.is_fork() {
            presence::leave(&self.core);
            return;
        }
        let core = self.core.device.core();
        if let Some(load) = core.loads.lock().get_mut(self.core.hardware as usize) {
            load.queues = load.queues.saturating_sub(1);
            load.is_exclusive &= load.queues > 0;
        }
        core.prune_queues();
    }
}

// SAFETY: positions are given out under `producer` in the order of the ring; one owner at a time runs the front,
// so commands start and end in order; `end` notes a failure before it advances the counter, and the counter
// (`Progress`) is advanced with Release after the command's last access.
unsafe impl Queue for SimQueue {
    fn id(&self) -> QueueId {
        self.core.id
    }

    fn device(&self) -> DeviceId {
        self.core.device.id()
    }

    fn priority(&self) -> Priority {
        self.core.priority
    }

    fn hardware_queue(&self) -> HardwareQueue {
        HardwareQueue(self.core.hardware)
    }

    fn capacity(&self) -> u64 {
        self.core.ring.capacity()
    }

    fn submitted(&self) -> Position {
        Position::new(self.core.ring.submitted())
    }

    fn completed(&self) -> Position {
        let reached = self.core.progress.reached();
        let engine = self.core.engine();
        if engine.is_virtual() {
            // What is submitted for the sake of this answer starts no earlier than what it tells of.
            engine.host_saw(self.core.ended_at(reached));
        }
        Position::new(reached)
    }

    fn failure(&self) -> Option<QueueFailure> {
        self.core.failure()
    }

    unsafe fn submit(
        &self,
        command: &contract::Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        self.core.device.gate(command.operation())?;
        self.core.engine().while_submitting(|| {
            let admission = self.put(&mut self.core.producer.take(), command, origin)?;
            if admission != Admission::Full {
                self.core.start(1);
            }
            Ok(admission)
        })
    }

    unsafe fn submit_behind(
        &self,
        waits: &[QueueWait<'_>],
        command: &contract::Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        self.core.device.gate(command.operation())?;
        let checked = waits.iter().map(|wait| self.hold_wait(wait));
        let waits: SmallVec<[Command; 2]> = checked.collect::<Result<_, _>>()?;
        let count = u32::try_from(waits.len()).map_or(u32::MAX, |waits| waits.saturating_add(1));
        self.core.engine().while_submitting(|| {
            let mut producer = self.core.producer.take();
            let admission = self.put_behind(&mut producer, waits, command, origin)?;
            drop(producer);
            if admission != Admission::Full {
                self.core.start(count);
            }
            Ok(admission)
        })
    }

    fn writer(&self) -> Option<Box<dyn QueueWriter + '_>> {
        if self.core.device.machine().fork.is_fork() {
            return None;
        }
        Some(Box::new(SimWriter::new(self)?))
    }

    fn hold(&self) -> Option<Box<dyn QueueHold + '_>> {
        let device = &self.core.device;
        if device.machine().fork.is_fork() || device.core().is_lost() {
            return None;
        }
        Some(Box::new(SimHold::new(&self.core)?))
    }

    fn abort(&self) -> Result<(), DriverError> {
        self.core.device.gate(Operation::Abort)?;
        let last = self.core.ring.submitted();
        if self.core.progress.reached() < last {
            self.core.trouble.abort(last);
            self.core.end_stall_by_abort();
        }
        Ok(())
    }

    fn clear_failure(&self) -> Result<Option<QueueFailure>, DriverError> {
        let (core, operation) = (&self.core, Operation::ClearFailure);
        core.device.gate(operation)?;
        // Nothing is submitted meanwhile.
        let producer = core.producer.take();
        let (submitted, completed) = (core.ring.submitted(), core.progress.reached());
        if completed < submitted {
            let kind = ErrorKind::NotDrained {
                submitted,
                completed,
            };
            return Err(core.device.error(kind, operation));
        }
        let cleared = core.trouble.clear(submitted);
        drop(producer);
        Ok(cleared)
    }

    fn activity(&self) -> QueueActivity {
        let core = &self.core;
        let position = core.progress.reached() + 1;
        if core.ring.submitted() < position {
            return QueueActivity::Idle;
        }
        match (core.consumer.front.at(position), core.stall.told()) {
            (None, _) => QueueActivity::Ready(Position::new(position)),
            (Some(front), None) => QueueActivity::Running(front),
            (Some(front), Some(awaited)) => QueueActivity::Waiting(front, awaited),
        }
    }

    fn flush(&self) -> Result<(), DriverError> {
        self.core.device.gate(Operation::Flush)?;
        self.core.start_what_is_there();
        self.core.engine().announce();
        Ok(())
    }

    fn wait(
        &self,
        position: Position,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, DriverError> {
        self.check_position(position, Operation::Wait)?;
        self.core.device.gate_even_if_lost(Operation::Wait)?;
        self.core.start_what_is_there();
        let engine = self.core.engine();
        let outcome = engine.wait(&self.core.progress, position.get(), deadline);
        let device = &self.core.device;
        let outcome = outcome.map_err(|Deadlock| {
            let waiting = device.machine().stalled_queues();
            device.error(ErrorKind::Deadlock { waiting }, Operation::Wait)
        })?;
        if outcome == WaitOutcome::Reached && engine.is_virtual() {
            engine.host_saw(self.core.ended_at(position.get()));
        }
        Ok(outcome)
    }

    fn notify(&self, position: Position, waker: &Waker) -> Result<(), DriverError> {
        self.check_position(position, Operation::Notify)?;
        self.core.device.gate_even_if_lost(Operation::Notify)?;
        self.core.start_what_is_there();
        let watcher = Watcher::Waker(waker.clone());
        if let Err(watcher) = self.core.progress.watch(position.get(), watcher) {
            watcher.wake();
        } else {
            self.core.engine().announce();
        }
        Ok(())
    }
}

impl QueueCore {
    /// An abort is in place: a stall that it may end, ends.
    fn end_stall_by_abort(self: &Arc<Self>) {
        self.wake_aborted();
        self.engine().share();
    }
}
