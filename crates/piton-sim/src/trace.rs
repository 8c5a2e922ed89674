//! What ran when: kept while asked to, one predicted branch a command otherwise.

use piton_driver::{ExecutionRecord, ExecutionTrace};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

#[derive(Debug, Default)]
struct Kept {
    records: Vec<ExecutionRecord>,
    capacity: usize,
    dropped: u64,
}

/// A device's records.
#[derive(Debug, Default)]
pub(crate) struct TraceBuffer {
    is_on: AtomicBool,
    kept: Mutex<Kept>,
}

impl TraceBuffer {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn push(&self, record: ExecutionRecord) {
        let mut kept = self.kept.lock();
        if kept.records.len() < kept.capacity {
            kept.records.push(record);
        } else {
            kept.dropped += 1;
        }
    }
}

impl ExecutionTrace for TraceBuffer {
    fn start(&self, capacity: usize) {
        *self.kept.lock() = Kept {
            capacity,
            ..Kept::default()
        };
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn finish(&self) -> (Vec<ExecutionRecord>, u64) {
        self.is_on.store(false, Ordering::Relaxed);
        let kept = std::mem::take(&mut *self.kept.lock());
        (kept.records, kept.dropped)
    }
}
