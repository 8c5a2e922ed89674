//! Streams: order, room, priorities, failures, ending with work under way.

#![cfg(not(loom))]

mod support;

use piton_driver::{ComputeUnitSet, HardwareQueue, Operation, Placement, Priority, WaitOutcome};
use piton_stream::{Facet, StreamError, StreamOptions, Submission, WhenFull};
use std::time::Instant;
use support::{Bench, Step, trap, try_work, work};

#[test]
fn commands_run_in_order_and_the_stream_says_how_far() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    assert_eq!(stream.query(), Ok(true));
    let first = work(&stream).unwrap();
    let second = work(&stream).unwrap();
    assert!(first < second);
    assert_eq!((stream.depth(), stream.free()), (2, 62));
    assert_eq!(bench.machine.step(0), Step::Ended);
    assert_eq!(bench.streams.query(first), Ok(true));
    assert_eq!(bench.streams.query(second), Ok(false));
    assert_eq!(stream.query(), Ok(false));
    stream.synchronize().unwrap();
    assert_eq!(stream.query(), Ok(true));
    assert_eq!(stream.depth(), 0);
    bench.streams.check();
}

#[test]
fn a_deadline_that_passes_is_an_answer() {
    let bench = Bench::new();
    let (a, gate) = (
        bench.stream("a"),
        piton_stream::Semaphore::new(&bench.device, 0),
    );
    let gate = gate.unwrap();
    a.wait_semaphore(&gate, 1).unwrap();
    let deadline = Instant::now();
    assert_eq!(
        a.synchronize_until(deadline),
        Ok(WaitOutcome::DeadlinePassed)
    );
    gate.signal(1).unwrap();
    assert_eq!(a.synchronize_until(deadline), Ok(WaitOutcome::Reached));
}

#[test]
fn a_full_stream_parks_refuses_or_says_so() {
    let bench = Bench::over(|device| device.with_capacity(2));
    let parks = bench.stream("parks");
    for n in 1..=5 {
        work(&parks).unwrap();
        assert_eq!(parks.depth(), n.min(2));
    }
    assert_eq!(try_work(&parks), Ok(Submission::Full));
    assert_eq!(parks.depth(), 2);
    let refuses = bench.stream_with(StreamOptions {
        when_full: WhenFull::Refuse,
        ..StreamOptions::default()
    });
    work(&refuses).unwrap();
    work(&refuses).unwrap();
    let depth = refuses.depth();
    assert_eq!(work(&refuses), Err(StreamError::Full { capacity: 2 }));
    assert_eq!(refuses.depth(), depth);
}

#[test]
fn room_that_came_right_after_a_refusal_is_seen() {
    let bench = Bench::over(|device| device.with_capacity(2).moving_on_refusal());
    let stream = bench.stream("a");
    let gate = piton_stream::Semaphore::new(&bench.device, 0).unwrap();
    work(&stream).unwrap();
    stream.wait_semaphore(&gate, 1).unwrap();
    // The first command ends just after the refusal; the second never does.
    assert!(work(&stream).is_ok());
    assert_eq!(stream.depth(), 2);
    gate.signal(1).unwrap();
    stream.close().unwrap();
}

#[test]
fn a_priority_out_of_range_is_refused_with_the_range() {
    let bench = Bench::new();
    let options = |priority| StreamOptions {
        priority: Priority(priority),
        ..StreamOptions::default()
    };
    let high = bench.stream_with(options(-2));
    assert_eq!(high.priority(), Priority(-2));
    let error = bench
        .streams
        .create(&bench.device, options(-3))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "priority -3 is not between -2 (highest) and 0 (lowest)"
    );
    let bare = Bench::over(support::FakeDevice::bare);
    assert!(bare.streams.create(&bare.device, options(0)).is_ok());
    assert!(matches!(
        bare.streams.create(&bare.device, options(1)),
        Err(StreamError::PriorityOutOfRange { .. })
    ));
}

#[test]
fn what_a_device_lacks_is_named() {
    let bench = Bench::over(support::FakeDevice::bare);
    let stream = bench.stream("a");
    let lacks = |result: Result<(), StreamError>| match result {
        Err(StreamError::Unsupported { facet, .. }) => facet,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        lacks(stream.call_host(|| ()).map(drop)),
        Facet::HostFunctions
    );
    assert_eq!(lacks(stream.record_timed().map(drop)), Facet::Timestamps);
    let semaphore = piton_stream::Semaphore::new(&bench.device, 0);
    assert_eq!(lacks(semaphore.map(drop)), Facet::Semaphores);
    let units = StreamOptions {
        compute_units: Some(ComputeUnitSet(1)),
        ..StreamOptions::default()
    };
    let limited = bench.streams.create(&bench.device, units);
    assert_eq!(lacks(limited.map(drop)), Facet::ComputeUnits);
}

#[test]
fn streams_on_one_hardware_queue_say_so() {
    let bench = Bench::new();
    let on = |n| {
        bench.stream_with(StreamOptions {
            placement: Placement::Explicit(HardwareQueue(n)),
            ..StreamOptions::default()
        })
    };
    let (a, b, c) = (on(0), on(1), on(1));
    assert!(b.shares_queue_with(&c));
    assert!(!a.shares_queue_with(&b));
}

#[test]
fn a_failure_names_stream_call_and_place() {
    let bench = Bench::new();
    let stream = bench.stream("compute");
    work(&stream).unwrap();
    assert_eq!(stream.failure(), None);
    let line = line!() + 1;
    let failed = trap(&stream).unwrap();
    let skipped = work(&stream).unwrap();
    let Err(StreamError::Poisoned(failure)) = stream.synchronize() else {
        panic!("the stream is poisoned");
    };
    assert_eq!(failure.timepoint, failed);
    assert_eq!(failure.error.operation, Operation::Fill);
    assert_eq!(failure.place.map(|place| place.line()), Some(line));
    assert!(
        failure
            .to_string()
            .starts_with("stream `compute`: filling memory (enqueued at")
    );
    assert_eq!(stream.failure().as_ref(), Some(&failure));
    assert_eq!(
        bench.streams.query(skipped),
        Err(StreamError::Poisoned(failure))
    );
}

#[test]
fn the_place_of_a_failure_is_kept_however_much_follows() {
    let bench = Bench::over(|device| device.with_capacity(1000));
    let stream = bench.stream("a");
    let failed = trap(&stream).unwrap();
    for _ in 0..5000 {
        work(&stream).unwrap();
    }
    let failure = stream.failure().unwrap();
    assert_eq!(failure.timepoint, failed);
    assert!(failure.place.is_some());
}

#[test]
fn a_failure_spreads_through_waits_and_names_its_root() {
    let bench = Bench::new();
    let (a, b, c, d) = (
        bench.stream("a"),
        bench.stream("b"),
        bench.stream("c"),
        bench.stream("d"),
    );
    trap(&a).unwrap();
    b.wait(&a.record()).unwrap();
    c.wait(&b.record()).unwrap();
    work(&c).unwrap();
    work(&d).unwrap();
    let Err(StreamError::Poisoned(failure)) = c.synchronize() else {
        panic!("the stream is poisoned");
    };
    assert_eq!(failure.error.operation, Operation::WaitQueue);
    let root = failure.root.as_ref().unwrap();
    assert_eq!(root.label.as_deref(), Some("a"));
    assert!(failure.to_string().ends_with("met a failure of stream `a`"));
    assert_eq!(d.synchronize(), Ok(()));
}

#[test]
fn a_dropped_stream_runs_to_its_end_and_then_gives_its_queue_back() {
    let bench = Bench::over(|device| device.with_queues(1));
    let stream = bench.stream("a");
    let last = work(&stream).unwrap();
    drop(stream);
    assert_eq!(bench.streams.detached(), 1);
    let refused = bench
        .streams
        .create(&bench.device, StreamOptions::default());
    assert!(matches!(refused, Err(StreamError::Driver(_))));
    assert_eq!(bench.streams.query(last), Ok(false));
    bench.machine.run();
    assert_eq!(bench.streams.query(last), Ok(true));
    let next = bench.stream("b");
    assert_eq!(bench.streams.detached(), 0);
    assert_eq!(bench.streams.query(last), Ok(true));
    work(&next).unwrap();
    assert_eq!(next.query(), Ok(false));
    bench.streams.check();
}

#[test]
fn closing_waits_and_reports() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    assert_eq!(stream.close(), Ok(()));
    let stream = bench.stream("b");
    trap(&stream).unwrap();
    assert!(matches!(stream.close(), Err(StreamError::Poisoned(_))));
    assert_eq!(bench.streams.detached(), 0);
    bench.streams.check();
}

#[test]
fn what_the_driver_refuses_was_not_submitted() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let before = stream.now();
    let command = piton_stream::Command::Fill {
        dst: support::TRAP,
        pattern: piton_driver::FillPattern::Byte(0),
        bytes: 0,
    };
    #[expect(unsafe_code, reason = "submission is unsafe")]
    // SAFETY: the fake device touches no memory.
    let refused = unsafe { stream.submit(&command) };
    assert!(matches!(refused, Err(StreamError::Driver(_))));
    assert_eq!(stream.now(), before);
}

#[test]
fn a_runtime_dropped_with_work_under_way_leaves_its_streams_working() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let event = stream.record();
    drop(bench.streams);
    assert_eq!(stream.synchronize(), Ok(()));
    drop(stream);
    assert_eq!(event.query(), Ok(true));
}
