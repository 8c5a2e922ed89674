//! The contract's queue: checks what it is given, then puts a command in the ring.

use super::{QueueCore, Watcher};
use crate::{
    command::{Command, HostRange},
    engine::Deadlock,
    kernel::SimKernel,
    parameters::MAX_ARGUMENT_BYTES,
};
use piton_driver::{
    Admission, DeviceId, DevicePtr, DeviceRange, DriverError, ErrorKind, FillPattern,
    HardwareQueue, Launch, Operation, Position, Priority, Queue, QueueFailure, QueueId,
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

    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Admission, DriverError> {
        let kernel = self.check_launch(launch)?;
        self.core.device.gate(Operation::Launch)?;
        Ok(self.core.submit(|state| {
            let arguments = state.parameters.push(launch.arguments, launch.extents)?;
            Some(Command::Launch {
                kernel,
                grid: launch.grid,
                arguments,
            })
        }))
    }

    unsafe fn copy_to_device(
        &self,
        dst: DevicePtr,
        src: NonNull<u8>,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let operation = Operation::CopyToDevice;
        let dst = self.device_range(dst, bytes, operation)?;
        let src = self.host_range(src, bytes, operation)?;
        self.core.device.gate(operation)?;
        Ok(self
            .core
            .submit(|_| Some(Command::CopyToDevice { dst, src })))
    }

    unsafe fn copy_to_host(
        &self,
        dst: NonNull<u8>,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let operation = Operation::CopyToHost;
        let src = self.device_range(src, bytes, operation)?;
        let dst = self.host_range(dst, bytes, operation)?;
        self.core.device.gate(operation)?;
        Ok(self.core.submit(|_| Some(Command::CopyToHost { dst, src })))
    }

    unsafe fn copy_on_device(
        &self,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let operation = Operation::CopyOnDevice;
        let dst = self.device_range(dst, bytes, operation)?;
        let src = self.device_range(src, bytes, operation)?;
        if dst.overlaps(src) {
            let kind = ErrorKind::AlreadyMapped {
                address: src.start,
                bytes,
            };
            return Err(self.core.device.error(kind, operation));
        }
        self.core.device.gate(operation)?;
        Ok(self
            .core
            .submit(|_| Some(Command::CopyOnDevice { dst, src })))
    }

    unsafe fn fill(
        &self,
        dst: DevicePtr,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let device = &self.core.device;
        let alignment = pattern.bytes();
        for value in [dst.address(), bytes] {
            if !value.is_multiple_of(alignment) {
                return Err(
                    device.error(ErrorKind::Misaligned { value, alignment }, Operation::Fill)
                );
            }
        }
        let dst = self.device_range(dst, bytes, Operation::Fill)?;
        device.gate(Operation::Fill)?;
        Ok(self.core.submit(|_| Some(Command::Fill { dst, pattern })))
    }

    fn wait_for(&self, other: &dyn Queue, position: Position) -> Result<Admission, DriverError> {
        let device = &self.core.device;
        let given = other.device();
        let foreign = || device.error(ErrorKind::ForeignObject { given }, Operation::WaitQueue);
        let other: &dyn Any = other;
        let other = other.downcast_ref::<Self>().ok_or_else(foreign)?;
        if !other.core.device.is_beside(device) {
            return Err(foreign());
        }
        other.check_position(position, Operation::WaitQueue)?;
        device.gate(Operation::WaitQueue)?;
        let queue = Arc::clone(&other.core);
        Ok(self
            .core
            .submit(|_| Some(Command::WaitQueue { queue, position })))
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
