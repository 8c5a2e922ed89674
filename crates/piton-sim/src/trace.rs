//! What ran when: kept while asked to, one predicted branch a command otherwise.
//!
//! # The idea
//! A command leaves 32 bytes in a *log* of the thread that ended it: where, when, and one number. What commands of a
//! kind have in common (queue, operation, kernel, place in the program) is kept once, as a *site*, and put together
//! with the record when the trace is handed out.
//!
//! # Protocol
//! A log is behind a lock of its own, and threads are spread over the logs by where their stacks' data is, so that
//! a thread mostly has its log for itself and takes a lock nobody waits for; two threads on one log cost each other
//! time and nothing else. Room is taken from `room`, which all share, in portions. `finish` puts the room at zero
//! before it empties the logs and takes their portions with them: a record that comes late finds no room, or lies in
//! a log until `start` clears it.
//!
//! In virtual time there is one log: what runs is one thing at a time, and its order is the schedule's, which times
//! alone do not tell.

mod log;
mod record;
mod site;

pub(crate) use site::Draft;

use log::Log;
use piton_driver::{ExecutionRecord, ExecutionTrace};
use piton_sync::{
    CachePadded, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::sync::Arc;

/// Logs of a device in real time: more than threads that end commands at once.
const LOGS: usize = 16;
/// Most records that a log takes room for at a time.
const PORTION: u64 = 256;

thread_local! {
    // GLOBAL: nothing is kept in it. Its address differs from thread to thread, which is all that is asked.
    static PLACE: u8 = const { 0 };
}

/// A device's records.
#[derive(Debug)]
pub(crate) struct TraceBuffer {
    is_on: AtomicBool,
    /// Records that may still be taken room for.
    room: AtomicU64,
    /// Records that a log takes room for at a time.
    portion: AtomicU64,
    logs: Box<[CachePadded<Mutex<Log>>]>,
}

impl TraceBuffer {
    /// For a device whose clock is real, or not.
    pub(crate) fn new(is_virtual: bool) -> Self {
        let logs = if is_virtual { 1 } else { LOGS };
        Self {
            is_on: AtomicBool::new(false),
            room: AtomicU64::new(0),
            portion: AtomicU64::new(1),
            logs: (0..logs).map(|_| CachePadded::default()).collect(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Keeps the record of a command that ran from `start` to `end`, nanoseconds of the device's clock. `label` and
    /// `kernel` are asked for once a site.
    pub(crate) fn push(
        &self,
        draft: &Draft,
        (start, end): (u64, u64),
        names: impl FnOnce() -> (Option<Arc<str>>, Option<Arc<str>>),
    ) {
        let mut log = self.logs[self.own_log()].lock();
        if log.is_full() {
            log.add_room(self.take_room());
        }
        log.push(draft, (start, end), names);
    }

    fn own_log(&self) -> usize {
        let place = PLACE.with(|place| std::ptr::from_ref(place).addr());
        // Threads' data lies pages apart, at distances that are much alike: the product spreads them.
        let spread = (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        usize::try_from(spread).unwrap_or(0) % self.logs.len()
    }

    fn take_room(&self) -> u64 {
        let portion = self.portion.load(Ordering::Relaxed);
        // Relaxed: a count, of which nothing else depends.
        let taken = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
                Some(room.saturating_sub(portion))
            });
        taken.map_or(0, |before| before.min(portion))
    }
}

impl ExecutionTrace for TraceBuffer {
    fn start(&self, capacity: usize) {
        self.room.store(0, Ordering::Relaxed);
        for log in &self.logs {
            *log.lock() = Log::default();
        }
        let capacity = capacity as u64;
        // What other logs have taken and not used is lost to a log that is full: little of the whole.
        let portion = (capacity / (8 * LOGS as u64)).clamp(1, PORTION);
        self.portion.store(portion, Ordering::Relaxed);
        self.room.store(capacity, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn finish(&self) -> (Vec<ExecutionRecord>, u64) {
        self.is_on.store(false, Ordering::Relaxed);
        self.room.store(0, Ordering::Relaxed);
        let logs: Vec<Log> = self
            .logs
            .iter()
            .map(|log| std::mem::take(&mut *log.lock()))
            .collect();
        let dropped = logs.iter().map(Log::dropped).sum();
        let count = logs.iter().map(Log::len).sum();
        let mut records = Vec::with_capacity(count);
        for log in logs {
            log.unpack(&mut records);
        }
        if self.logs.len() > 1 {
            // Of what ended at one time, a queue's earlier command comes first; a graph comes behind its nodes, whose
            // position is its own.
            records.sort_by_key(|record| (record.end_ns, record.position, graphs_last(record)));
        }
        (records, dropped)
    }
}

fn graphs_last(record: &ExecutionRecord) -> bool {
    record.operation == piton_driver::Operation::RunGraph
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use piton_driver::{DeviceId, Operation, Origin, Position, QueueId};
    use std::panic::Location;

    fn draft(queue: u64, position: u64, operation: Operation) -> Draft {
        let origin: Origin = Location::caller();
        Draft::new(QueueId(queue), position, operation, origin)
    }

    fn unnamed() -> (Option<Arc<str>>, Option<Arc<str>>) {
        (None, None)
    }

    #[test]
    fn a_record_is_handed_out_as_it_was_made() {
        let trace = TraceBuffer::new(false);
        trace.start(10);
        let (label, kernel): (Arc<str>, Arc<str>) = ("compute".into(), "add".into());
        let launch = draft(3, 17, Operation::Launch).launching(7);
        let names = || (Some(Arc::clone(&label)), Some(Arc::clone(&kernel)));
        trace.push(&launch, (1000, 5000), names);
        let copy = draft(4, 1, Operation::CopyPeer)
            .moving(u64::MAX)
            .with(Some(DeviceId(2)));
        trace.push(&copy, (5000, u64::MAX / 2), unnamed);
        let wait = draft(4, 2, Operation::WaitQueue).awaiting(QueueId(3), 17);
        trace.push(&wait, (1 << 60, (1 << 60) + 1), unnamed);
        let (records, dropped) = trace.finish();
        assert_eq!(dropped, 0);
        let [launch, wait, copy] = records.try_into().unwrap();
        assert_eq!(
            (launch.queue, launch.position, launch.operation),
            (QueueId(3), Position::new(17), Operation::Launch)
        );
        assert_eq!((launch.label, launch.kernel), (Some(label), Some(kernel)));
        assert_eq!((launch.start_ns, launch.end_ns), (1000, 5000));
        assert_eq!((launch.bytes, launch.awaited), (0, None));
        assert_eq!((copy.bytes, copy.peer), (u64::MAX, Some(DeviceId(2))));
        assert_eq!(
            (wait.bytes, wait.awaited),
            (0, Some((QueueId(3), Position::new(17))))
        );
        assert_eq!(wait.end_ns - wait.start_ns, 1);
    }

    #[test]
    fn threads_together_keep_no_more_than_was_asked_for_and_count_the_rest() {
        for capacity in [0, 1, 7, 1000, 3000, 10_000] {
            let trace = TraceBuffer::new(false);
            trace.start(capacity);
            piton_sync::thread::scope(|scope| {
                for thread in 0..4 {
                    let trace = &trace;
                    scope.spawn(move || {
                        for position in 1..=1000 {
                            let fill = draft(thread, position, Operation::Fill).moving(thread);
                            trace.push(&fill, (position, position), unnamed);
                        }
                    });
                }
            });
            let (records, dropped) = trace.finish();
            assert_eq!(records.len() as u64 + dropped, 4000);
            assert!(records.len() <= capacity);
            // Room that one log took and another needed.
            let lost = capacity.min(4000) - records.len();
            assert!(lost as u64 <= 4 * PORTION && (capacity < 100 || lost <= capacity / 16));
            assert!(records.is_sorted_by_key(|record| record.end_ns));
            assert!(records.iter().all(|record| record.bytes == record.queue.0));
        }
    }

    #[test]
    fn nothing_of_an_earlier_trace_is_in_the_next() {
        let trace = TraceBuffer::new(false);
        trace.start(10);
        trace.push(&draft(1, 1, Operation::Fill), (1, 2), unnamed);
        trace.start(10);
        assert_eq!(trace.finish(), (Vec::new(), 0));
        // A command that was under way when the trace was finished.
        trace.push(&draft(1, 2, Operation::Fill), (1, 2), unnamed);
        trace.start(10);
        assert_eq!(trace.finish(), (Vec::new(), 0));
    }

    #[test]
    fn in_virtual_time_the_order_is_that_of_the_schedule() {
        let trace = TraceBuffer::new(true);
        trace.start(10);
        trace.push(&draft(1, 1, Operation::Fill), (5, 9), unnamed);
        trace.push(&draft(2, 1, Operation::Fill), (1, 2), unnamed);
        let ends: Vec<u64> = trace
            .finish()
            .0
            .iter()
            .map(|record| record.end_ns)
            .collect();
        assert_eq!(ends, [9, 2]);
    }
}
