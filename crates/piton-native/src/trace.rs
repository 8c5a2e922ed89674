//! What ran when, from the times that events keep.

use crate::{
    backend::{NativeDevice, NativeEvent},
    queue::{Core, Flight, Shows},
};
use piton_driver::{ExecutionRecord, Position};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

#[derive(Debug)]
struct Kept {
    records: Vec<ExecutionRecord>,
    capacity: usize,
    dropped: u64,
}

/// The trace of a device: on while somebody asked for it.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// A hint, for whoever would do work that only a trace needs.
    is_on: AtomicBool,
    kept: Mutex<Option<Kept>>,
}

impl Trace {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Keeps a record of a command that has ended. Called under its queue's lock.
    pub(crate) fn record<D: NativeDevice>(
        &self,
        core: &Core<D>,
        position: u64,
        flight: &Flight<D>,
    ) {
        if !self.is_on() {
            return;
        }
        let mut kept = self.kept.lock();
        let Some(kept) = &mut *kept else {
            return;
        };
        if kept.records.len() >= kept.capacity {
            kept.dropped += 1;
            return;
        }
        let last = |record: &&ExecutionRecord| record.queue == core.id;
        let last = kept.records.iter().rev().find(last);
        let last = last.map_or(0, |record| record.end_ns);
        let times = match &flight.shows {
            Shows::Event(event) => event.times().unwrap_or((last, last)),
            // Nothing ran: it ended when what came before it had.
            _ => (last, last),
        };
        let tag = &flight.tag;
        kept.records.push(ExecutionRecord {
            queue: core.id,
            label: core.label.clone(),
            position: Position::new(position),
            operation: tag.operation,
            start_ns: times.0.max(last),
            end_ns: times.1.max(last),
            bytes: tag.bytes,
            kernel: tag.kernel.clone(),
            peer: tag.peer,
            origin: Some(tag.origin),
            awaited: flight.awaits(),
            signal: None,
        });
    }

    /// Starts keeping records; what was kept before is dropped.
    pub(crate) fn start(&self, capacity: usize) {
        *self.kept.lock() = Some(Kept {
            records: Vec::new(),
            capacity,
            dropped: 0,
        });
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Stops, and hands out what was kept, in order of ending.
    pub(crate) fn finish(&self) -> (Vec<ExecutionRecord>, u64) {
        self.is_on.store(false, Ordering::Relaxed);
        let Some(mut kept) = self.kept.lock().take() else {
            return (Vec::new(), 0);
        };
        kept.records.sort_by_key(|record| record.end_ns);
        (kept.records, kept.dropped)
    }
}
