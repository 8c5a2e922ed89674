//! Queues: the contract's face of them.
//!
//! # The idea
//! **Only what can run without the host is handed to the driver.** Launches, copies, fills, timestamps, and waits for what
//! another queue has handed over go to a native in-order queue at once, each with an event of its own. Everything the host
//! resolves (semaphores, host functions, waits for what is itself still held) stays here with all that comes behind it,
//! until it is resolved. So no native queue ever waits for the host, and what comes behind a
//! failure that the host knows of is never handed over: the contract's "ends without running" holds to the letter.
//!
//! A position is in one of three states: *ended* (up to the counter), *in flight* (handed over, or nothing left to do but
//! wait for others), *held*. In flight, an event says when it has ended. Events are asked when somebody asks us; the driver
//! calls back only where somebody must be woken.
//!
//! # Files
//! `check` holds a command against the books, `request` is one that was; `state` is what a queue remembers, under its lock;
//! `core` is the queue; `pump` moves commands from held to in flight, `retire` from there to ended; `watch` wakes who waits
//! for that.
//!
//! # Locks
//! A queue's state, then one of: a verdict (leaf), a kernel's object, a trace, a pool's slots, the inbox of the completion
//! thread. Two queues' states are never held together: who needs another queue lets go of its own first. No waker, no host
//! function and no destructor of one runs under any of them.

#![expect(unsafe_code, reason = "implements the contract")]

mod check;
mod core;
mod pump;
mod request;
mod retire;
mod state;
mod watch;

pub(crate) use core::Core;
pub(crate) use pump::{Fired, advance};
pub(crate) use request::Work;
pub(crate) use state::{Flight, Shows, Tag};
use watch::Watcher;

use crate::{
    backend::{NativeDevice, VendorStatus},
    placement::NoPlace,
};
use piton_driver::{
    Admission, Command, DeviceId, DriverError, ErrorKind, HardwareQueue, Operation, Origin,
    Position, Priority, PriorityRange, Queue, QueueActivity, QueueFailure, QueueId, QueueOptions,
    QueueWait, QueueWriter, WaitOutcome,
};
use std::{sync::Arc, task::Waker, time::Instant};

/// A handle of a queue. Dropping it detaches the queue: what was submitted still runs.
#[derive(Debug)]
pub struct InOrderQueue<D: NativeDevice>(Arc<Core<D>>);

impl<D: NativeDevice> InOrderQueue<D> {
    pub(crate) fn core(&self) -> &Arc<Core<D>> {
        &self.0
    }
}

/// The body of [`piton_driver::Queues::create`] on a device. Cores are not known: the facet is for backends that have
/// none to name.
///
/// # Errors
/// As the contract says.
pub fn create_queue<D: NativeDevice>(
    device: &D,
    options: &QueueOptions,
) -> Result<Arc<dyn Queue>, DriverError> {
    let operation = Operation::CreateQueue;
    let standing = device.standing();
    standing.alive(operation)?;
    let counted = device.counted().ok_or_else(|| standing.lost(operation))?;
    let error = |kind| device.refusal(kind, operation);
    let only_default = PriorityRange {
        highest: Priority::DEFAULT,
        lowest: Priority::DEFAULT,
    };
    let (priority, range) = (options.priority, device.priorities());
    let range = range.unwrap_or(only_default);
    if !range.contains(priority) {
        return Err(error(ErrorKind::InvalidPriority {
            given: priority.0,
            highest: range.highest.0,
            lowest: range.lowest.0,
        }));
    }
    let most = device.info().limits.queue_commands;
    if let Some(commands) = options.commands
        && !(1..=most).contains(&commands)
    {
        return Err(error(ErrorKind::InvalidSize {
            bytes: commands.into(),
            maximum: most.into(),
        }));
    }
    if let Some(units) = options.compute_units {
        return Err(error(ErrorKind::InvalidIndex {
            index: units.0,
            limit: 0,
        }));
    }
    let create = || device.make_queue(priority);
    let place = standing.places.take(options.placement, priority, create);
    let place = place.map_err(|refusal| match refusal {
        NoPlace::Refused(kind) => error(kind),
        NoPlace::Native(status) => status.error(operation, device.info().id),
    })?;
    let core = Core::new(&counted, place, options);
    standing.note_queue(&core);
    Ok(Arc::new(InOrderQueue(core)))
}

// SAFETY: positions are given out under the queue's lock, in order; the counter passes a position only when its event says
// that it has ended, or nothing of it was ever handed over, and for waits only when the other counter has passed too
// (`retire`). It is stored with Release after the event was waited for, which makes the device's writes visible.
unsafe impl<D: NativeDevice> Queue for InOrderQueue<D> {
    fn id(&self) -> QueueId {
        self.0.id
    }

    fn device(&self) -> DeviceId {
        self.0.device.info().id
    }

    fn priority(&self) -> Priority {
        self.0.priority
    }

    fn hardware_queue(&self) -> HardwareQueue {
        self.0.place.number()
    }

    fn capacity(&self) -> u64 {
        self.0.capacity
    }

    fn submitted(&self) -> Position {
        Position::new(self.0.submitted())
    }

    fn completed(&self) -> Position {
        Position::new(self.0.glance())
    }

    fn failure(&self) -> Option<QueueFailure> {
        let _completed = self.0.glance();
        self.0.verdict.lock().failure
    }

    unsafe fn submit(
        &self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let (request, tag) = check::check(&self.0, command, origin)?;
        // SAFETY: the caller promised what the contract asks for the command's memory.
        let admission = unsafe { self.0.submit(request, tag) }?;
        // The command is in: whatever a flush says now is no refusal of it.
        if let Err(error) = self.0.flush(Operation::Flush) {
            self.0.device.standing().keep_error(error);
        }
        Ok(admission)
    }

    unsafe fn submit_behind(
        &self,
        waits: &[QueueWait<'_>],
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let waits: Vec<_> = waits.iter().map(|wait| wait.command()).collect();
        let all = waits.iter().chain([command]);
        let checked = all.map(|command| check::check(&self.0, command, origin));
        let checked = checked.collect::<Result<_, _>>()?;
        // SAFETY: the caller promised what the contract asks for the command's memory.
        let admission = unsafe { self.0.submit_all(checked) };
        // The commands are in: whatever a flush says now is no refusal of them.
        if let Err(error) = self.0.flush(Operation::Flush) {
            self.0.device.standing().keep_error(error);
        }
        Ok(admission)
    }

    fn writer(&self) -> Option<Box<dyn QueueWriter + '_>> {
        Some(Box::new(Writer(&self.0)))
    }

    fn abort(&self) -> Result<(), DriverError> {
        self.0.device.standing().alive(Operation::Abort)?;
        self.0.abort();
        Ok(())
    }

    fn clear_failure(&self) -> Result<Option<QueueFailure>, DriverError> {
        self.0.device.standing().alive(Operation::ClearFailure)?;
        self.0.clear_failure()
    }

    fn activity(&self) -> QueueActivity {
        let _completed = self.0.glance();
        self.0.activity()
    }

    fn flush(&self) -> Result<(), DriverError> {
        self.0.flush(Operation::Flush)
    }

    fn wait(
        &self,
        position: Position,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, DriverError> {
        self.0.known(position, Operation::Wait)?;
        self.0.flush(Operation::Wait)?;
        Ok(self.0.wait(position.get(), deadline))
    }

    fn notify(&self, position: Position, waker: &Waker) -> Result<(), DriverError> {
        self.0.known(position, Operation::Notify)?;
        self.0.flush(Operation::Notify)?;
        if !self.0.watch(position.get(), Watcher::Waker(waker.clone())) {
            waker.wake_by_ref();
        }
        Ok(())
    }
}

impl<D: NativeDevice> Drop for InOrderQueue<D> {
    /// Nobody will look at the queue any more: the completion thread ends what is left, and with it what its commands
    /// hold of other queues.
    fn drop(&mut self) {
        if let Err(error) = self.0.flush(Operation::Flush) {
            self.0.device.standing().keep_error(error);
        }
        let _is_watched = self.0.watch(self.0.submitted(), Watcher::Sleeper);
    }
}

/// Submits without flushing each time. Others may submit meanwhile: the lock is the same.
#[derive(Debug)]
struct Writer<'a, D: NativeDevice>(&'a Arc<Core<D>>);

// SAFETY: as for `InOrderQueue`.
unsafe impl<D: NativeDevice> QueueWriter for Writer<'_, D> {
    unsafe fn submit(
        &mut self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let (request, tag) = check::check(self.0, command, origin)?;
        // SAFETY: the caller promised what the contract asks.
        unsafe { self.0.submit(request, tag) }
    }

    fn flush(&mut self) -> Result<(), DriverError> {
        self.0.flush(Operation::Flush)
    }
}

impl<D: NativeDevice> Drop for Writer<'_, D> {
    fn drop(&mut self) {
        if let Err(error) = self.0.flush(Operation::Flush) {
            self.0.device.standing().keep_error(error);
        }
    }
}
