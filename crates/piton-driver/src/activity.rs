//! What a queue is doing now: for watchdogs and dumps.

use crate::{DevicePtr, Operation, Origin, Position, QueueId};

/// What the command at the front of a queue is at. A snapshot: it may have changed when it is read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueActivity {
    /// The driver does not say.
    Unknown,
    /// Nothing is left to do.
    Idle,
    /// The command at this position could run and has not been started.
    Ready(Position),
    /// The front command runs.
    Running(Front),
    /// The front command waits.
    Waiting(Front, Awaited),
}

/// A queue's oldest command that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Where it stands.
    pub position: Position,
    /// What it is.
    pub operation: Operation,
    /// Where it was submitted, as far as the driver knows.
    pub origin: Option<Origin>,
}

/// What a command waits for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Another queue's counter.
    Queue(QueueId, Position),
    /// A semaphore's value.
    Semaphore {
        /// The value now.
        current: u64,
        /// The value waited for.
        wanted: u64,
    },
    /// A value in device memory.
    Memory(DevicePtr),
}
