//! Which command a wait waited for, and which one it held up.
//!
//! # Waits for values
//! Whose signal or write met a wait for a value no record says: it is found by the values. A semaphore only grows, so
//! it is the lowest of its signals that is high enough. A word in memory holds what was written last, so it is the last
//! write in its favour, among those while it waited and the one before. What the host signals and what kernels and
//! copies write is in no such record; so a command that started after the wait had ended is none of its business, and a
//! wait that only they can have met has no arrow.

use crate::DeviceTrace;
use piton_driver::{
    DevicePtr, ExecutionRecord, MemoryWait, MemoryWord, Operation, Position, QueueId, SemaphoreId,
    Signal,
};
use std::collections::{BTreeMap, HashMap};

/// A record of several devices' traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Index among the traces.
    pub device: usize,
    /// Index among its records.
    pub record: usize,
}

/// A wait with both its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitArrow {
    /// The command that was waited for, or that signalled or wrote the value.
    pub awaited: Place,
    /// The wait.
    pub wait: Place,
    /// The next command of the queue that waited, if it is in the trace.
    pub next: Option<Place>,
}

/// All waits of these traces whose awaited command is in one of them, in the order of the records: for queues, for
/// semaphores and for values in memory.
///
/// Queues and semaphores are told apart by their ids, which are unique among those of one driver: pass devices of one
/// driver together. A wait for a command that is not in the traces (it ended before they were started, or found no
/// room), for a signal of the host or for what a kernel wrote has no arrow.
pub fn waits(traces: &[DeviceTrace]) -> Vec<WaitArrow> {
    let (ends, told) = (ends(traces), Told::of(traces));
    let arrow = |(wait, record): (Place, &ExecutionRecord)| {
        let awaited = match record.awaited {
            Some(awaited) => ends.get(&awaited).copied(),
            None => told.met_by(wait, record),
        };
        let next = record.position.get().checked_add(1).map(Position::new);
        Some(WaitArrow {
            awaited: awaited?,
            wait,
            next: next.and_then(|next| ends.get(&(record.queue, next)).copied()),
        })
    };
    places(traces).filter_map(arrow).collect()
}

/// The record at which each position ended. Nodes of a graph have its position, and it ends with the last of them; the
/// graph's own record speaks for all.
fn ends(traces: &[DeviceTrace]) -> HashMap<(QueueId, Position), Place> {
    let mut ends: HashMap<(QueueId, Position), Place> = HashMap::new();
    for (place, record) in places(traces) {
        let is_graph = record.operation == Operation::RunGraph;
        let entry = ends.entry((record.queue, record.position));
        let kept = entry.or_insert(place);
        if is_graph {
            *kept = place;
        }
    }
    ends
}

/// A command that signalled or wrote.
#[derive(Clone, Copy, Debug)]
struct Teller<V> {
    value: V,
    start: u64,
    end: u64,
    place: Place,
}

/// What commands told of values.
#[derive(Debug, Default)]
struct Told {
    /// By value; of the same one the earliest.
    semaphores: HashMap<SemaphoreId, BTreeMap<u64, Teller<()>>>,
    /// By start.
    words: HashMap<(usize, DevicePtr), Vec<Teller<MemoryWord>>>,
}

impl Told {
    fn of(traces: &[DeviceTrace]) -> Self {
        let mut told = Self::default();
        for (place, record) in places(traces) {
            told.add(place, record);
        }
        for writes in told.words.values_mut() {
            writes.sort_by_key(|write| write.start);
        }
        told
    }

    fn add(&mut self, place: Place, record: &ExecutionRecord) {
        let (start, end) = (record.start_ns, record.end_ns);
        match record.signal {
            Some(Signal::Semaphore(id, value)) if tells(record) => {
                let teller = Teller {
                    value: (),
                    start,
                    end,
                    place,
                };
                let signals = self.semaphores.entry(id).or_default();
                let known = signals.entry(value).or_insert(teller);
                if start < known.start {
                    *known = teller;
                }
            }
            Some(Signal::MemoryWrite(at, value)) => {
                let writes = self.words.entry((place.device, at)).or_default();
                writes.push(Teller {
                    value,
                    start,
                    end,
                    place,
                });
            }
            _ => {}
        }
    }

    /// The command that met a wait for a value.
    fn met_by(&self, place: Place, wait: &ExecutionRecord) -> Option<Place> {
        match wait.signal? {
            Signal::Semaphore(id, value) if !tells(wait) => {
                let (_, signal) = self.semaphores.get(&id)?.range(value..).next()?;
                (signal.start <= wait.end_ns).then_some(signal.place)
            }
            Signal::MemoryWait(awaited) => {
                let writes = self.words.get(&(place.device, awaited.at))?;
                last_in_favour(writes, wait, awaited)
            }
            _ => None,
        }
    }
}

/// Whether a command of a semaphore raises it.
fn tells(record: &ExecutionRecord) -> bool {
    record.operation == Operation::SignalSemaphore
}

fn last_in_favour(
    writes: &[Teller<MemoryWord>],
    wait: &ExecutionRecord,
    awaited: MemoryWait,
) -> Option<Place> {
    let known = writes.partition_point(|write| write.start <= wait.end_ns);
    for write in writes.get(..known)?.iter().rev() {
        if awaited.comparison.holds(write.value, awaited.value) {
            return Some(write.place);
        }
        // What it found when it began: older values were gone by then.
        if write.end <= wait.start_ns {
            break;
        }
    }
    None
}

fn places(traces: &[DeviceTrace]) -> impl Iterator<Item = (Place, &ExecutionRecord)> {
    traces.iter().enumerate().flat_map(|(device, trace)| {
        let records = trace.records.iter().enumerate();
        records.map(move |(record, found)| (Place { device, record }, found))
    })
}
