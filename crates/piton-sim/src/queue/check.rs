//! Whether a command may enter a queue, before anything is changed for it: what it names is there, is of this machine,
//! and is held from then on.

#![expect(unsafe_code, reason = "looks at a kernel that its queue keeps")]

use super::{Producer, QueueCore, SimQueue};
use crate::{
    check,
    command::{Command, KernelRef},
};
use piton_driver as contract;
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, ErrorKind, Kernel, Launch, MemoryWord, Operation,
    Position, Queue, QueueWait,
};
use std::{any::Any, sync::Arc};

impl SimQueue {
    /// Checks a launch, and that the queue keeps its kernel.
    #[inline(always)]
    pub(super) fn check_launch(
        &self,
        producer: &mut Producer,
        launch: &Launch<'_>,
    ) -> Result<KernelRef, ErrorKind> {
        let kernel = match producer.kept.find(launch.kernel) {
            Some(kernel) => KernelRef::new(kernel),
            None => self.keep(producer, launch.kernel)?,
        };
        // SAFETY: the queue keeps it, and the producer is the caller's.
        check::launch(unsafe { kernel.get() }, launch)?;
        Ok(kernel)
    }

    #[cold]
    fn keep(
        &self,
        producer: &mut Producer,
        given: &Arc<dyn Kernel>,
    ) -> Result<KernelRef, ErrorKind> {
        let kernel = self.core.device.own_kernel(given)?;
        let found = KernelRef::new(&kernel);
        producer.kept.insert(kernel, self.core.progress.reached());
        Ok(found)
    }

    /// Checks a wait, and takes hold of the queue it names.
    pub(super) fn hold_wait(&self, wait: &QueueWait<'_>) -> Result<Command, DriverError> {
        Ok(Command::WaitQueue {
            queue: Arc::clone(self.check_wait(wait.queue, wait.position)?),
            position: wait.position.get(),
            inherits: wait.inherits,
        })
    }

    /// Checks a command that is no launch nor a wait for a queue, and takes hold of what it names.
    pub(super) fn check(
        &self,
        command: &contract::Command<'_>,
        operation: Operation,
    ) -> Result<Command, DriverError> {
        let device = &self.core.device;
        let error = |kind| device.error(kind, operation);
        Ok(match *command {
            contract::Command::CopyToDevice { dst, src, bytes } => Command::CopyToDevice {
                dst: device.device_range(dst, bytes, operation)?,
                src: device.host_range(src, bytes, operation)?,
            },
            contract::Command::CopyToHost { dst, src, bytes } => Command::CopyToHost {
                src: device.device_range(src, bytes, operation)?,
                dst: device.host_range(dst, bytes, operation)?,
            },
            contract::Command::CopyOnDevice { dst, src, bytes } => {
                let (dst, src) = device.check_copy(dst, src, bytes)?;
                Command::CopyOnDevice { dst, src }
            }
            contract::Command::CopyPeer { dst, src, bytes } => {
                device.check_peer_copy(dst, src, bytes).map_err(error)?;
                Command::CopyPeer { dst, src, bytes }
            }
            contract::Command::Fill {
                dst,
                pattern,
                bytes,
            } => Command::Fill {
                dst: device.check_fill(dst, pattern, bytes)?,
                pattern,
            },
            contract::Command::WaitQueue {
                queue,
                position,
                inherits,
            } => self.hold_wait(&QueueWait {
                queue,
                position,
                inherits,
            })?,
            contract::Command::WaitSemaphore { semaphore, value } => Command::WaitSemaphore {
                semaphore: device.own_semaphore(&**semaphore, operation)?,
                value,
            },
            contract::Command::SignalSemaphore { semaphore, value } => Command::SignalSemaphore {
                semaphore: device.own_semaphore(&**semaphore, operation)?,
                value,
            },
            contract::Command::WriteTimestamp { pool, index } => Command::WriteTimestamp {
                pool: device.own_timestamps(pool, index)?,
                index,
            },
            contract::Command::RunGraph { graph } => Command::RunGraph {
                plan: device.own_graph(graph)?,
            },
            contract::Command::WaitMemory(wait) => {
                self.check_word(wait.at, wait.value, operation)?;
                Command::WaitMemory(wait)
            }
            contract::Command::WriteMemory { at, value } => Command::WriteMemory {
                at: self.check_word(at, value, operation)?,
                value,
            },
            _ => return Err(error(ErrorKind::Unsupported)),
        })
    }

    fn check_word(
        &self,
        at: DevicePtr,
        value: MemoryWord,
        operation: Operation,
    ) -> Result<DeviceRange, DriverError> {
        let (address, alignment) = (at.address(), value.bytes());
        if !address.is_multiple_of(alignment) {
            let kind = ErrorKind::Misaligned {
                value: address,
                alignment,
            };
            return Err(self.core.device.error(kind, operation));
        }
        self.core.device.device_range(at, value.bytes(), operation)
    }

    #[inline(always)]
    pub(super) fn check_wait<'q>(
        &self,
        given: &'q dyn Queue,
        position: Position,
    ) -> Result<&'q Arc<QueueCore>, DriverError> {
        let device = &self.core.device;
        let foreign = || {
            let given = given.device();
            device.error(ErrorKind::ForeignObject { given }, Operation::WaitQueue)
        };
        let other: &dyn Any = given;
        let other = other.downcast_ref::<Self>().ok_or_else(foreign)?;
        if !other.core.device.is_beside(device) {
            return Err(foreign());
        }
        other.check_position(position, Operation::WaitQueue)?;
        Ok(&other.core)
    }

    #[inline]
    pub(super) fn check_position(
        &self,
        position: Position,
        operation: Operation,
    ) -> Result<(), DriverError> {
        let submitted = Position::new(self.core.ring.submitted());
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
