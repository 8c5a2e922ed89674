//! Waits for values in buffers, aborts of such that hang, and what tells of them.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    BufferError, Comparison, DeviceBuffer, DeviceId, LaneActivity, OnExpiry, Runtime, Stream,
    StreamError, WaitsFor,
};
use piton_driver::ErrorKind;
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};
use support::{check, runtime, sanitized, small_devices};

/// Flags that are zero, filled by a stream of their own.
fn flags(runtime: &Runtime) -> DeviceBuffer<u32> {
    let stream = runtime.device(0).unwrap().stream("fill").unwrap();
    stream.allocate_zeroed(8).unwrap()
}

fn streams(runtime: &Runtime) -> (Stream, Stream) {
    let device = runtime.device(0).unwrap();
    (device.stream("a").unwrap(), device.stream("b").unwrap())
}

#[track_caller]
fn failed_as(result: Result<(), BufferError>) -> ErrorKind {
    match result {
        Err(BufferError::Stream(StreamError::Poisoned(failure))) => failure.error.kind,
        other => panic!("{other:?} is no failure"),
    }
}

#[test]
fn a_stream_goes_on_when_another_writes_the_value_whoever_comes_first() {
    for make in [runtime, sanitized] {
        for write_first in [true, false] {
            let runtime = make(small_devices(1));
            let (a, b) = streams(&runtime);
            let mut flags = flags(&runtime);
            let (said, says) = mpsc::channel();
            let write = |flags: &mut DeviceBuffer<u32>| {
                b.write_value(&mut *flags, 2, 1).unwrap();
                b.write_value(&mut *flags, 2, 5).unwrap();
            };
            if write_first {
                write(&mut flags);
            }
            a.wait_value(&flags, 2, Comparison::AtLeast, 4).unwrap();
            a.call_host(move || said.send(()).unwrap()).unwrap();
            if !write_first {
                write(&mut flags);
            }
            a.synchronize().unwrap();
            says.try_recv().unwrap();
            assert_eq!(a.read(&flags).unwrap(), [0, 0, 5, 0, 0, 0, 0, 0]);
            check(&runtime);
        }
    }
}

#[test]
fn two_streams_hand_a_turn_back_and_forth() {
    let runtime = sanitized(small_devices(1));
    let (a, b) = streams(&runtime);
    let mut turn = a.allocate_zeroed::<u64>(1).unwrap();
    for round in 0..50_u64 {
        a.wait_value(&turn, 0, Comparison::Equal, 2 * round)
            .unwrap();
        a.write_value(&mut turn, 0, 2 * round + 1).unwrap();
        b.wait_value(&turn, 0, Comparison::Equal, 2 * round + 1)
            .unwrap();
        b.write_value(&mut turn, 0, 2 * round + 2).unwrap();
    }
    assert_eq!(b.read(&turn).unwrap(), [100]);
    check(&runtime);
}

#[test]
fn a_fill_comes_after_the_wait_and_not_into_it() {
    let runtime = runtime(small_devices(1));
    let (a, b) = streams(&runtime);
    let mut flags = flags(&runtime);
    let (open, opened) = mpsc::channel::<()>();
    a.wait_value(&flags, 0, Comparison::And, 1).unwrap();
    b.call_host(move || opened.recv().unwrap()).unwrap();
    b.write_value(&mut flags, 0, 3).unwrap();
    let c = runtime.device(0).unwrap().stream("c").unwrap();
    c.fill(&mut flags, 4).unwrap();
    assert!(!c.query().unwrap());
    open.send(()).unwrap();
    a.synchronize().unwrap();
    assert_eq!(c.read(&flags).unwrap(), [4; 8]);
}

#[test]
fn a_word_that_is_not_there_is_refused() {
    let runtime = runtime(small_devices(2));
    let (a, _) = streams(&runtime);
    let far = runtime.device(1).unwrap().stream("far").unwrap();
    let mut flags = flags(&runtime);
    for index in [8, u64::MAX, u64::MAX / 4] {
        let refused = a.wait_value(&flags, index, Comparison::Equal, 0);
        let is_right = matches!(
            refused,
            Err(BufferError::OutOfRange { start, len: 8, .. }) if start == index
        );
        assert!(is_right, "{refused:?}");
        assert!(a.write_value(&mut flags, index, 0).is_err());
    }
    let part = flags.slice_mut(2..4).unwrap();
    let refused = a.write_value(part, 2, 0);
    assert!(matches!(
        refused,
        Err(BufferError::OutOfRange { len: 2, .. })
    ));
    for refused in [
        far.wait_value(&flags, 0, Comparison::Equal, 0),
        far.write_value(&mut flags, 0, 0),
    ] {
        let is_right = matches!(
            refused,
            Err(BufferError::OtherDevice { stream, object })
                if (stream, object) == (DeviceId(1), DeviceId(0))
        );
        assert!(is_right, "{refused:?}");
    }
    let other = support::runtime(small_devices(1));
    let refused = streams(&other)
        .0
        .wait_value(&flags, 0, Comparison::Equal, 0);
    assert!(matches!(refused, Err(BufferError::OtherRuntime)));
    assert!(a.query().unwrap() && far.query().unwrap());
}

#[test]
fn a_buffer_dropped_under_a_wait_that_hangs_is_nobodys_until_the_abort() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (mut a, b) = streams(&runtime);
    let flags = flags(&runtime);
    let (waited_for, len) = (flags.ptr(), flags.len());
    a.wait_value(&flags, 0, Comparison::Equal, 1).unwrap();
    let is_waiting = || {
        let lanes = runtime.dump_streams();
        lanes.iter().any(|lane| {
            matches!(lane.activity, LaneActivity::Waiting(_, WaitsFor::Memory(at)) if at == waited_for)
        })
    };
    while !is_waiting() {
        std::thread::yield_now();
    }
    drop(flags);
    assert!(device.memory_stats().pending_bytes > 0);
    let fresh = b.allocate_zeroed::<u32>(len).unwrap();
    assert_ne!(fresh.ptr(), waited_for);
    b.synchronize().unwrap();

    a.abort().unwrap();
    assert_eq!(failed_as(a.synchronize()), ErrorKind::Aborted);
    drop(fresh);
    b.synchronize().unwrap();
    assert_eq!(device.memory_stats().live_bytes, 0);
    assert_eq!(
        a.failure(),
        a.clear_error().unwrap(),
        "the failure is told once more"
    );
    a.call_host(|| ()).unwrap();
    a.synchronize().unwrap();
    drop((a, b));
    device.memory().trim(0);
    assert_eq!(
        device.memory_stats().held_bytes,
        0,
        "everything has gone back"
    );
    check(&runtime);
}

#[test]
fn a_watchdog_ends_a_wait_that_nobody_will_end() {
    let runtime = runtime(small_devices(1));
    let (a, b) = streams(&runtime);
    let flags = flags(&runtime);
    let mut watchdog = runtime.watchdog(Duration::from_secs(5), OnExpiry::Abort);
    a.wait_value(&flags, 0, Comparison::Equal, 1).unwrap();
    b.call_host(|| ()).unwrap();
    b.synchronize().unwrap();
    let now = Instant::now();
    let later = now + Duration::from_secs(6);
    assert!(watchdog.check(now).is_empty());
    let expired = watchdog.check(later);
    assert_eq!(expired.len(), 1, "{expired:?}");
    assert_eq!(expired[0].lane.name.label.as_deref(), Some("a"));
    assert_eq!(failed_as(a.synchronize()), ErrorKind::Aborted);
    b.synchronize().unwrap();
}

#[test]
fn work_behind_an_aborted_use_of_a_buffer_fails_and_other_work_does_not() {
    let runtime = runtime(small_devices(1));
    let (a, b) = streams(&runtime);
    let mut flags = flags(&runtime);
    let mut other = b.allocate::<u32>(8).unwrap();
    a.wait_value(&flags, 0, Comparison::Equal, 1).unwrap();
    b.fill(&mut other, 7).unwrap();
    let filled = b.record();
    b.fill(&mut flags, 7).unwrap();
    a.abort().unwrap();
    assert!(matches!(
        failed_as(b.synchronize()),
        ErrorKind::DependencyFailed { .. }
    ));
    assert!(filled.query().unwrap());
    let c = runtime.device(0).unwrap().stream("c").unwrap();
    assert_eq!(c.read(&other).unwrap(), [7; 8]);
}

#[test]
fn what_is_made_after_a_failure_was_forgotten_knows_nothing_of_it() {
    let runtime = runtime(small_devices(1));
    let (mut a, b) = streams(&runtime);
    let flags = flags(&runtime);
    a.wait_value(&flags, 0, Comparison::Equal, 1).unwrap();
    let spoilt = a.record();
    a.abort().unwrap();
    failed_as(a.synchronize());
    a.clear_error().unwrap();
    let mut fresh = a.allocate::<u32>(8).unwrap();
    b.fill(&mut fresh, 3).unwrap();
    assert_eq!(b.read(&fresh).unwrap(), [3; 8]);
    a.synchronize().unwrap();
    assert!(spoilt.query().is_err());
}

#[test]
fn memory_that_a_failed_stream_used_brings_no_failure_to_who_has_it_next() {
    for make in [runtime, sanitized] {
        let runtime = make(small_devices(1));
        let (a, b) = streams(&runtime);
        let flags = flags(&runtime);
        let words = runtime.device(0).unwrap().memory().limit() / 4 * 3 / 4;
        let mut first = a.allocate::<u32>(words).unwrap();
        a.wait_value(&flags, 0, Comparison::Equal, 1).unwrap();
        a.fill(&mut first, 1).unwrap();
        drop(first);
        // There is room for one of them only.
        let mut second = b.allocate::<u32>(words).unwrap();
        let behind = b.record();
        assert!(!behind.query().unwrap(), "it comes after what hangs");
        b.fill(&mut second, 2).unwrap();
        a.abort().unwrap();
        assert_eq!(failed_as(a.synchronize()), ErrorKind::Aborted);
        b.synchronize().unwrap();
        // Nor to a third stream that takes the buffer.
        let c = runtime.device(0).unwrap().stream("c").unwrap();
        c.fill(&mut second, 3).unwrap();
        c.synchronize().unwrap();
        check(&runtime);
    }
}
