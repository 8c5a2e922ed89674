//! Events: places that are asked, waited for, timed, and outlive their streams.

#![cfg(not(loom))]

mod support;

use piton_driver::Device;
use piton_stream::{Event, StreamError, StreamOptions};
use std::sync::Arc;
use support::{Bench, trap, work};

#[test]
fn an_event_is_a_place_and_recording_again_is_another() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let start = stream.record();
    assert_eq!(start.query(), Ok(true));
    work(&stream).unwrap();
    let first = stream.record();
    work(&stream).unwrap();
    let second = stream.record();
    assert_eq!(stream.depth(), 2, "recording submits nothing");
    bench.machine.step(0);
    assert_eq!((first.query(), second.query()), (Ok(true), Ok(false)));
    assert_eq!(second.synchronize(), Ok(()));
    assert!(
        bench
            .streams
            .timeline()
            .is_known_complete(second.timepoint()),
        "the timeline learns from waits"
    );
    assert_eq!(first.clone().query(), Ok(true));
}

#[test]
fn an_event_before_the_failure_is_well_and_one_after_it_is_poisoned() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let before = stream.record();
    trap(&stream).unwrap();
    let after = stream.record();
    assert_eq!(after.query(), Ok(false), "not ended yet");
    bench.machine.run();
    assert_eq!(before.query(), Ok(true));
    assert!(matches!(after.query(), Err(StreamError::Poisoned(_))));
    assert!(matches!(after.synchronize(), Err(StreamError::Poisoned(_))));
}

#[test]
fn an_event_outlives_its_stream_and_its_slots_next_tenant() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let good = stream.record();
    trap(&stream).unwrap();
    let bad = stream.record();
    drop(stream);
    bench.machine.run();
    let tenant = bench.stream("b");
    assert_eq!(tenant.id().index, good.timepoint().lane.index);
    trap(&tenant).unwrap();
    bench.machine.run();
    assert_eq!(good.query(), Ok(true));
    let Err(StreamError::Poisoned(failure)) = bad.query() else {
        panic!("its own failure is remembered");
    };
    assert_eq!(failure.label.as_deref(), Some("a"));
    assert!(failure.place.is_some());
    assert_eq!(good.synchronize(), Ok(()));
    bench.streams.check();
}

#[test]
fn a_timed_event_tells_the_devices_time() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let start = stream.record_timed().unwrap();
    work(&stream).unwrap();
    let end = stream.record_timed().unwrap();
    assert_eq!(Event::elapsed_ns(&start, &end), Ok(None));
    stream.synchronize().unwrap();
    assert_eq!(Event::elapsed_ns(&start, &end), Ok(Some(20)));
    assert_eq!(Event::elapsed_ns(&end, &start), Ok(Some(-20)));
    let untimed = stream.record();
    assert!(matches!(
        untimed.time_ns(),
        Err(StreamError::NotTimed { .. })
    ));
}

#[test]
fn slots_come_back_when_read_or_dropped_and_never_mix() {
    let bench = Bench::over(|device| device.with_capacity(10_000));
    let stream = bench.stream("a");
    let kept = stream.record_timed().unwrap();
    for _ in 0..200 {
        drop(stream.record_timed().unwrap());
    }
    let last = stream.record_timed().unwrap();
    bench.machine.run();
    assert_eq!(kept.time_ns(), Ok(Some(10)));
    assert_eq!(last.time_ns(), Ok(Some(2020)));
    // Both slots were given back by reading; what was read stays.
    let next = [
        stream.record_timed().unwrap(),
        stream.record_timed().unwrap(),
    ];
    bench.machine.run();
    assert_eq!(kept.time_ns(), Ok(Some(10)));
    assert_eq!(last.time_ns(), Ok(Some(2020)));
    assert_eq!(next[1].time_ns(), Ok(Some(2040)));
}

#[test]
fn no_time_is_told_of_an_event_that_failed() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    trap(&stream).unwrap();
    let event = stream.record_timed().unwrap();
    bench.machine.run();
    assert!(matches!(event.time_ns(), Err(StreamError::Poisoned(_))));
}

#[test]
fn clocks_of_two_devices_are_not_compared() {
    let bench = Bench::new();
    let other: Arc<dyn Device> = Arc::new(support::FakeDevice::new(&bench.machine, 1));
    let here = bench.stream("here");
    let there = bench
        .streams
        .create(&other, StreamOptions::default())
        .unwrap();
    let (start, end) = (here.record_timed().unwrap(), there.record_timed().unwrap());
    assert!(matches!(
        Event::elapsed_ns(&start, &end),
        Err(StreamError::DifferentClocks { .. })
    ));
}
