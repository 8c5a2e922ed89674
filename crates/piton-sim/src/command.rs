//! What a queue holds: commands, with everything they name.

use crate::{
    graph::Plan, kernel::SimKernel, parameters::Reservation, queue::QueueCore,
    semaphore::SimSemaphore, timestamp::SimTimestamps,
};
use piton_driver::{
    DeviceRange, FillPattern, Grid, HostFunction, Operation, PeerAddress, Position,
};
use std::{fmt, ptr::NonNull, sync::Arc};

/// A run of page-locked host memory that a command names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRange {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
}

#[expect(
    unsafe_code,
    reason = "an address that moves to the thread that runs the command"
)]
// SAFETY: the pointer is an address here; whoever submitted the command promised that it stays valid until
// the command has ended, on whatever thread it runs.
unsafe impl Send for HostRange {}

#[expect(
    unsafe_code,
    reason = "an address that several replays of a graph share"
)]
// SAFETY: a shared reference gives no more than the address.
unsafe impl Sync for HostRange {}

/// One command.
pub(crate) enum Command {
    Launch {
        kernel: Arc<SimKernel>,
        grid: Grid,
        arguments: Reservation,
    },
    CopyToDevice {
        dst: DeviceRange,
        src: HostRange,
    },
    CopyToHost {
        dst: HostRange,
        src: DeviceRange,
    },
    CopyOnDevice {
        dst: DeviceRange,
        src: DeviceRange,
    },
    CopyPeer {
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    },
    Fill {
        dst: DeviceRange,
        pattern: FillPattern,
    },
    WaitQueue {
        queue: Arc<QueueCore>,
        position: Position,
    },
    WaitSemaphore {
        semaphore: Arc<SimSemaphore>,
        value: u64,
    },
    SignalSemaphore {
        semaphore: Arc<SimSemaphore>,
        value: u64,
    },
    CallHost {
        function: HostFunction,
    },
    WriteTimestamp {
        pool: Arc<SimTimestamps>,
        index: u32,
    },
    RunGraph {
        plan: Arc<Plan>,
    },
}

impl Command {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Launch { .. } => Operation::Launch,
            Self::CopyToDevice { .. } => Operation::CopyToDevice,
            Self::CopyToHost { .. } => Operation::CopyToHost,
            Self::CopyOnDevice { .. } => Operation::CopyOnDevice,
            Self::CopyPeer { .. } => Operation::CopyPeer,
            Self::Fill { .. } => Operation::Fill,
            Self::WaitQueue { .. } => Operation::WaitQueue,
            Self::WaitSemaphore { .. } => Operation::WaitSemaphore,
            Self::SignalSemaphore { .. } => Operation::SignalSemaphore,
            Self::CallHost { .. } => Operation::CallHost,
            Self::WriteTimestamp { .. } => Operation::WriteTimestamp,
            Self::RunGraph { .. } => Operation::RunGraph,
        }
    }

    /// Bytes it moves or fills.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::CopyToDevice { dst: range, .. }
            | Self::CopyToHost { src: range, .. }
            | Self::CopyOnDevice { src: range, .. }
            | Self::Fill { dst: range, .. } => range.bytes,
            Self::CopyPeer { bytes, .. } => *bytes,
            _ => 0,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.operation(), self.bytes())
    }
}
