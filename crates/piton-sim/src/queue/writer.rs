//! A queue for one producer alone.
//!
//! It has the producer's right for as long as it lives, so a submission takes none, and it rings the queue's bell once
//! for many commands: at every [`UNSTARTED`]th, at a command that tells others something, at a flush, and at its end. Who
//! waits for this queue, on the host or in another queue, rings it himself.

#![expect(unsafe_code, reason = "implements the contract's writer")]

use super::{Producer, SimQueue};
use crate::turns::Keeper;
use piton_driver::{Admission, Command, DriverError, Operation, Origin, QueueWriter};
use piton_sync::atomic::Ordering;
use std::{fmt, mem::ManuallyDrop};

/// Commands that wait unstarted at most: a slice's worth.
const UNSTARTED: u32 = 16;

/// The writer.
pub(super) struct SimWriter<'a> {
    queue: &'a SimQueue,
    /// Left as it is in a fork: to let a lock go that others wait for is to look for them, under locks.
    producer: ManuallyDrop<Keeper<'a, Producer>>,
    unstarted: u32,
}

impl fmt::Debug for SimWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWriter")
            .field("queue", &self.queue.core.id)
            .field("unstarted", &self.unstarted)
            .finish_non_exhaustive()
    }
}

/// Whether others may wait for what the command does without naming its queue, so that they cannot start it.
fn tells_others(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::SignalSemaphore { .. } | Command::WriteMemory { .. }
    )
}

impl<'a> SimWriter<'a> {
    /// The writer of a queue, unless somebody else is its producer now.
    pub(super) fn new(queue: &'a SimQueue) -> Option<Self> {
        let producer = ManuallyDrop::new(queue.core.producer.keep()?);
        queue.core.has_writer.store(true, Ordering::Relaxed);
        Some(Self {
            queue,
            producer,
            unstarted: 0,
        })
    }

    fn start(&mut self) {
        let count = std::mem::take(&mut self.unstarted);
        if count > 0 {
            self.queue.core.start(count);
        }
    }
}

// SAFETY: it puts commands where the queue does, as the ring's only producer.
unsafe impl QueueWriter for SimWriter<'_> {
    unsafe fn submit(
        &mut self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        self.queue.core.device.gate(command.operation())?;
        let admission = self.queue.put(&mut self.producer, command, origin)?;
        if admission == Admission::Full {
            // What is to make room must have been started.
            self.start();
            return Ok(admission);
        }
        self.unstarted += 1;
        if self.unstarted >= UNSTARTED || tells_others(command) {
            self.start();
        }
        Ok(admission)
    }

    fn flush(&mut self) -> Result<(), DriverError> {
        self.queue.core.device.gate(Operation::Flush)?;
        self.start();
        self.queue.core.engine().announce();
        Ok(())
    }
}

impl Drop for SimWriter<'_> {
    fn drop(&mut self) {
        if self.queue.core.device.machine().fork.is_fork() {
            return;
        }
        self.start();
        let has_writer = &self.queue.core.has_writer;
        has_writer.store(false, Ordering::Release);
        // SAFETY: the writer is gone after this, and nothing else drops the guard.
        unsafe { ManuallyDrop::drop(&mut self.producer) };
    }
}
