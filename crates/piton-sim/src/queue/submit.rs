//! The contract's queue: checks what it is given, then puts a command in the ring.

#![expect(
    unsafe_code,
    reason = "implements the contract's queue, and is the ring's producer"
)]

use super::{Producer, QueueCore, Watcher, writer::SimWriter};
use crate::{
    check,
    command::{Arguments, Command, Entry, INLINE_BYTES, KernelRef},
    engine::Deadlock,
    presence::{self, Presence},
};
use piton_driver as contract;
use piton_driver::{
    Admission, DeviceId, DevicePtr, DeviceRange, DriverError, ErrorKind, HardwareQueue, Kernel,
    Launch, MemoryWord, Operation, Origin, Position, Priority, Queue, QueueActivity, QueueFailure,
    QueueId, QueueWait, QueueWriter, WaitOutcome,
};
use piton_sync::atomic::Ordering;
use smallvec::SmallVec;
use std::{any::Any, iter, sync::Arc, task::Waker, time::Instant};

/// The handle of a queue. Dropping it frees its place on the hardware queue; what was submitted still runs.
#[derive(Debug)]
pub(crate) struct SimQueue {
    pub(crate) core: Arc<QueueCore>,
    pub(super) _presence: Presence,
}

/// Both, one behind the other, in what fits.
#[inline(always)]
fn inline_bytes(packed: &[u8], extents: &[u8]) -> [u8; INLINE_BYTES] {
    // The commonest length is one move, and any other a call of `memcpy`.
    packed.try_into().unwrap_or_else(|_| {
        let mut bytes = [0; INLINE_BYTES];
        let both = packed.iter().chain(extents);
        bytes
            .iter_mut()
            .zip(both)
            .for_each(|(to, from)| *to = *from);
        bytes
    })
}

impl QueueCore {
    /// Whether there is room for so many commands.
    #[inline(always)]
    fn has_room(&self, producer: &mut Producer, count: u64) -> bool {
        let (last, capacity) = (self.ring.submitted() + count, self.ring.capacity());
        if last - producer.completed > capacity {
            producer.completed = self.progress.reached();
        }
        last - producer.completed <= capacity
    }

    /// A launch's arguments, and behind them its extents, copied to where they stay until it has ended; `None` where
    /// there is no room.
    #[inline(always)]
    fn place(&self, producer: &mut Producer, launch: &Launch<'_>) -> Option<Arguments> {
        let extents: &[u8] = bytemuck::cast_slice(launch.extents);
        let packed = launch.arguments;
        let length = packed.len() + extents.len();
        if length <= INLINE_BYTES {
            let length = u8::try_from(length).ok()?;
            return Some(Arguments::Inline {
                length,
                words: bytemuck::cast(inline_bytes(packed, extents)),
            });
        }
        if !self.consumer.parameters.holds(length) {
            let own = [packed, extents].concat().into_boxed_slice();
            return Some(Arguments::Own(own));
        }
        let claimed = &mut producer.claimed;
        // SAFETY: whoever has the producer is the only one, and the size was asked about.
        let reservation = unsafe {
            self.consumer
                .parameters
                .push(claimed, packed, launch.extents)
        }?;
        Some(Arguments::Ring(reservation))
    }

    /// Puts a checked command into the ring, without starting it.
    ///
    /// # Safety
    /// The caller has the producer, and [`has_room`](Self::has_room) has just said yes.
    #[inline(always)]
    unsafe fn publish(self: &Arc<Self>, command: Command, origin: Origin) -> Position {
        if let Command::SignalSemaphore { semaphore, value } = &command {
            semaphore.promise(self, self.ring.submitted() + 1, *value);
        }
        let entry = Entry {
            command,
            origin,
            submitted_at: self.engine().host_now(),
        };
        // SAFETY: whoever has the producer is the only one; there is room, by the counter.
        Position::new(unsafe { self.ring.publish(entry) })
    }

    /// `count` commands were published.
    pub(super) fn start(self: &Arc<Self>, count: u32) {
        if self.ring.ring() {
            self.engine().schedule_submitted(self);
        } else {
            self.engine().submitted(count);
        }
    }

    /// Starts what a writer may have left unstarted.
    fn start_what_is_there(self: &Arc<Self>) {
        if self.progress.reached() < self.ring.submitted() && self.ring.ring() {
            self.engine().schedule_submitted(self);
        }
    }

    /// Somebody waits for a command of this queue, which he saw submitted: it starts, if a writer has left it unstarted. The
    /// writer was there before the command was.
    pub(crate) fn start_what_is_awaited(self: &Arc<Self>) {
        if self.has_writer.load(Ordering::Acquire) {
            self.start_what_is_there();
        }
    }

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

    /// An abort is in place: a stall that it may end, ends.
    fn end_stall_by_abort(self: &Arc<Self>) {
        self.wake_aborted();
        self.engine().share();
    }
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

impl SimQueue {
    /// Checks a launch, and that the queue keeps its kernel.
    #[inline(always)]
    fn check_launch(
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
    fn put_behind(
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

    /// Checks a wait, and takes hold of the queue it names.
    fn wait(&self, wait: &QueueWait<'_>) -> Result<Command, DriverError> {
        Ok(Command::WaitQueue {
            queue: Arc::clone(self.check_wait(wait.queue, wait.position)?),
            position: wait.position.get(),
            inherits: wait.inherits,
        })
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

    /// Checks a command that is no launch nor a wait for a queue, and takes hold of what it names.
    fn check(
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
            } => self.wait(&QueueWait {
                queue,
                position,
                inherits,
            })?,
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
    fn check_wait<'q>(
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

    fn check_position(&self, position: Position, operation: Operation) -> Result<(), DriverError> {
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
        let checked = waits.iter().map(|wait| self.wait(wait));
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
