//! Records by hand, and the file read back.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_driver::{DeviceId, DeviceInfo, ExecutionRecord, Limits, Operation, Position, QueueId};
use piton_trace::{DeviceTrace, Written, write_chrome};
use serde_json::Value;

/// A command without names.
pub(crate) fn record(
    queue: u64,
    position: u64,
    operation: Operation,
    (start_ns, end_ns): (u64, u64),
) -> ExecutionRecord {
    ExecutionRecord {
        queue: QueueId(queue),
        label: None,
        position: Position::new(position),
        operation,
        start_ns,
        end_ns,
        bytes: 0,
        kernel: None,
        peer: None,
        origin: None,
        awaited: None,
        signal: None,
    }
}

/// A device of this number that ran these.
pub(crate) fn trace(device: u32, records: Vec<ExecutionRecord>) -> DeviceTrace {
    let limits = Limits {
        queues: 1,
        hardware_queues: 1,
        queue_commands: 1,
        argument_bytes: 1,
        grid_blocks: 1,
        copy_bytes: 1,
    };
    let device = DeviceInfo {
        id: DeviceId(device),
        name: "simulated \"0\"".to_owned(),
        memory_bytes: 1,
        pci: None,
        numa_node: None,
        limits,
    };
    DeviceTrace {
        device,
        records,
        dropped: 0,
    }
}

/// The file, read back.
pub(crate) struct File {
    pub(crate) written: Written,
    pub(crate) text: String,
    pub(crate) root: Value,
}

/// Writes and parses.
pub(crate) fn file(traces: &[DeviceTrace]) -> File {
    let mut bytes = Vec::new();
    let written = write_chrome(&mut bytes, traces).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let root = serde_json::from_str(&text).unwrap();
    File {
        written,
        text,
        root,
    }
}

impl File {
    /// The events of a phase, in the order of the file.
    pub(crate) fn events(&self, phase: &str) -> Vec<&Value> {
        let all = self.root["traceEvents"].as_array().unwrap();
        all.iter().filter(|event| event["ph"] == phase).collect()
    }
}
