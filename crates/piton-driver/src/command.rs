//! What a queue can be asked to do, as values.
//!
//! One enum rather than a method a command: whoever submits, records, checks or counts commands does it in one
//! place, and a backend has one door.

#![expect(
    unsafe_code,
    reason = "a command may carry a host address from one thread to another"
)]

use crate::{
    DevicePtr, ExecutableGraph, FillPattern, Launch, MemoryWait, MemoryWord, Operation,
    PeerAddress, Position, Queue, Semaphore, TimestampPool,
};
use std::{panic::Location, ptr::NonNull, sync::Arc};

/// Where in the program a command was submitted. Backends keep it with the command, for failures and traces.
pub type Origin = &'static Location<'static>;

/// One command. Sizes are bytes. What it refers to is copied, or kept alive, before the submission returns.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Launches a kernel.
    Launch(Launch<'a>),
    /// Copies page-locked host memory to the device.
    CopyToDevice {
        /// Where to.
        dst: DevicePtr,
        /// Where from.
        src: NonNull<u8>,
        /// How many.
        bytes: u64,
    },
    /// Copies device memory to page-locked host memory.
    CopyToHost {
        /// Where to.
        dst: NonNull<u8>,
        /// Where from.
        src: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// Copies within the device. Overlapping ranges are refused.
    CopyOnDevice {
        /// Where to.
        dst: DevicePtr,
        /// Where from.
        src: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// Copies between two devices, one of which is the queue's. For devices with [`Peers`](crate::Peers).
    CopyPeer {
        /// Where to.
        dst: PeerAddress,
        /// Where from.
        src: PeerAddress,
        /// How many.
        bytes: u64,
    },
    /// Fills device memory with a repeated pattern.
    Fill {
        /// Where to.
        dst: DevicePtr,
        /// What with.
        pattern: FillPattern,
        /// How many; a multiple of the pattern's size.
        bytes: u64,
    },
    /// Later commands start when the other queue has completed the position, which must have been submitted: so
    /// such waits alone never form a cycle. For [`Position::START`] of any queue, its own too, it is a command that does
    /// nothing.
    WaitQueue {
        /// Whose counter.
        queue: &'a (dyn Queue + 'static),
        /// How far it must have come.
        position: Position,
        /// Whether a failure up to there fails this command too. Without, the wait orders and no more: for memory that
        /// the other queue used, whose content nobody wants.
        inherits: bool,
    },
    /// Later commands start when the semaphore has reached the value, signalled already or not. For devices
    /// with [`Semaphores`](crate::Semaphores).
    WaitSemaphore {
        /// Which.
        semaphore: &'a Arc<dyn Semaphore>,
        /// The least value.
        value: u64,
    },
    /// Raises the semaphore when all earlier commands have ended. A value not above the present one then leaves
    /// it alone. After a failure of the queue the signal is not given.
    SignalSemaphore {
        /// Which.
        semaphore: &'a Arc<dyn Semaphore>,
        /// What to.
        value: u64,
    },
    /// Writes the device's time into a slot when all earlier commands have ended. For devices with
    /// [`Timestamps`](crate::Timestamps).
    WriteTimestamp {
        /// The slot's pool.
        pool: &'a Arc<dyn TimestampPool>,
        /// The slot's index.
        index: u32,
    },
    /// Later commands start when a value in device memory meets a condition. For devices with
    /// [`memory_operations`](crate::Device::memory_operations).
    WaitMemory(MemoryWait),
    /// Writes a value into device memory when all earlier commands have ended; waits for it see it. For devices
    /// with [`memory_operations`](crate::Device::memory_operations).
    WriteMemory {
        /// Where; a multiple of the value's size.
        at: DevicePtr,
        /// What.
        value: MemoryWord,
    },
    /// Runs all nodes of a graph, with the parameters they have now. For devices with
    /// [`Graphs`](crate::Graphs).
    RunGraph {
        /// Which.
        graph: &'a Arc<dyn ExecutableGraph>,
    },
}

// SAFETY: everything but the host address of a copy is numbers and references to `Sync` things. The address is
// only handed on; whoever submits the command promises that it is valid on whatever thread that is.
unsafe impl Send for Command<'_> {}

// SAFETY: a shared reference gives no more than a copy of the value, which is `Send`.
unsafe impl Sync for Command<'_> {}

impl Command<'_> {
    /// The contract's name for it.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Launch(_) => Operation::Launch,
            Self::CopyToDevice { .. } => Operation::CopyToDevice,
            Self::CopyToHost { .. } => Operation::CopyToHost,
            Self::CopyOnDevice { .. } => Operation::CopyOnDevice,
            Self::CopyPeer { .. } => Operation::CopyPeer,
            Self::Fill { .. } => Operation::Fill,
            Self::WaitQueue { .. } => Operation::WaitQueue,
            Self::WaitSemaphore { .. } => Operation::WaitSemaphore,
            Self::SignalSemaphore { .. } => Operation::SignalSemaphore,
            Self::WriteTimestamp { .. } => Operation::WriteTimestamp,
            Self::WaitMemory(_) => Operation::WaitMemory,
            Self::WriteMemory { .. } => Operation::WriteMemory,
            Self::RunGraph { .. } => Operation::RunGraph,
        }
    }
}
