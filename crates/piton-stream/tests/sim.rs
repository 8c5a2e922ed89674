//! Streams over the simulated device: the same promises, kept by threads and by seeded schedules.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use piton_driver::ErrorKind;
use piton_sim::{ScheduleOrder, SimConfig};
use piton_stream::{Event, Semaphore, StreamError};
use piton_sync::{Mutex, thread};
use std::sync::Arc;
use support::simulated::{BYTES, SimBench as Bench, block_on, config, fill, machines};

/// Host functions on two streams, handing the turn to each other by events: their log is the program's order.
#[test]
fn streams_that_wait_for_each_other_take_turns() {
    for config in machines() {
        let bench = Bench::new(config);
        let streams = [bench.stream("even"), bench.stream("odd")];
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut before: Option<Event> = None;
        for turn in 0..200 {
            let stream = &streams[turn % 2];
            if let Some(event) = &before {
                stream.wait(event).unwrap();
            }
            let log = Arc::clone(&log);
            stream.call_host(move || log.lock().push(turn)).unwrap();
            before = Some(stream.record());
        }
        streams[1].synchronize().unwrap();
        assert_eq!(*log.lock(), (0..200).collect::<Vec<_>>());
        bench.streams.check();
    }
}

/// Two drivers know as little of each other as two processes do.
#[test]
fn streams_of_two_drivers_wait_for_each_other_by_a_semaphore_that_both_have() {
    let benches = [Bench::new(config()), Bench::new(config())];
    let [first, second] = &benches;
    let own = Semaphore::shared(&first.device, 0).unwrap();
    let exported = own.export(&first.device).unwrap();
    let other = Semaphore::import(&second.device, &exported).unwrap();
    let (a, b) = (first.stream("a"), second.stream("b"));
    let log = Arc::new(Mutex::new(Vec::new()));
    for turn in 0..20 {
        let noted = |number| {
            let log = Arc::clone(&log);
            move || log.lock().push(number)
        };
        b.wait_semaphore(&other, 2 * turn + 1).unwrap();
        b.call_host(noted(2 * turn + 1)).unwrap();
        b.signal_semaphore(&other, 2 * turn + 2).unwrap();
        a.wait_semaphore(&own, 2 * turn).unwrap();
        a.call_host(noted(2 * turn)).unwrap();
        a.signal_semaphore(&own, 2 * turn + 1).unwrap();
    }
    a.synchronize().unwrap();
    b.synchronize().unwrap();
    assert_eq!(*log.lock(), (0..40).collect::<Vec<u64>>());
    assert_eq!((own.value(), other.value()), (40, 40));
    let plain = Semaphore::new(&first.device, 0).unwrap();
    let refused = plain.export(&first.device).unwrap_err();
    assert!(
        matches!(refused, StreamError::Driver(error) if error.kind == ErrorKind::PrivateSemaphore)
    );
    let virtually = Bench::new(config().in_virtual_time(1, ScheduleOrder::Seeded));
    let refused = Semaphore::shared(&virtually.device, 0).unwrap_err();
    assert!(matches!(refused, StreamError::Unsupported { .. }));
}

#[test]
fn a_full_stream_takes_whatever_it_is_given_in_time() {
    for config in machines() {
        let bench = Bench::new(config);
        let stream = bench.stream("a");
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let many = stream.capacity() * 2 + 7;
        for _ in 0..many {
            fill(&stream, at).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(stream.now().seq, many);
    }
}

#[test]
fn completions_are_awaited_without_an_executor() {
    for workers in [1, 2] {
        let bench = Bench::new(SimConfig {
            workers: Some(workers),
            ..config()
        });
        let stream = bench.stream("a");
        let at = bench.device.memory().allocate(BYTES).unwrap();
        for _ in 0..200 {
            let point = fill(&stream, at).unwrap();
            block_on(stream.completion()).unwrap();
            assert!(bench.streams.timeline().is_complete(point));
        }
    }
}

#[test]
fn a_host_signal_starts_what_waits() {
    for workers in [1, 2] {
        let bench = Bench::new(SimConfig {
            workers: Some(workers),
            ..config()
        });
        let stream = bench.stream("a");
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        for turn in 1..100 {
            stream.wait_semaphore(&gate, turn).unwrap();
            let event = stream.record();
            assert_eq!(event.query(), Ok(false));
            gate.signal(turn).unwrap();
            assert_eq!(event.synchronize(), Ok(()));
        }
    }
}

#[test]
fn a_panic_in_one_stream_fails_those_that_wait_and_no_other() {
    for config in machines() {
        let bench = Bench::new(config);
        let (a, b, c) = (bench.stream("a"), bench.stream("b"), bench.stream("c"));
        let line = line!() + 1;
        a.call_host(|| panic!("on purpose")).unwrap();
        b.wait(&a.record()).unwrap();
        b.call_host(|| unreachable!("skipped")).unwrap();
        c.call_host(|| ()).unwrap();
        let Err(StreamError::Poisoned(failure)) = b.synchronize() else {
            panic!("b waits for a failure");
        };
        let root = failure.root.as_ref().unwrap();
        assert_eq!(root.label.as_deref(), Some("a"));
        assert_eq!(root.place.map(|place| place.line()), Some(line));
        assert_eq!(c.synchronize(), Ok(()));
    }
}

/// Memory freed in a failed stream's order must be out of use by whatever that stream waited for.
#[test]
fn a_skipped_wait_still_keeps_the_order() {
    for config in machines() {
        let bench = Bench::new(config);
        let (runs, fails) = (bench.stream("runs"), bench.stream("fails"));
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        runs.wait_semaphore(&gate, 1).unwrap();
        fails.call_host(|| panic!("on purpose")).unwrap();
        let failed = fails.record();
        assert!(failed.synchronize().is_err());
        fails.wait(&runs.record()).unwrap();
        let after = fails.record();
        assert_eq!(after.query(), Ok(false));
        gate.signal(1).unwrap();
        assert!(matches!(after.synchronize(), Err(StreamError::Poisoned(_))));
        assert_eq!(runs.query(), Ok(true));
    }
}

#[test]
fn a_host_function_that_waits_for_its_own_stream_is_told() {
    for config in machines() {
        let bench = Bench::new(config);
        let stream = Arc::new(bench.stream("a"));
        let (itself, told) = (Arc::clone(&stream), Arc::new(Mutex::new(None)));
        let inside = Arc::clone(&told);
        stream
            .call_host(move || *inside.lock() = Some(itself.synchronize()))
            .unwrap();
        stream.synchronize().unwrap();
        let told = told.lock().take();
        assert!(matches!(told, Some(Err(StreamError::WouldDeadlock { .. }))));
    }
}

/// Threads that share a stream, and make and drop streams of their own, lose nothing.
#[test]
fn streams_are_used_by_many_threads() {
    let bench = Bench::new(SimConfig {
        workers: Some(2),
        ..config()
    });
    let shared = bench.stream("shared");
    let count = Arc::new(Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let own = bench.stream("own");
                    own.wait(&shared.record()).unwrap();
                    for stream in [&own, &shared] {
                        let count = Arc::clone(&count);
                        stream.call_host(move || *count.lock() += 1).unwrap();
                    }
                    shared.wait(&own.record()).unwrap();
                }
            });
        }
    });
    shared.synchronize().unwrap();
    assert_eq!(*count.lock(), 300);
    drop(shared);
    bench.streams.prune();
    bench.streams.check();
    assert_eq!(bench.streams.detached(), 0);
}

#[test]
fn times_do_not_run_backwards() {
    for config in machines() {
        let bench = Bench::new(config);
        let stream = bench.stream("a");
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let start = stream.record_timed().unwrap();
        fill(&stream, at).unwrap();
        let end = stream.record_timed().unwrap();
        stream.synchronize().unwrap();
        assert!(Event::elapsed_ns(&start, &end).unwrap().unwrap() >= 0);
    }
}
