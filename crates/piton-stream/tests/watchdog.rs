//! Dumps of what streams are at, and watchdogs over them.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use piton_driver::{ErrorKind, Operation};
use piton_sim::SimConfig;
use piton_stream::{
    LaneActivity, OnExpiry, Semaphore, StreamError, StreamOptions, WaitsFor, Watchdog,
};
use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use support::{
    Bench, Step,
    simulated::{SimBench, config, machines},
    trap, work,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_dump_says_who_waits_for_whom() {
    let bench = Bench::new();
    let (a, b, idle) = (bench.stream("a"), bench.stream("b"), bench.stream("idle"));
    let gate = Semaphore::new(&bench.device, 2).unwrap();
    work(&a).unwrap();
    let line = line!() + 1;
    a.wait_semaphore(&gate, 5).unwrap();
    b.wait(&a.record()).unwrap();
    trap(&idle).unwrap();
    assert_eq!(bench.machine.step(0), Step::Ended);
    assert_eq!(bench.machine.step(2), Step::Ended);
    let dump = bench.streams.dump();
    assert_eq!((dump[0].completed, dump[0].submitted), (1, 2));
    let LaneActivity::Waiting(doing, awaited) = &dump[0].activity else {
        panic!("{}", dump[0]);
    };
    assert_eq!(doing.operation, Operation::WaitSemaphore);
    assert_eq!(doing.place.map(|place| place.line()), Some(line));
    let (current, wanted) = (2, 5);
    assert_eq!(*awaited, WaitsFor::Semaphore { current, wanted });
    let LaneActivity::Waiting(_, WaitsFor::Stream(name, point)) = &dump[1].activity else {
        panic!("{}", dump[1]);
    };
    assert_eq!(name.label.as_deref(), Some("a"));
    assert_eq!(*point, a.now());
    assert_eq!(dump[2].activity, LaneActivity::Idle);
    assert!(dump[2].failure.is_some());
    let text = dump[1].to_string();
    assert!(
        text.starts_with("stream `b` on device 0: 0 of 1, at "),
        "{text}"
    );
    assert!(text.ends_with("waits for stream `a` to end 2"), "{text}");
    drop(a);
    assert_eq!(bench.streams.dump().len(), 3);
}

#[test]
fn a_command_expires_once_when_its_time_is_over() {
    let bench = Bench::new();
    let (a, waits) = (bench.stream("a"), bench.stream("waits"));
    let gate = Semaphore::new(&bench.device, 0).unwrap();
    work(&a).unwrap();
    a.wait_semaphore(&gate, 1).unwrap();
    waits.wait(&a.record()).unwrap();
    let mut dog = Watchdog::new(&bench.streams, SECOND, OnExpiry::Tell);
    let start = Instant::now();
    assert!(dog.check(start).is_empty());
    // The first command ends, and the time of the second begins.
    assert_eq!(bench.machine.step(0), Step::Ended);
    assert!(dog.check(start + SECOND).is_empty());
    assert!(dog.check(start + SECOND * 3 / 2).is_empty());
    let expired = dog.check(start + SECOND * 2);
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].lane.name.label.as_deref(), Some("a"));
    assert_eq!((expired[0].seen_for, expired[0].all.len()), (SECOND, 2));
    assert!(expired[0].aborted.is_none());
    assert!(dog.check(start + SECOND * 9).is_empty());
    gate.signal(1).unwrap();
    bench.machine.run();
    assert!(dog.check(start + SECOND * 99).is_empty());
    assert_eq!(waits.query(), Ok(true));
}

#[test]
fn a_stream_has_a_deadline_of_its_own() {
    let bench = Bench::new();
    let slow = bench.stream_with(StreamOptions {
        command_deadline: Some(SECOND * 10),
        ..StreamOptions::labelled("slow")
    });
    work(&slow).unwrap();
    let mut dog = Watchdog::new(&bench.streams, SECOND, OnExpiry::Tell);
    let start = Instant::now();
    assert!(dog.check(start).is_empty());
    assert!(dog.check(start + SECOND * 9).is_empty());
    assert_eq!(dog.check(start + SECOND * 10).len(), 1);
}

#[test]
fn a_command_has_a_deadline_of_its_own() {
    let bench = Bench::new();
    let stream = bench.stream_with(StreamOptions {
        command_deadline: Some(SECOND * 5),
        ..StreamOptions::labelled("slow in parts")
    });
    for deadline in [None, Some(10), Some(1), None] {
        work(&stream).unwrap();
        if let Some(seconds) = deadline {
            let last = stream.record();
            // What is said last counts.
            last.set_command_deadline(SECOND * 99).unwrap();
            last.set_command_deadline(SECOND * seconds).unwrap();
        }
    }
    let mut dog = Watchdog::new(&bench.streams, SECOND, OnExpiry::Tell);
    let mut now = Instant::now();
    for seconds in [5, 10, 1, 5] {
        assert!(dog.check(now).is_empty());
        let short = SECOND * seconds - SECOND / 2;
        assert!(dog.check(now + short).is_empty(), "{seconds}");
        now += SECOND * seconds;
        let [expiry] = dog.check(now).try_into().unwrap();
        assert_eq!(expiry.seen_for, SECOND * seconds);
        assert_eq!(bench.machine.step(0), Step::Ended);
    }
    // All have ended: there is nothing to say of them, and nothing is.
    stream.record().set_command_deadline(SECOND).unwrap();
    assert!(dog.check(now + SECOND * 99).is_empty());
}

#[test]
fn an_expiry_tells_how_long_every_stream_has_been_at_what_it_is_at() {
    let bench = Bench::new();
    let [first, second, idle] = ["first", "second", "idle"].map(|label| bench.stream(label));
    let mut dog = Watchdog::new(&bench.streams, SECOND * 10, OnExpiry::Tell);
    let start = Instant::now();
    for (after, stream) in (0..).zip([&first, &second]) {
        work(stream).unwrap();
        assert!(dog.check(start + SECOND * after).is_empty());
    }
    let expired = dog.check(start + SECOND * 10);
    assert_eq!(expired.len(), 1, "the second has a second left");
    let ages = expired[0].all.iter().map(|lane| lane.seen_for);
    let seen = [Some(SECOND * 10), Some(SECOND * 9), None];
    assert!(ages.eq(seen), "{}", expired[0]);
    let text = expired[0].to_string();
    assert!(text.contains("not started at 1, for 9s"), "{text}");
    // Without a watchdog nobody knows.
    let dump = bench.streams.dump();
    assert!(dump.iter().all(|lane| lane.seen_for.is_none()));
    drop((first, idle));
}

#[test]
fn all_that_expires_at_one_look_shares_one_dump() {
    let bench = Bench::new();
    let streams: Vec<_> = (0..50).map(|_| bench.stream("stuck")).collect();
    for stream in &streams {
        work(stream).unwrap();
    }
    let mut dog = Watchdog::new(&bench.streams, SECOND, OnExpiry::Tell);
    let start = Instant::now();
    assert!(dog.check(start).is_empty());
    let expired = dog.check(start + SECOND);
    assert_eq!(expired.len(), streams.len());
    let first = &expired[0].all;
    assert!(expired.iter().all(|expiry| Arc::ptr_eq(first, &expiry.all)));
    let names = expired.iter().map(|expiry| expiry.lane.name.lane);
    assert!(names.eq(streams.iter().map(|stream| stream.id())));
}

#[test]
fn an_expired_stream_is_aborted_and_nothing_else_is() {
    for config in machines() {
        let bench = SimBench::new(config);
        let (stuck, waits, other) = (
            bench.stream("stuck"),
            bench.stream("waits"),
            bench.stream("other"),
        );
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        stuck.wait_semaphore(&gate, 1).unwrap();
        waits.wait(&stuck.record()).unwrap();
        other.call_host(|| ()).unwrap();
        other.synchronize().unwrap();
        stuck.flush().unwrap();
        let mut dog = Watchdog::new(&bench.streams, SECOND, OnExpiry::Abort);
        let start = Instant::now();
        assert!(dog.check(start).is_empty());
        let mut expired = dog.check(start + SECOND);
        // Whoever has not been started waits for nobody yet.
        expired.retain(|expiry| expiry.lane.name.label.as_deref() == Some("stuck"));
        assert_eq!(expired.len(), 1);
        assert_eq!(expired[0].aborted, Some(Ok(())));
        let Err(StreamError::Poisoned(failure)) = stuck.synchronize() else {
            panic!("it was aborted");
        };
        assert_eq!(failure.error.kind, ErrorKind::Aborted);
        assert!(waits.synchronize().is_err());
        assert_eq!(other.synchronize(), Ok(()));
    }
}

#[test]
fn a_watchdog_of_its_own_thread_tells_and_aborts_until_it_is_dropped() {
    let bench = SimBench::new(SimConfig {
        workers: Some(1),
        ..config()
    });
    let stream = bench.stream("stuck");
    let gate = Semaphore::new(&bench.device, 0).unwrap();
    stream.wait_semaphore(&gate, 1).unwrap();
    let (tells, told) = mpsc::channel();
    let dog = Watchdog::new(&bench.streams, Duration::ZERO, OnExpiry::Abort);
    let period = Duration::from_millis(1);
    let watch = dog
        .spawn(period, move |expiry| {
            let _nobody_listens = tells.send(expiry.to_string());
        })
        .unwrap();
    assert!(stream.synchronize().is_err());
    let text = told.recv().unwrap();
    assert!(text.starts_with("stream `stuck` is stuck for "), "{text}");
    drop(watch);
    // The thread is gone, and its callback with it.
    assert!(told.iter().count() < 2);
}

#[test]
fn a_lost_device_shows() {
    let bench = SimBench::new(machines().remove(2));
    let stream = bench.stream("a");
    assert!(bench.streams.dump()[0].lost.is_none());
    bench.driver.lose(bench.device.info().id);
    let dump = bench.streams.dump();
    let lost = dump[0].lost.unwrap();
    assert!(lost.is_device_lost());
    assert!(dump[0].to_string().contains("the device is lost"));
    drop(stream);
}
