//! Queues: commands that run in order, and the counter that says how far they are.
//!
//! # Protocol
//! - The n-th accepted command of a queue has position n, from 1. Commands of one queue start and end in that
//!   order. Commands of two queues are not ordered unless one waits for the other.
//! - [`Queue::completed`] is the last position that has *ended*: done, failed, or skipped. When it reads n,
//!   the device touches nothing that commands 1..=n named, and the host sees what they wrote (an Acquire
//!   load that pairs with the device's Release).
//! - A command that fails poisons its queue: [`Queue::failure`] names it, later commands end as skipped
//!   without running, and a queue that waits for a position at or past the failure fails in its turn. Other
//!   queues run on.
//! - A [`Queue::wait_for`] that is skipped still ends only when the position it names has. So "it has ended" goes
//!   on meaning "all that was ordered before it has ended", failures or not, and memory freed in the order of
//!   one queue is out of use by the others that it had waited for.
//! - Submitting does not start anything by itself at once, but soon: a queue nobody flushes or waits for still
//!   runs. [`Queue::flush`] says "now".
//! - Dropping the last handle of a queue detaches it: what was submitted still runs.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

mod by_name;

use crate::{
    Command, ComputeUnitSet, DeviceId, DriverError, ErrorKind, Operation, Origin, QueueActivity,
};
use std::{any::Any, fmt, fmt::Debug, sync::Arc, task::Waker, time::Instant};

/// A command's place in its queue, from 1. Zero is the place before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before the first command.
    pub const START: Self = Self(0);

    /// The place with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A queue's name among all queues its driver ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}", self.0)
    }
}

/// A hardware queue of a device, from 0. Queues on the same one do not run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareQueue(pub u32);

/// Whose commands go first when the device must choose. Smaller is higher, as in CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// What a queue has if nobody says otherwise. Devices know it, and mostly none that is lower.
    pub const DEFAULT: Self = Self(0);
}

/// The priorities a device knows, from the highest (smallest number) to the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// The smallest number.
    pub highest: Priority,
    /// The largest number.
    pub lowest: Priority,
}

impl PriorityRange {
    /// Whether the device knows this priority.
    pub fn contains(self, priority: Priority) -> bool {
        self.highest <= priority && priority <= self.lowest
    }
}

/// Which hardware queue a new queue is placed on. It stays there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The one with the fewest queues; the lowest number among equals.
    #[default]
    LeastLoaded,
    /// One that no other queue is on or will be placed on.
    Exclusive,
    /// This one.
    Explicit(HardwareQueue),
}

/// How a queue is to be made.
#[derive(Clone, Debug, Default)]
pub struct QueueOptions {
    /// Its priority. Without the facet only [`Priority::DEFAULT`] is accepted.
    pub priority: Priority,
    /// Which hardware queue it goes on.
    pub placement: Placement,
    /// The cores its kernels may use; all of them if none are named.
    pub compute_units: Option<ComputeUnitSet>,
    /// A name for traces and dumps.
    pub label: Option<Arc<str>>,
    /// How many commands it holds at most, between 1 and [`Limits::queue_commands`](crate::Limits::queue_commands). A
    /// device may round up to a power of two, and chooses where nothing is said.
    pub commands: Option<u32>,
    /// What becomes of commands behind one that failed.
    pub on_failure: OnFailure,
}

/// What becomes of a queue's later commands when one fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They end without running, until [`Queue::clear_failure`].
    #[default]
    Stop,
    /// They run. The first failure is kept all the same, and whoever waits for a position at or past it fails.
    Continue,
}

/// Making queues.
pub trait Queues: Send + Sync {
    /// Makes a queue. May block shortly.
    ///
    /// # Errors
    /// [`InvalidPriority`](crate::ErrorKind::InvalidPriority), never clamped;
    /// [`InvalidSize`](crate::ErrorKind::InvalidSize) for a number of commands outside the limits, likewise;
    /// [`InvalidIndex`](crate::ErrorKind::InvalidIndex) for a hardware queue or core that is not there;
    /// [`OutOfResources`](crate::ErrorKind::OutOfResources): too many queues, or no hardware queue is free to
    /// be held exclusively.
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError>;
}

/// Whether a command was taken. Contention is an outcome, not an error.
#[must_use = "a command that was not accepted will not run"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It was, at this position.
    Accepted(Position),
    /// The queue has no room. Nothing has changed; there is room again when `completed` has grown.
    Full,
}

/// How a wait on the host ended.
#[must_use = "a wait that met its deadline has not seen the work end"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The position has ended.
    Reached,
    /// The deadline came first.
    DeadlinePassed,
}

/// The command that poisoned a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFailure {
    /// Where it stood.
    pub position: Position,
    /// Why it failed.
    pub error: DriverError,
    /// Where it was submitted, as far as the driver knows.
    pub origin: Option<Origin>,
}

/// The value a fill repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillPattern {
    /// One byte.
    Byte(u8),
    /// Two bytes, native order; destination and size are multiples of 2.
    Half(u16),
    /// Four bytes, native order; destination and size are multiples of 4.
    Word(u32),
}

impl FillPattern {
    /// Bytes the pattern is long.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte(_) => 1,
            Self::Half(_) => 2,
            Self::Word(_) => 4,
        }
    }
}

/// A place of another queue that a command comes behind; see [`Queue::submit_behind`]. As a command of its own it is a
/// [`Command::WaitQueue`].
#[derive(Clone, Copy, Debug)]
pub struct QueueWait<'a> {
    /// Whose place.
    pub queue: &'a (dyn Queue + 'static),
    /// Which.
    pub position: Position,
    /// Whether a failure of that queue becomes the waiting one's.
    pub inherits: bool,
}

impl<'a> QueueWait<'a> {
    /// The wait by itself.
    pub fn command(self) -> Command<'a> {
        Command::WaitQueue {
            queue: self.queue,
            position: self.position,
            inherits: self.inherits,
        }
    }
}

/// An in-order queue of a device.
///
/// Every submitting method checks sizes and addresses against the device's books where it can, copies what it
/// is given by reference before it returns, never blocks, and answers [`Admission::Full`] rather than wait for
/// room. `# Errors` common to all of them: [`InvalidSize`](crate::ErrorKind::InvalidSize),
/// [`UnknownAddress`](crate::ErrorKind::UnknownAddress), [`DeviceLost`](crate::ErrorKind::DeviceLost); the
/// command was then not submitted and took no position.
///
/// # Safety
/// Implementers promise the protocol at the top of this module: unsafe code above frees and reuses memory on
/// the word of [`completed`](Queue::completed).
pub unsafe trait Queue: Any + Send + Sync + Debug {
    /// The queue's name.
    fn id(&self) -> QueueId;

    /// The device it runs on.
    fn device(&self) -> DeviceId;

    /// Its priority.
    fn priority(&self) -> Priority;

    /// The hardware queue it is placed on.
    fn hardware_queue(&self) -> HardwareQueue;

    /// How many commands it holds: submitted and not ended.
    fn capacity(&self) -> u64;

    /// The last position given out. Does not block.
    fn submitted(&self) -> Position;

    /// The last position that has ended. Does not block; an Acquire load.
    fn completed(&self) -> Position;

    /// The first failure, once there is one. If `completed` has reached its position, this returns it.
    fn failure(&self) -> Option<QueueFailure>;

    /// Puts a command at the end of the queue.
    ///
    /// # Safety
    /// Until the command has ended: device memory it names is live and of the extent it uses; host memory it names
    /// is valid, and no reference to a destination exists; and nothing else uses any of that in a conflicting way,
    /// on the host or on any queue, of this process or of one that shares the pages, unless ordered with the command.
    /// Commands that name no memory ask nothing. A graph asks it for every node as it is at submission, unordered nodes
    /// among themselves included.
    ///
    /// # Errors
    /// Beside the common ones: [`InvalidArguments`](crate::ErrorKind::InvalidArguments) and
    /// [`InvalidGrid`](crate::ErrorKind::InvalidGrid) for launches;
    /// [`NotPageLocked`](crate::ErrorKind::NotPageLocked) for host memory;
    /// [`AlreadyMapped`](crate::ErrorKind::AlreadyMapped) names the source of a copy whose ranges overlap;
    /// [`Misaligned`](crate::ErrorKind::Misaligned) for fills and memory operations, and for a kernel's buffer where the
    /// device wants its address aligned: multiples of [`Memory::alignment`](crate::Memory::alignment) always do;
    /// [`NotPeers`](crate::ErrorKind::NotPeers) for copies between devices without access;
    /// [`UnknownPosition`](crate::ErrorKind::UnknownPosition) for a wait for what was never submitted;
    /// [`InvalidIndex`](crate::ErrorKind::InvalidIndex) for a slot that is not there;
    /// [`ForeignObject`](crate::ErrorKind::ForeignObject) for a kernel or pool of another device, a queue or
    /// semaphore of another driver;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a command of a facet the device has not.
    unsafe fn submit(
        &self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError>;

    /// Puts waits at the end of the queue, and a command behind them: all, or nothing where there is no room for all or
    /// one of them is refused. Each has a position of its own; the last, the command's, is told. Nothing is ever put
    /// between them.
    ///
    /// More than the queue [holds](Queue::capacity) is never taken: the answer is [`Admission::Full`].
    ///
    /// # Safety
    /// As [`submit`](Queue::submit).
    ///
    /// # Errors
    /// As [`submit`](Queue::submit), of the first that is refused.
    unsafe fn submit_behind(
        &self,
        waits: &[QueueWait<'_>],
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError>;

    /// The queue for one producer alone, who then submits without paying for being shared. `None` where the
    /// backend has no such thing, or another producer has it. Others who submit meanwhile wait for its end, or come in
    /// between where that costs the writer nothing: positions are given out in order either way.
    fn writer(&self) -> Option<Box<dyn QueueWriter + '_>> {
        None
    }

    /// Holds an idle queue, for a host thread that would rather carry out itself what it submits next than have a thread of
    /// the device's woken for it. `None` where the device does its own work, as real ones do, and where the queue has work or
    /// is held already.
    ///
    /// What anybody submits meanwhile starts when the hold ends. So keep it for one submission, and wait for nothing
    /// meanwhile.
    fn hold(&self) -> Option<Box<dyn QueueHold + '_>> {
        None
    }

    /// Ends every command that was submitted and has not started with [`Aborted`](crate::ErrorKind::Aborted), which
    /// poisons the queue like any failure. A command that runs, or that a vendor's driver has taken and does not give
    /// back, is told where it can be and ends as it will, or as aborted where a part of it was left out; a wait for another
    /// queue still ends only when that has. Does not block. Nothing happens where nothing is left to end.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the device cannot.
    fn abort(&self) -> Result<(), DriverError> {
        Err(self.unsupported(Operation::Abort))
    }

    /// Forgets the failure, so that commands submitted from now on run, and returns what it forgot: the caller that
    /// gets a failure is the only one that forgot it.
    ///
    /// What was submitted from the failed command on until now stays spoilt: whoever waits for such a position fails, as
    /// [`ClearedFailures`](crate::ClearedFailures) says.
    ///
    /// # Errors
    /// [`NotDrained`](crate::ErrorKind::NotDrained) while anything submitted has not ended;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the device cannot;
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn clear_failure(&self) -> Result<Option<QueueFailure>, DriverError> {
        Err(self.unsupported(Operation::ClearFailure))
    }

    /// What the queue is at now. Does not block for long.
    fn activity(&self) -> QueueActivity {
        QueueActivity::Unknown
    }

    /// Starts what was submitted, now. Does not wait for it.
    ///
    /// # Errors
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn flush(&self) -> Result<(), DriverError>;

    /// Blocks the calling thread until `position` has ended or `deadline` has passed; flushes first.
    ///
    /// A failed or skipped command has ended too: ask [`failure`](Queue::failure).
    ///
    /// # Errors
    /// [`UnknownPosition`](crate::ErrorKind::UnknownPosition);
    /// [`Deadlock`](crate::ErrorKind::Deadlock) where the device knows that it can never end;
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn wait(
        &self,
        position: Position,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, DriverError>;

    /// Wakes `waker` once when `position` has ended, at once if it has; flushes first. Does not block.
    ///
    /// The waker is called under no lock. It may be called more than once if `notify` was.
    ///
    /// # Errors
    /// As [`wait`](Queue::wait).
    fn notify(&self, position: Position, waker: &Waker) -> Result<(), DriverError>;

    /// The error for what the device cannot do.
    #[doc(hidden)]
    fn unsupported(&self, operation: Operation) -> DriverError {
        DriverError::new(ErrorKind::Unsupported, operation, self.device())
    }
}

/// A queue's submissions while one producer has them. Dropping it flushes, and lets others submit.
///
/// # Safety
/// Implementers promise what [`Queue`]'s do.
pub unsafe trait QueueWriter: Debug {
    /// As [`Queue::submit`], but what is submitted may stay unstarted until [`flush`](QueueWriter::flush), the
    /// writer's end, or a wait for it, by the host or in another queue. Signals and writes of a word start at once.
    ///
    /// # Safety
    /// As [`Queue::submit`].
    ///
    /// # Errors
    /// As [`Queue::submit`].
    unsafe fn submit(
        &mut self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError>;

    /// Starts what was submitted, now. Does not wait for it.
    ///
    /// # Errors
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn flush(&mut self) -> Result<(), DriverError>;
}

/// An idle queue that a host thread [holds](Queue::hold). Dropping it starts what was submitted.
pub trait QueueHold: Debug {
    /// Carries out on the calling thread what was submitted, until `position` has ended or something would have to be waited
    /// for; what is left starts then as if it had been submitted now. May call wakers, and kernels where others have submitted
    /// some: call it under no lock.
    fn help(self: Box<Self>, position: Position);
}
