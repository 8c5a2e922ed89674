//! What ran when, as the device saw it.

use crate::{DeviceId, DevicePtr, MemoryWait, MemoryWord, Operation, Origin, Position, QueueId};
use std::sync::Arc;

/// One command that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRecord {
    /// The queue it was on.
    pub queue: QueueId,
    /// The label the queue was made with.
    pub label: Option<Arc<str>>,
    /// Its position there.
    pub position: Position,
    /// What it was.
    pub operation: Operation,
    /// When it started, in nanoseconds of the device's clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Bytes it moved or filled; 0 for others.
    pub bytes: u64,
    /// The kernel's name, for launches.
    pub kernel: Option<Arc<str>>,
    /// The other device, for copies between two.
    pub peer: Option<DeviceId>,
    /// Where it was submitted, as far as the device knows.
    pub origin: Option<Origin>,
    /// What it waited for, for waits on other queues.
    pub awaited: Option<(QueueId, Position)>,
    /// What it waited for or told, for waits for values and what meets them, as far as the device knows.
    pub signal: Option<Signal>,
}

/// A semaphore's name among all semaphores its driver ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SemaphoreId(pub u64);

/// What a wait for a value waited for, or what a command told whoever waits for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// The semaphore: a wait until it had reached the value, or a command that raised it to that.
    Semaphore(SemaphoreId, u64),
    /// A wait for a value in memory of the queue's device.
    MemoryWait(MemoryWait),
    /// A command that wrote a value into memory of the queue's device.
    MemoryWrite(DevicePtr, MemoryWord),
}

/// Records of what ran, kept by the device while asked to.
pub trait ExecutionTrace: Send + Sync {
    /// Starts keeping records, at most `capacity`; what was kept before is dropped.
    fn start(&self, capacity: usize);

    /// Stops, and hands out what was kept, in order of ending, with the number that found no room.
    fn finish(&self) -> (Vec<ExecutionRecord>, u64);
}
