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
//! time and nothing else.
//!
//! | word | written by | order |
//! |---|---|---|
//! | `room` | a log's owner takes a portion, by RMW under the log's lock; `start` and `finish` store it under all locks | Relaxed: the locks order what depends on it |
//! | a log, with the room it has left | under its lock | |
//!
//! Whoever needs more than one log takes all locks, in the order of the logs: `start`, `finish`, and a log that is full
//! when `room` is used up, which then takes what others have left. So a trace keeps as many records as it was given room
//! for, however they are spread; and a record that comes after `finish` finds no room, and is in no later trace.
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
    CachePadded, Mutex, MutexGuard,
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
        self.push_to(self.own_log(), draft, (start, end), names);
    }

    fn push_to(
        &self,
        own: usize,
        draft: &Draft,
        times: (u64, u64),
        names: impl FnOnce() -> (Option<Arc<str>>, Option<Arc<str>>),
    ) {
        let mut log = self.logs[own].lock();
        if log.is_full() {
            log.add_room(self.take_room());
        }
        if log.may_borrow() {
            drop(log);
            let mut logs = self.lock_all();
            self.borrow_room(&mut logs, own);
            logs[own].push(draft, times, names);
        } else {
            log.push(draft, times, names);
        }
    }

    fn lock_all(&self) -> Vec<MutexGuard<'_, Log>> {
        self.logs.iter().map(|log| log.lock()).collect()
    }

    /// The own log gets a portion of what others have left. Once there is nothing, there will be nothing.
    #[cold]
    fn borrow_room(&self, logs: &mut [MutexGuard<'_, Log>], own: usize) {
        // A trace may have been started before all locks were held.
        let mut borrowed = self.take_room();
        let portion = self.portion.load(Ordering::Relaxed);
        for log in logs.iter_mut() {
            borrowed += log.give_room(portion.saturating_sub(borrowed));
        }
        if borrowed == 0 {
            logs.iter_mut().for_each(|log| log.stop_borrowing());
        }
        logs[own].add_room(borrowed);
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

impl TraceBuffer {
    fn start_in_portions(&self, capacity: u64, portion: u64) {
        let mut logs = self.lock_all();
        logs.iter_mut().for_each(|log| **log = Log::default());
        self.portion.store(portion, Ordering::Relaxed);
        self.room.store(capacity, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
    }
}

impl ExecutionTrace for TraceBuffer {
    fn start(&self, capacity: usize) {
        let capacity = capacity as u64;
        // Small, so that logs seldom borrow; large, so that `room` is seldom written.
        let portion = (capacity / (8 * LOGS as u64)).clamp(1, PORTION);
        self.start_in_portions(capacity, portion);
    }

    fn finish(&self) -> (Vec<ExecutionRecord>, u64) {
        self.is_on.store(false, Ordering::Relaxed);
        let mut locked = self.lock_all();
        self.room.store(0, Ordering::Relaxed);
        let logs: Vec<Log> = locked
            .iter_mut()
            .map(|log| std::mem::take(&mut **log))
            .collect();
        drop(locked);
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
    use piton_driver::{
        Comparison, DeviceId, DevicePtr, MemoryWait, MemoryWord, Operation, Origin, Position,
        QueueId, SemaphoreId, Signal,
    };
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
        let write = Signal::MemoryWrite(DevicePtr::new(64), MemoryWord::U32(9));
        let waits = Signal::MemoryWait(MemoryWait {
            at: DevicePtr::new(64),
            comparison: Comparison::AtLeast,
            value: MemoryWord::U64(u64::MAX),
        });
        let counted = Signal::Semaphore(SemaphoreId(5), 7);
        let signals = [write, waits, counted];
        for (position, signal) in (3..).zip(signals) {
            let at = (1 << 61) + position;
            let told = draft(4, position, Operation::WaitMemory).signalling(signal);
            trace.push(&told, (at, at), unnamed);
        }
        let (records, dropped) = trace.finish();
        assert_eq!(dropped, 0);
        let [launch, wait, told @ .., copy] = &records[..] else {
            panic!("{records:?}");
        };
        let told: Vec<_> = told.iter().map(|it| (it.signal, it.bytes)).collect();
        let [write, waits, counted] = signals.map(Some);
        assert_eq!(told, [(write, 4), (waits, 0), (counted, 0)]);
        assert_eq!(
            (launch.queue, launch.position, launch.operation),
            (QueueId(3), Position::new(17), Operation::Launch)
        );
        assert_eq!(
            (&launch.label, &launch.kernel),
            (&Some(label), &Some(kernel))
        );
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
    fn threads_together_keep_as_many_as_was_asked_for_and_count_the_rest() {
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
            assert_eq!(records.len(), capacity.min(4000));
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

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_driver::{Operation, QueueId};
    use piton_sync::{model, thread};
    use std::panic::Location;

    fn buffer() -> Arc<TraceBuffer> {
        let mut trace = TraceBuffer::new(false);
        trace.logs = (0..2).map(|_| CachePadded::default()).collect();
        Arc::new(trace)
    }

    fn push(trace: &TraceBuffer, log: usize, position: u64) {
        let draft = Draft::new(QueueId(1), position, Operation::Fill, Location::caller());
        trace.push_to(log, &draft, (1, 2), || (None, None));
    }

    /// The first takes all there is; the second comes while it has used one, or none.
    #[test]
    fn room_that_another_log_took_is_used() {
        model(|| {
            let trace = buffer();
            trace.start_in_portions(2, 2);
            let other = Arc::clone(&trace);
            let pusher = thread::spawn(move || push(&other, 1, 1));
            push(&trace, 0, 2);
            pusher.join().unwrap();
            let (records, dropped) = trace.finish();
            assert_eq!((records.len(), dropped), (2, 0));
        });
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        model(|| {
            let trace = buffer();
            trace.start_in_portions(1, 1);
            let other = Arc::clone(&trace);
            let pusher = thread::spawn(move || push(&other, 1, 1));
            push(&trace, 0, 2);
            pusher.join().unwrap();
            let (records, dropped) = trace.finish();
            assert_eq!((records.len(), dropped), (1, 1));
        });
    }

    /// A command ends while the trace is finished and the next one started: it is in one of them, or in none.
    #[test]
    fn a_record_that_comes_late_takes_no_room_of_the_next_trace() {
        model(|| {
            let trace = buffer();
            trace.start_in_portions(1, 1);
            let other = Arc::clone(&trace);
            let pusher = thread::spawn(move || push(&other, 1, 1));
            let (first, _) = trace.finish();
            trace.start_in_portions(1, 1);
            pusher.join().unwrap();
            push(&trace, 0, 2);
            let (second, dropped) = trace.finish();
            assert_eq!(second.len(), 1, "room for one");
            let is_in_second = second[0].position.get() == 1;
            assert_eq!(dropped, u64::from(is_in_second));
            assert!(first.len() + usize::from(is_in_second) <= 1, "kept twice");
        });
    }
}
