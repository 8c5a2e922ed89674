//! What a program that knows this crate alone can do with streams.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    BufferError, ErrorKind, Grid, HardwareQueue, OnFailure, Placement, StreamError, StreamOptions,
    WaitOutcome,
};
use std::time::Instant;
use support::{check, runtime, small_devices};

#[test]
fn a_stream_that_continues_runs_what_comes_behind_a_failure() {
    for (on_failure, word) in [(OnFailure::Stop, 1), (OnFailure::Continue, 2)] {
        let runtime = runtime(small_devices(1));
        let device = runtime.device(0).unwrap();
        let trap = device.load("test").unwrap().kernel("trap").unwrap();
        let options = StreamOptions {
            on_failure,
            ..StreamOptions::default()
        };
        let mut stream = device.stream_with(options).unwrap();
        let mut words = stream.allocate::<u32>(64).unwrap();
        stream.fill(&mut words, 1).unwrap();
        let mut spoilt = stream.allocate::<u32>(64).unwrap();
        let launch = stream.launch(&trap, Grid::linear(1));
        launch.write(&mut spoilt).value(7_u32).submit().unwrap();
        stream.fill(&mut words, 2).unwrap();
        let Err(BufferError::Stream(StreamError::Poisoned(failure))) = stream.synchronize() else {
            panic!("the trap is told");
        };
        assert!(matches!(failure.error.kind, ErrorKind::KernelFault { .. }));
        assert_eq!(stream.clear_error().unwrap().as_ref(), Some(&failure));
        assert_eq!(stream.read(&words).unwrap(), [word; 64]);
        drop((words, spoilt, stream));
        check(&runtime);
    }
}

#[test]
fn a_stream_waits_for_a_semaphore_that_the_host_raises() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (a, b) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let said = device.semaphore(3).unwrap();
    a.wait_semaphore(&said, 4).unwrap();
    a.signal_semaphore(&said, 9).unwrap();
    b.wait_semaphore(&said, 9).unwrap();
    assert!(!b.query().unwrap());
    assert_eq!((a.depth(), b.depth()), (2, 1));
    let past = Instant::now();
    let outcome = b.synchronize_until(past).unwrap();
    assert_eq!(outcome, WaitOutcome::DeadlinePassed);
    let ended = b.record();
    assert_eq!(
        ended.synchronize_until(past),
        Ok(WaitOutcome::DeadlinePassed)
    );
    said.signal(4).unwrap();
    ended.synchronize().unwrap();
    assert_eq!(said.value(), 9);
    assert_eq!((a.depth(), b.depth()), (0, 0));
    check(&runtime);
}

#[test]
fn streams_placed_on_one_hardware_queue_say_so() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let on = |queue| {
        device
            .stream_with(StreamOptions {
                placement: Placement::Explicit(HardwareQueue(queue)),
                ..StreamOptions::default()
            })
            .unwrap()
    };
    let (a, b, c) = (on(0), on(0), on(1));
    assert!(a.shares_queue_with(&b) && !a.shares_queue_with(&c));
    assert!(a.free() > 0);
    a.flush().unwrap();
}
