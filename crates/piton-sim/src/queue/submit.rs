//! The contract's queue: checks what it is given, then puts a command in the ring.

use super::{QueueCore, Watcher};
use crate::{
    command::{Command, HostRange},
    engine::Deadlock,
    kernel::SimKernel,
    parameters::MAX_ARGUMENT_BYTES,
};
use piton_driver as contract;
use piton_driver::{
    Admission, DeviceId, DevicePtr, DeviceRange, DriverError, ErrorKind, FillPattern,
    HardwareQueue, Launch, Operation, Origin, Position, Priority, Queue, QueueFailure, QueueId,
    ResourceKind, WaitOutcome,
};
use std::{any::Any, ptr::NonNull, sync::Arc, task::Waker, time::Instant};

/// The handle of a queue. Dropping it frees its place on the hardware queue; what was submitted still runs.
#[derive(Debug)]
pub(crate) struct SimQueue {
    pub(crate) core: Arc<QueueCore>,
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        let core = self.core.device.core();
        if let Some(load) = core.loads.lock().get_mut(self.core.hardware as usize) {
            load.queues = load.queues.saturating_sub(1);
            load.is_exclusive &= load.queues > 0;
        }
        core.queues.lock().retain(|queue| queue.strong_count() > 0);
    }
}

impl SimQueue {
    fn device_range(
        &self,
        start: DevicePtr,
        bytes: u64,
        operation: Operation,
    ) -> Result<DeviceRange, DriverError> {
        let device = &self.core.device;
        let range = DeviceRange { start, bytes };
        device
            .check_range(range)
            .map_err(|kind| device.error(kind, operation))?;
        Ok(range)
    }

    fn host_range(
        &self,
        start: NonNull<u8>,
        bytes: u64,
        operation: Operation,
    ) -> Result<HostRange, DriverError> {
        let device = &self.core.device;
        let address = start.as_ptr().addr() as u64;
        let refused = || device.error(ErrorKind::NotPageLocked { address, bytes }, operation);
        let length = usize::try_from(bytes).map_err(|_| refused())?;
        if !device
            .machine()
            .host
            .lock()
            .covers(start.as_ptr().addr(), length)
        {
            return Err(refused());
        }
        Ok(HostRange {
            start,
            bytes: length,
        })
    }

    fn check_launch(&self, launch: &Launch<'_>) -> Result<Arc<SimKernel>, DriverError> {
        let device = &self.core.device;
        let error = |kind| device.error(kind, Operation::Launch);
        let kernel: Arc<dyn Any + Send + Sync> = Arc::clone(launch.kernel) as _;
        let foreign = ErrorKind::ForeignObject {
            given: launch.kernel.device(),
        };
        let kernel = kernel.downcast::<SimKernel>().map_err(|_| error(foreign))?;
        if !kernel.device.is(device) {
            return Err(error(foreign));
        }
        let expected = kernel.definition.signature().packed_bytes();
        let given = launch.arguments.len() as u64;
        if expected != given {
            return Err(error(ErrorKind::InvalidArguments { expected, given }));
        }
        let buffers = kernel.definition.signature().buffers() as u64;
        let extents = launch.extents.len() as u64;
        if extents != 0 && extents != buffers {
            let (expected, given) = (buffers * 8, extents * 8);
            return Err(error(ErrorKind::InvalidArguments { expected, given }));
        }
        let most = u64::from(MAX_ARGUMENT_BYTES);
        if given > most {
            let resource = ResourceKind::ArgumentBytes;
            return Err(error(ErrorKind::OutOfResources {
                resource,
                limit: most,
            }));
        }
        let maximum = u64::from(u32::MAX);
        match launch.grid.blocks() {
            Some(blocks) if blocks > 0 && blocks <= maximum => Ok(kernel),
            blocks => {
                let blocks = blocks.unwrap_or(u64::MAX);
                Err(error(ErrorKind::InvalidGrid { blocks, maximum }))
            }
        }
    }

    /// Checks a command that is no launch, and takes hold of what it names.
    fn check(
        &self,
        command: &contract::Command<'_>,
        operation: Operation,
    ) -> Result<Command, DriverError> {
        let device = &self.core.device;
        let error = |kind| device.error(kind, operation);
        Ok(match *command {
            contract::Command::CopyToDevice { dst, src, bytes } => Command::CopyToDevice {
                dst: self.device_range(dst, bytes, operation)?,
                src: self.host_range(src, bytes, operation)?,
            },
            contract::Command::CopyToHost { dst, src, bytes } => Command::CopyToHost {
                src: self.device_range(src, bytes, operation)?,
                dst: self.host_range(dst, bytes, operation)?,
            },
            contract::Command::CopyOnDevice { dst, src, bytes } => {
                self.check_copy(dst, src, bytes)?
            }
            contract::Command::CopyPeer { dst, src, bytes } => {
                device.check_peer_copy(dst, src, bytes).map_err(error)?;
                Command::CopyPeer { dst, src, bytes }
            }
            contract::Command::Fill {
                dst,
                pattern,
                bytes,
            } => self.check_fill(dst, pattern, bytes)?,
            contract::Command::WaitQueue { queue, position } => self.check_wait(queue, position)?,
            contract::Command::WaitSemaphore { semaphore, value } => Command::WaitSemaphore {
                semaphore: device.own_semaphore(semaphore, operation)?,
                value,
            },
            contract::Command::SignalSemaphore { semaphore, value } => Command::SignalSemaphore {
                semaphore: device.own_semaphore(semaphore, operation)?,
                value,
            },
            contract::Command::WriteTimestamp { pool, index } => Command::WriteTimestamp {
                pool: device.own_timestamps(pool, index)?,
                index,
            },
            contract::Command::RunGraph { graph } => Command::RunGraph {
                plan: device.own_graph(graph)?,
            },
            _ => return Err(error(ErrorKind::Unsupported)),
        })
    }

    fn check_copy(
        &self,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Command, DriverError> {
        let operation = Operation::CopyOnDevice;
        let dst = self.device_range(dst, bytes, operation)?;
        let src = self.device_range(src, bytes, operation)?;
        if dst.overlaps(src) {
            let address = src.start;
            let kind = ErrorKind::AlreadyMapped { address, bytes };
            return Err(self.core.device.error(kind, operation));
        }
        Ok(Command::CopyOnDevice { dst, src })
    }

    fn check_fill(
        &self,
        dst: DevicePtr,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<Command, DriverError> {
        let alignment = pattern.bytes();
        for value in [dst.address(), bytes] {
            if !value.is_multiple_of(alignment) {
                let kind = ErrorKind::Misaligned { value, alignment };
                return Err(self.core.device.error(kind, Operation::Fill));
            }
        }
        let dst = self.device_range(dst, bytes, Operation::Fill)?;
        Ok(Command::Fill { dst, pattern })
    }

    fn check_wait(&self, other: &dyn Queue, position: Position) -> Result<Command, DriverError> {
        let device = &self.core.device;
        let given = other.device();
        let foreign = || device.error(ErrorKind::ForeignObject { given }, Operation::WaitQueue);
        let other: &dyn Any = other;
        let other = other.downcast_ref::<Self>().ok_or_else(foreign)?;
        if !other.core.device.is_beside(device) {
            return Err(foreign());
        }
        other.check_position(position, Operation::WaitQueue)?;
        let queue = Arc::clone(&other.core);
        Ok(Command::WaitQueue { queue, position })
    }

    fn check_position(&self, position: Position, operation: Operation) -> Result<(), DriverError> {
        let submitted = Position::new(self.core.submitted());
        if position > submitted {
            let kind = ErrorKind::UnknownPosition {
                position,
                submitted,
            };
            return Err(self.core.device.error(kind, operation));
        }
        Ok(())
    }
}

#[expect(unsafe_code, reason = "implements the contract's queue")]
// SAFETY: positions are given out under `state` in the order of the ring; one owner at a time runs the front,
// so commands start and end in order; `end_named` notes a failure before it advances the counter, and the
// counter (`Progress`) is advanced with Release after the command's last access.
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

    fn submitted(&self) -> Position {
        Position::new(self.core.submitted())
    }

    fn completed(&self) -> Position {
        Position::new(self.core.progress.reached())
    }

    fn failure(&self) -> Option<QueueFailure> {
        self.core.failure()
    }

    unsafe fn submit(
        &self,
        command: &contract::Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let operation = command.operation();
        if let contract::Command::Launch(launch) = command {
            let kernel = self.check_launch(launch)?;
            self.core.device.gate(operation)?;
            return Ok(self.core.submit(origin, |state| {
                let arguments = state.parameters.push(launch.arguments, launch.extents)?;
                Some(Command::Launch {
                    kernel,
                    grid: launch.grid,
                    arguments,
                })
            }));
        }
        let command = self.check(command, operation)?;
        self.core.device.gate(operation)?;
        Ok(self.core.submit(origin, |_| Some(command)))
    }

    fn flush(&self) -> Result<(), DriverError> {
        self.core.device.gate(Operation::Flush)
    }

    fn wait(
        &self,
        position: Position,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, DriverError> {
        self.check_position(position, Operation::Wait)?;
        self.core.device.gate_even_if_lost(Operation::Wait)?;
        let is_met = || self.core.progress.reached() >= position.get();
        let outcome = self.core.engine().wait(is_met, deadline);
        let device = &self.core.device;
        let outcome = outcome.map_err(|Deadlock| {
            let waiting = device.machine().stalled_queues();
            device.error(ErrorKind::Deadlock { waiting }, Operation::Wait)
        })?;
        if outcome == WaitOutcome::Reached && self.core.engine().is_virtual() {
            self.core
                .engine()
                .host_saw(self.core.ended_at(position.get()));
        }
        Ok(outcome)
    }

    fn notify(&self, position: Position, waker: &Waker) -> Result<(), DriverError> {
        self.check_position(position, Operation::Notify)?;
        self.core.device.gate_even_if_lost(Operation::Notify)?;
        let watcher = Watcher::Waker(waker.clone());
        if let Err(watcher) = self.core.progress.watch(position.get(), watcher) {
            watcher.wake();
        }
        Ok(())
    }
}
