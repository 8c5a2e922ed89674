//! Events of the trace event format, as they are serialised.

use piton_driver::{DevicePtr, ExecutionRecord, MemoryWait, Operation, Origin, Signal};
use serde::{Serialize, Serializer};
use std::fmt;

/// Nanoseconds, written as microseconds with three decimals: exact, which a binary fraction would not be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Micros(pub(crate) u64);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        let number = serde_json::value::RawValue::from_string(text);
        number
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

/// A value written as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A name or a place in the order, for a process or thread.
#[derive(Debug, Serialize)]
pub(crate) struct Metadata<'a> {
    pub(crate) ph: &'static str,
    pub(crate) name: &'static str,
    pub(crate) pid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tid: Option<usize>,
    pub(crate) args: MetadataArgs<'a>,
}

/// What a [`Metadata`] event says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MetadataArgs<'a> {
    Name(&'a str),
    SortIndex(usize),
}

/// A command, from its start to its end.
#[derive(Debug, Serialize)]
pub(crate) struct Complete<'a> {
    pub(crate) ph: &'static str,
    pub(crate) name: &'a str,
    pub(crate) cat: &'static str,
    pub(crate) pid: usize,
    pub(crate) tid: usize,
    pub(crate) ts: Micros,
    pub(crate) dur: Micros,
    pub(crate) args: CommandArgs,
}

/// What to know of a command beyond its times.
#[derive(Debug, Serialize)]
pub(crate) struct CommandArgs {
    position: u64,
    operation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Shown<Origin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited_queue: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited_position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    semaphore: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Shown<DevicePtr>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u64>,
}

impl CommandArgs {
    pub(crate) fn of(record: &ExecutionRecord) -> Self {
        let bytes = Some(record.bytes).filter(|bytes| *bytes > 0);
        let (semaphore, address, value) = match record.signal {
            Some(Signal::Semaphore(semaphore, value)) => (Some(semaphore.0), None, Some(value)),
            Some(Signal::MemoryWait(MemoryWait { at, value, .. })) => {
                (None, Some(Shown(at)), Some(value.get()))
            }
            Some(Signal::MemoryWrite(at, value)) => (None, Some(Shown(at)), Some(value.get())),
            _ => (None, None, None),
        };
        Self {
            position: record.position.get(),
            operation: record.operation.as_str(),
            bytes,
            gb_per_s: bytes.and_then(|bytes| rate(bytes, record)),
            peer: record.peer.map(|peer| peer.0),
            origin: record.origin.map(Shown),
            awaited_queue: record.awaited.map(|(queue, _)| queue.0),
            awaited_position: record.awaited.map(|(_, position)| position.get()),
            semaphore,
            address,
            value,
        }
    }
}

/// Bytes a nanosecond, which are gigabytes a second; nothing for what took no time.
#[expect(
    clippy::cast_precision_loss,
    reason = "a rate is looked at to three digits"
)]
fn rate(bytes: u64, record: &ExecutionRecord) -> Option<f64> {
    let duration = record.end_ns.saturating_sub(record.start_ns);
    (duration > 0).then(|| (bytes as f64 / duration as f64 * 1000.0).round() / 1000.0)
}

/// One point of an arrow. It belongs to the event of its thread that it lies in.
#[derive(Debug, Serialize)]
pub(crate) struct Flow {
    pub(crate) ph: &'static str,
    pub(crate) name: &'static str,
    pub(crate) cat: &'static str,
    pub(crate) id: usize,
    pub(crate) pid: usize,
    pub(crate) tid: usize,
    pub(crate) ts: Micros,
    /// `e`: an end belongs to the event around it, not to the next that starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bp: Option<&'static str>,
}

/// What kind of thing a command is, for colours and filters.
pub(crate) fn category(operation: Operation) -> &'static str {
    match operation {
        Operation::Launch => "kernel",
        Operation::CopyToDevice
        | Operation::CopyToHost
        | Operation::CopyOnDevice
        | Operation::CopyPeer => "copy",
        Operation::Fill => "fill",
        Operation::CallHost => "host",
        Operation::WaitQueue | Operation::WaitSemaphore | Operation::WaitMemory => "wait",
        Operation::RunGraph => "graph",
        _ => "control",
    }
}

/// What stands on a command's bar.
pub(crate) fn name(record: &ExecutionRecord) -> &str {
    match record.operation {
        Operation::Launch => record.kernel.as_deref().unwrap_or("kernel"),
        Operation::CopyToDevice => "copy to device",
        Operation::CopyToHost => "copy to host",
        Operation::CopyOnDevice => "copy on device",
        Operation::CopyPeer => "copy between devices",
        Operation::Fill => "fill",
        Operation::CallHost => "host function",
        Operation::WaitQueue => "wait for a queue",
        Operation::WaitSemaphore => "wait for a semaphore",
        Operation::WaitMemory => "wait for memory",
        Operation::RunGraph => "graph",
        other => other.as_str(),
    }
}
