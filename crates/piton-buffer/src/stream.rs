//! A stream on which only safe things can be done.

#![expect(
    unsafe_code,
    reason = "passes what its callers promise on to the stream underneath"
)]

use crate::{
    BufferError, DeviceBuffer, DeviceContext, KernelLaunch, LoadedKernel, PinnedBuffer,
    PlannedPool, PrivatePool,
    device_memory::{DeviceMemory, Origin},
    host_view::HostMemory,
    uses::{UseKind, Uses},
};
use bytemuck::Pod;
use piton_driver::{Command, DeviceId, DeviceRange, Grid, WaitOutcome};
use piton_graph::Behind;
use piton_pinned::Refused;
use piton_stream::{Completion, Event, StreamOptions, Waited};
use piton_timeline::{Frontier, Timepoint};
use std::{sync::Arc, time::Instant};

/// One use of memory by a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use<'a> {
    pub(crate) memory: Memory<'a>,
    pub(crate) kind: UseKind,
}

/// Memory that has a record of its uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Memory<'a> {
    Device(&'a DeviceMemory),
    Host(&'a HostMemory),
}

impl<'a> Use<'a> {
    pub(crate) fn of(memory: &'a DeviceMemory, kind: UseKind) -> Self {
        let memory = Memory::Device(memory);
        Self { memory, kind }
    }

    pub(crate) fn read(memory: &'a DeviceMemory) -> Self {
        Self::of(memory, UseKind::Read)
    }

    pub(crate) fn write(memory: &'a DeviceMemory) -> Self {
        Self::of(memory, UseKind::Write)
    }
}

impl<'a> Memory<'a> {
    fn context(self) -> &'a DeviceContext {
        match self {
            Self::Device(memory) => &memory.context,
            Self::Host(memory) => &memory.context,
        }
    }

    /// All of it.
    pub(crate) fn range(self) -> DeviceRange {
        match self {
            Self::Device(memory) => memory.range(),
            Self::Host(memory) => memory.range,
        }
    }

    fn uses(self) -> &'a Uses {
        match self {
            Self::Device(memory) => &memory.uses,
            Self::Host(memory) => &memory.uses,
        }
    }
}

/// An in-order sequence of work on one device.
///
/// Work of one stream runs in order. Work of two is ordered where it must be: by the buffers it shares, and by
/// the events a program waits for. Everything returns before the work has run, unless it says that it blocks.
///
/// May be used from several threads. Dropping it never blocks: what was submitted still runs.
#[derive(Debug)]
pub struct Stream {
    context: Arc<DeviceContext>,
    raw: piton_stream::Stream,
}

impl Stream {
    /// A stream on the context's device.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream): a priority out of range, no queue or lane left, a lost device.
    pub fn new(context: &Arc<DeviceContext>, options: StreamOptions) -> Result<Self, BufferError> {
        let raw = context.streams.create(&context.device, options)?;
        Ok(Self {
            context: Arc::clone(context),
            raw,
        })
    }

    /// A buffer of `len` elements, holding whatever was in that memory before.
    ///
    /// # Errors
    /// [`InvalidLength`](BufferError::InvalidLength) for zero or too many; [`Memory`](BufferError::Memory)
    /// where the pool has none left, with its numbers.
    #[track_caller]
    pub fn allocate<T: Pod>(&self, len: u64) -> Result<DeviceBuffer<T>, BufferError> {
        let bytes = size_in_bytes::<T>(len)?;
        let memory = DeviceMemory::allocate(&self.context, &self.raw, bytes)?;
        Ok(DeviceBuffer::new(memory, len))
    }

    /// A buffer of `len` elements of a private pool's memory, to which it goes back.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime).
    #[track_caller]
    pub fn allocate_from<T: Pod>(
        &self,
        pool: &PrivatePool,
        len: u64,
    ) -> Result<DeviceBuffer<T>, BufferError> {
        self.context.same_device(&pool.context)?;
        self.allocate_of(Origin::Pool(Arc::clone(&pool.pool)), len)
    }

    /// A buffer of `len` elements that a plan has a place for, or of the pool the plan is served from. It goes back there.
    ///
    /// # Errors
    /// As [`allocate_from`](Self::allocate_from).
    #[track_caller]
    pub fn allocate_planned<T: Pod>(
        &self,
        pool: &PlannedPool,
        len: u64,
    ) -> Result<DeviceBuffer<T>, BufferError> {
        self.context.same_device(&pool.context)?;
        self.allocate_of(Origin::Planned(Arc::clone(&pool.planned)), len)
    }

    /// A buffer of memory of this device that is to go back where `origin` says.
    #[track_caller]
    fn allocate_of<T: Pod>(
        &self,
        origin: Origin,
        len: u64,
    ) -> Result<DeviceBuffer<T>, BufferError> {
        let bytes = size_in_bytes::<T>(len)?;
        let memory = DeviceMemory::allocate_from(&self.context, origin, &self.raw, bytes)?;
        Ok(DeviceBuffer::new(memory, len))
    }

    /// A buffer of `len` elements, all bytes zero.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and what [`fill`](Self::fill) refuses.
    #[track_caller]
    pub fn allocate_zeroed<T: Pod>(&self, len: u64) -> Result<DeviceBuffer<T>, BufferError> {
        let mut buffer = self.allocate(len)?;
        self.clear(&mut buffer)?;
        Ok(buffer)
    }

    /// A page-locked buffer of `len` elements near this stream's device, all bytes zero.
    ///
    /// # Errors
    /// [`InvalidLength`](BufferError::InvalidLength); [`Pinned`](BufferError::Pinned) where the pool has none
    /// left or the system refuses to lock it.
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<PinnedBuffer<T>, BufferError> {
        PinnedBuffer::zeroed(&self.context, len)
    }

    /// A page-locked buffer of elements that the program has already: [`PinnedBuffer::register`].
    ///
    /// # Errors
    /// The driver's, and that there are none; the elements come back with the error.
    pub fn register<T: Pod>(
        &self,
        elements: impl Into<Box<[T]>>,
    ) -> Result<PinnedBuffer<T>, Refused<Box<[T]>>> {
        PinnedBuffer::register(&self.context, elements)
    }

    /// Starts putting together a launch of `kernel` over `grid` blocks.
    pub fn launch<'a>(&'a self, kernel: &'a LoadedKernel, grid: Grid) -> KernelLaunch<'a> {
        KernelLaunch::new(self, kernel, grid)
    }

    /// An event at the place after everything submitted so far. Submits nothing.
    pub fn record(&self) -> Event {
        self.raw.record()
    }

    /// As [`record`](Self::record), with the device's time when the place is reached.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) where the device has no clock.
    #[track_caller]
    pub fn record_timed(&self) -> Result<Event, BufferError> {
        Ok(self.raw.record_timed()?)
    }

    /// Later work of this stream starts when `event` is reached. Blocks no thread.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) for an event of another runtime.
    #[track_caller]
    pub fn wait(&self, event: &Event) -> Result<Waited, BufferError> {
        Ok(self.raw.wait(event)?)
    }

    /// Runs `function` on a host thread when all earlier work has ended; later work waits for its return. It may
    /// submit work; waiting on the host for this stream inside it is an error that says so.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) where the device cannot call the host.
    #[track_caller]
    pub fn call_host(&self, function: impl FnOnce() + Send + 'static) -> Result<(), BufferError> {
        self.raw.call_host(function)?;
        Ok(())
    }

    /// Blocks until everything submitted has ended.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) if work failed (with what, where it was submitted, and what it comes
    /// from), or inside a host function of this stream.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), BufferError> {
        Ok(self.raw.synchronize()?)
    }

    /// As [`synchronize`](Self::synchronize), until `deadline` at most. One that has passed answers at once.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize). That the deadline passed is no error:
    /// [`DeadlinePassed`](WaitOutcome::DeadlinePassed).
    #[track_caller]
    pub fn synchronize_until(&self, deadline: Instant) -> Result<WaitOutcome, BufferError> {
        Ok(self.raw.synchronize_until(deadline)?)
    }

    /// Whether everything submitted has ended. Does not block.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) if it has, and work failed.
    #[track_caller]
    pub fn query(&self) -> Result<bool, BufferError> {
        Ok(self.raw.query()?)
    }

    /// A future that ends when everything submitted so far has. Needs no particular executor.
    #[track_caller]
    pub fn completion(&self) -> Completion {
        self.raw.completion()
    }

    /// Starts what was submitted and not started yet. Does not block. Needed by nobody who waits or asks later:
    /// those start it themselves, and the device does soon.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) where the device is lost.
    pub fn flush(&self) -> Result<(), BufferError> {
        Ok(self.raw.flush()?)
    }

    /// How many commands were submitted and have not ended.
    pub fn depth(&self) -> u64 {
        self.raw.depth()
    }

    /// How many more commands fit before a submission blocks, or is refused.
    pub fn free(&self) -> u64 {
        self.raw.free()
    }

    /// Whether the two take turns on one hardware queue, so that they cannot overlap.
    pub fn shares_queue_with(&self, other: &Self) -> bool {
        self.raw.shares_queue_with(&other.raw)
    }

    /// The device it runs on.
    pub fn device(&self) -> DeviceId {
        self.context.id()
    }

    /// The stream underneath, for what is not safe.
    pub fn raw(&self) -> &piton_stream::Stream {
        &self.raw
    }

    /// As [`raw`](Self::raw), for what takes the stream alone.
    pub(crate) fn raw_mut(&mut self) -> &mut piton_stream::Stream {
        &mut self.raw
    }

    pub(crate) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }

    /// What uses of this device's memory depend on. What was submitted [behind](Ordered::after) that is noted with
    /// [`note`](Ordered::note). No closure comes between, so that callers are tracked.
    pub(crate) fn order<'a>(&self, uses: &'a [Use<'a>]) -> Result<Ordered<'a>, BufferError> {
        for used in uses {
            self.context.same_device(used.memory.context())?;
        }
        self.order_anywhere(uses)
    }

    /// As [`order`](Self::order), for memory of any device of the runtime.
    pub(crate) fn order_anywhere<'a>(
        &self,
        uses: &'a [Use<'a>],
    ) -> Result<Ordered<'a>, BufferError> {
        let mut seen = Behind::new();
        for used in uses {
            self.context.same_runtime(used.memory.context())?;
            seen.push(used.memory.uses().before(used.kind));
        }
        Ok(Ordered { uses, seen })
    }

    /// Submits the command that makes the uses, behind what they depend on and with all waits for that or not at all,
    /// and notes them.
    ///
    /// # Safety
    /// See [the safety of submission](piton_stream::Stream#safety-of-submission), where what the uses name is ordered
    /// and lives.
    #[track_caller]
    pub(crate) unsafe fn submit_ordered(
        &self,
        ordered: Ordered<'_>,
        command: &Command<'_>,
    ) -> Result<Timepoint, BufferError> {
        // SAFETY: the caller promised the same.
        let point = unsafe { self.raw.submit_behind(ordered.after(), command)? };
        ordered.note(&point.into());
        Ok(point)
    }
}

/// Uses of memory, and what they depend on, before the command that makes them is submitted.
#[must_use = "a use that was submitted and not noted lets memory go too early"]
#[derive(Debug)]
pub(crate) struct Ordered<'a> {
    uses: &'a [Use<'a>],
    seen: Behind,
}

impl Ordered<'_> {
    /// As well behind what host memory depends on.
    pub(crate) fn and_behind(mut self, before: &Frontier) -> Self {
        self.seen.push(before.clone());
        self
    }

    /// What the command must come behind.
    pub(crate) fn after(&self) -> &[Frontier] {
        &self.seen
    }

    /// Notes that the uses were submitted and have ended at `points`; nothing was, if there are none.
    pub(crate) fn note(self, points: &Frontier) {
        if points.is_empty() {
            return;
        }
        // Reads first: a command that reads and writes one buffer is remembered as its writer.
        for are_writers in [false, true] {
            for (used, seen) in self.uses.iter().zip(&self.seen) {
                if (used.kind == UseKind::Write) == are_writers {
                    used.memory.uses().note(used.kind, seen, points);
                }
            }
        }
    }
}

/// Bytes of `len` elements.
pub(crate) fn size_in_bytes<T>(len: u64) -> Result<u64, BufferError> {
    let element_bytes = size_of::<T>() as u64;
    let bytes = len.checked_mul(element_bytes).filter(|bytes| *bytes > 0);
    bytes.ok_or(BufferError::InvalidLength {
        elements: len,
        element_bytes,
    })
}
