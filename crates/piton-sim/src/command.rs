//! What a queue's ring holds: commands, with everything they name, a cache line each.

use crate::{
    graph::Plan, kernel::SimKernel, parameters::Reservation, queue::QueueCore,
    semaphore::SemaphoreCore, timestamp::SimTimestamps,
};
use piton_driver::{
    DeviceRange, FillPattern, Grid, HostFunction, MemoryWait, MemoryWord, Operation, Origin,
    PeerAddress,
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

/// A kernel that the queue keeps alive until the command has ended (see `kept`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelRef(NonNull<SimKernel>);

#[expect(unsafe_code, reason = "a counted reference, without the count")]
// SAFETY: a reference to a kernel, which is `Sync`.
unsafe impl Send for KernelRef {}

impl KernelRef {
    pub(crate) fn new(kernel: &Arc<SimKernel>) -> Self {
        Self(NonNull::from(&**kernel))
    }

    /// The kernel.
    ///
    /// # Safety
    /// The command it came with has not ended.
    #[expect(unsafe_code, reason = "a counted reference, without the count")]
    pub(crate) unsafe fn get<'a>(self) -> &'a SimKernel {
        // SAFETY: the queue keeps it until the command has ended.
        unsafe { self.0.as_ref() }
    }
}

/// Bytes of arguments that have room in the command itself.
pub(crate) const INLINE_BYTES: usize = 16;

/// Where a launch's arguments, and behind them its extents, are.
pub(crate) enum Arguments {
    /// Here. Words, though they are bytes: whole aligned moves read what whole aligned moves wrote, and bytes
    /// would lie behind the length at once.
    Inline {
        length: u8,
        words: [u64; INLINE_BYTES / 8],
    },
    /// In the queue's parameter ring.
    Ring(Reservation),
    /// In memory of their own: they are too many for the ring.
    Own(Box<[u8]>),
}

/// One command.
pub(crate) enum Command {
    Launch {
        kernel: KernelRef,
        grid: Grid,
        arguments: Arguments,
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
        position: u64,
        inherits: bool,
    },
    WaitSemaphore {
        semaphore: Arc<SemaphoreCore>,
        value: u64,
    },
    SignalSemaphore {
        semaphore: Arc<SemaphoreCore>,
        value: u64,
    },
    WaitMemory(MemoryWait),
    WriteMemory {
        at: DeviceRange,
        value: MemoryWord,
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

/// A command in the ring.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) command: Command,
    pub(crate) origin: Origin,
    /// When the host submitted it, in virtual time.
    pub(crate) submitted_at: u64,
}

const _: () = assert!(size_of::<Entry>() == 64, "a command is one cache line");

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
            Self::WaitMemory(_) => Operation::WaitMemory,
            Self::WriteMemory { .. } => Operation::WriteMemory,
            Self::CallHost { .. } => Operation::CallHost,
            Self::WriteTimestamp { .. } => Operation::WriteTimestamp,
            Self::RunGraph { .. } => Operation::RunGraph,
        }
    }

    /// The kernel, for launches.
    pub(crate) fn kernel(&self) -> Option<&SimKernel> {
        match self {
            Self::Launch { kernel, .. } => {
                #[expect(unsafe_code, reason = "a counted reference, without the count")]
                // SAFETY: a command that can be borrowed has not ended.
                Some(unsafe { kernel.get() })
            }
            _ => None,
        }
    }

    /// Whether device memory may hold something else afterwards.
    pub(crate) fn may_write_memory(&self) -> bool {
        matches!(
            self,
            Self::Launch { .. }
                | Self::CopyToDevice { .. }
                | Self::CopyOnDevice { .. }
                | Self::CopyPeer { .. }
                | Self::Fill { .. }
                | Self::WriteMemory { .. }
        )
    }

    /// Where the host memory begins that it names.
    pub(crate) fn host_memory(&self) -> Option<usize> {
        match self {
            Self::CopyToDevice { src: host, .. } | Self::CopyToHost { dst: host, .. } => {
                Some(host.start.as_ptr().addr())
            }
            _ => None,
        }
    }

    /// Bytes it moves or fills.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::CopyToDevice { dst: range, .. }
            | Self::CopyToHost { src: range, .. }
            | Self::CopyOnDevice { src: range, .. }
            | Self::WriteMemory { at: range, .. }
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
