//! Records of what ran, while somebody traces.

use crate::{
    command::{Command, Entry},
    queue::QueueCore,
};
use piton_driver::{ExecutionRecord, Position};

/// The time, while somebody traces; one branch otherwise.
pub(super) fn now(queue: &QueueCore) -> u64 {
    if queue.device.core().trace.is_on() {
        queue.engine().now()
    } else {
        0
    }
}

/// What the trace will say of a command, less its times; `None` while nobody traces.
pub(super) fn begin(
    queue: &QueueCore,
    position: u64,
    entry: &Entry,
) -> Option<Box<ExecutionRecord>> {
    queue
        .device
        .core()
        .trace
        .is_on()
        .then(|| Box::new(describe(queue, position, entry)))
}

#[cold]
fn describe(queue: &QueueCore, position: u64, entry: &Entry) -> ExecutionRecord {
    let own = queue.device.id();
    let command = &entry.command;
    ExecutionRecord {
        queue: queue.id,
        label: queue.label.clone(),
        position: Position::new(position),
        operation: command.operation(),
        start_ns: 0,
        end_ns: 0,
        bytes: command.bytes(),
        kernel: command
            .kernel()
            .map(|kernel| kernel.definition.shared_name()),
        peer: match command {
            Command::CopyPeer { dst, src, .. } if src.device == own => Some(dst.device),
            Command::CopyPeer { src, .. } => Some(src.device),
            _ => None,
        },
        origin: Some(entry.origin),
        awaited: match command {
            Command::WaitQueue { queue, position } => Some((queue.id, Position::new(*position))),
            _ => None,
        },
    }
}

/// Keeps the record.
pub(super) fn finish(
    queue: &QueueCore,
    record: Option<Box<ExecutionRecord>>,
    start: u64,
    end: u64,
) {
    if let Some(mut record) = record {
        (record.start_ns, record.end_ns) = (start, end);
        queue.device.core().trace.push(*record);
    }
}
