//! Futures: of completions, and of room. No executor: a waker that counts.

#![cfg(not(loom))]

mod support;

use piton_stream::StreamError;
use std::task::Poll;
use support::{Bench, CountingWaker, async_work, trap, work};

#[test]
fn a_completion_wakes_once_when_the_work_ends() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let mut completion = stream.completion();
    work(&stream).unwrap();
    let waker = CountingWaker::new();
    assert_eq!(waker.poll(&mut completion), Poll::Pending);
    assert_eq!(waker.poll(&mut completion), Poll::Pending);
    bench.machine.step(0);
    assert_eq!(waker.wakes(), 1);
    assert_eq!(waker.poll(&mut completion), Poll::Ready(Ok(())));
    bench.machine.run();
    assert_eq!(waker.wakes(), 1);
    assert_eq!(waker.poll(&mut completion), Poll::Ready(Ok(())));
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let mut completion = stream.completion();
    let (first, second) = (CountingWaker::new(), CountingWaker::new());
    assert_eq!(first.poll(&mut completion), Poll::Pending);
    assert_eq!(second.poll(&mut completion), Poll::Pending);
    bench.machine.run();
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
}

#[test]
fn a_dropped_completion_wakes_nobody() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let mut completion = stream.completion();
    let waker = CountingWaker::new();
    assert_eq!(waker.poll(&mut completion), Poll::Pending);
    drop(completion);
    bench.machine.run();
    assert_eq!(waker.wakes(), 0);
}

#[test]
fn a_completion_reports_failure_and_outlives_its_stream() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    trap(&stream).unwrap();
    let mut completion = stream.record().completion();
    let waker = CountingWaker::new();
    assert_eq!(waker.poll(&mut completion), Poll::Pending);
    drop(stream);
    bench.machine.run();
    bench.streams.prune();
    assert_eq!(waker.wakes(), 1);
    assert!(matches!(
        waker.poll(&mut completion),
        Poll::Ready(Err(StreamError::Poisoned(_)))
    ));
}

#[test]
fn a_point_of_a_lane_long_gone_is_complete() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let point = work(&stream).unwrap();
    bench.machine.run();
    drop(stream);
    let _tenant = bench.stream("b");
    let mut completion = bench.streams.completion(point).unwrap();
    assert_eq!(
        CountingWaker::new().poll(&mut completion),
        Poll::Ready(Ok(()))
    );
}

#[test]
fn a_submission_waits_for_room_without_a_thread() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let waker = CountingWaker::new();
    let mut submission = async_work(&stream);
    assert_eq!(waker.poll(&mut submission), Poll::Pending);
    assert_eq!(stream.depth(), 1);
    bench.machine.step(0);
    assert_eq!(waker.wakes(), 1);
    let Poll::Ready(Ok(point)) = waker.poll(&mut submission) else {
        panic!("there is room");
    };
    assert_eq!(waker.poll(&mut submission), Poll::Ready(Ok(point)));
    assert_eq!(stream.now(), point, "submitted once");
}

#[test]
fn a_submission_dropped_before_it_had_room_submits_nothing() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let stream = bench.stream("a");
    let last = work(&stream).unwrap();
    let waker = CountingWaker::new();
    let mut submission = async_work(&stream);
    assert_eq!(waker.poll(&mut submission), Poll::Pending);
    drop(submission);
    bench.machine.run();
    assert_eq!((waker.wakes(), stream.now()), (0, last));
}

#[test]
fn room_that_came_right_after_a_refusal_ends_the_submission() {
    let bench = Bench::over(|device| device.with_capacity(2).moving_on_refusal());
    let stream = bench.stream("a");
    let gate = piton_stream::Semaphore::new(&bench.device, 0).unwrap();
    work(&stream).unwrap();
    stream.wait_semaphore(&gate, 1).unwrap();
    let mut submission = async_work(&stream);
    assert!(CountingWaker::new().poll(&mut submission).is_ready());
}
