//! Submission: a checked command is put into the ring, with the waits it comes behind or not at all.

#![expect(unsafe_code, reason = "is the ring's producer")]

use super::{Producer, QueueCore, SimQueue};
use crate::command::Command;
use piton_driver as contract;
use piton_driver::{Admission, DriverError, Launch, Operation, Origin, Position, Queue};
use smallvec::SmallVec;
use std::{iter, sync::Arc};

impl QueueCore {
    /// Submits what `make` makes where there is room for it.
    pub(crate) fn submit_with(
        self: &Arc<Self>,
        origin: Origin,
        make: impl FnOnce() -> Option<Command>,
    ) -> Admission {
        self.engine().while_submitting(|| {
            let mut producer = self.producer.take();
            if !self.has_room(&mut producer, 1) {
                return Admission::Full;
            }
            let Some(command) = make() else {
                return Admission::Full;
            };
            // SAFETY: the producer is held, and there is room.
            let position = unsafe { self.publish(command, origin) };
            drop(producer);
            self.start(1);
            Admission::Accepted(position)
        })
    }
}

impl SimQueue {
    /// Puts a command into the ring, without starting it. The caller has passed the gate.
    ///
    /// Launches and waits go ways of their own: a command that is made in one place and moved to the ring from there costs
    /// a quarter of its submission.
    pub(super) fn put(
        &self,
        producer: &mut Producer,
        command: &contract::Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        match *command {
            contract::Command::Launch(ref launch) => {
                self.put_launch(producer, iter::empty(), launch, origin)
            }
            contract::Command::WaitQueue {
                queue,
                position,
                inherits,
            } => self.put_wait(producer, (queue, position), inherits, origin),
            _ => self.put_other(producer, iter::empty(), command, origin),
        }
    }

    /// As [`put`](Self::put), behind waits that were checked; all of them or nothing. Nothing is put before it is known
    /// that all there is to put has its place, arguments among it.
    #[inline]
    pub(super) fn put_behind(
        &self,
        producer: &mut Producer,
        waits: SmallVec<[Command; 2]>,
        command: &contract::Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let waits = waits.into_iter();
        match command {
            contract::Command::Launch(launch) => self.put_launch(producer, waits, launch, origin),
            _ => self.put_other(producer, waits, command, origin),
        }
    }

    // Made where it is put: a command that is moved to the ring before its parts have left the store buffer costs 5 ns.
    #[inline(always)]
    fn put_launch(
        &self,
        producer: &mut Producer,
        waits: impl ExactSizeIterator<Item = Command>,
        launch: &Launch<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let core = &self.core;
        let kernel = self
            .check_launch(producer, launch)
            .map_err(|kind| core.device.error(kind, Operation::Launch))?;
        if !core.has_room(producer, 1 + waits.len() as u64) {
            return Ok(Admission::Full);
        }
        let Some(arguments) = core.place(producer, launch) else {
            return Ok(Admission::Full);
        };
        for wait in waits {
            // SAFETY: the producer is the caller's, and there is room for all.
            unsafe { core.publish(wait, origin) };
        }
        let command = Command::Launch {
            kernel,
            grid: launch.grid,
            arguments,
        };
        // SAFETY: as above.
        let position = unsafe { core.publish(command, origin) };
        producer.kept.note(launch.kernel, position.get());
        Ok(Admission::Accepted(position))
    }

    #[inline(always)]
    fn put_wait(
        &self,
        producer: &mut Producer,
        (other, position): (&dyn Queue, Position),
        inherits: bool,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let other = self.check_wait(other, position)?;
        if !self.core.has_room(producer, 1) {
            return Ok(Admission::Full);
        }
        let command = Command::WaitQueue {
            queue: Arc::clone(other),
            position: position.get(),
            inherits,
        };
        // SAFETY: the producer is the caller's, and there is room.
        Ok(Admission::Accepted(unsafe {
            self.core.publish(command, origin)
        }))
    }

    fn put_other(
        &self,
        producer: &mut Producer,
        waits: impl ExactSizeIterator<Item = Command>,
        command: &contract::Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let command = self.check(command, command.operation())?;
        if !self.core.has_room(producer, 1 + waits.len() as u64) {
            return Ok(Admission::Full);
        }
        for wait in waits {
            // SAFETY: the producer is the caller's, and there is room for all.
            unsafe { self.core.publish(wait, origin) };
        }
        // SAFETY: as above.
        Ok(Admission::Accepted(unsafe {
            self.core.publish(command, origin)
        }))
    }
}
