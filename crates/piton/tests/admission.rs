//! Launches and replays that are tried, or awaited: taken with all the waits they need or with none.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{Grid, StreamOptions, Submission};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};
use support::{check, runtime, small_devices};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_launch_that_finds_no_room_leaves_no_wait_and_no_use() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let add = device.load("test").unwrap().kernel("add").unwrap();
    let producer = device.stream("producer").unwrap();
    let options = StreamOptions {
        commands: Some(2),
        ..StreamOptions::default()
    };
    let stream = device.stream_with(options).unwrap();
    let mut sum = stream.allocate_zeroed::<u32>(64).unwrap();
    stream.synchronize().unwrap();
    let mut source = producer.allocate::<u32>(64).unwrap();
    let gate = device.semaphore(0).unwrap();
    producer.wait_semaphore(&gate, 1).unwrap();
    producer.fill(&mut source, 3).unwrap();
    stream.wait_semaphore(&gate, 1).unwrap();
    let launch = stream.launch(&add, Grid::linear(1));
    let launch = launch.write(&mut sum).read(&source);
    assert!(matches!(launch.try_submit(), Ok(Submission::Full)));
    assert_eq!(stream.depth(), 1, "no wait was left");
    {
        let mut future = pin!(launch.submit_async());
        assert!(poll(future.as_mut()).is_pending());
    }
    assert_eq!(stream.depth(), 1, "nor by a future that is dropped");
    gate.signal(1).unwrap();
    producer.synchronize().unwrap();
    stream.synchronize().unwrap();
    let launch = stream.launch(&add, Grid::linear(1));
    let tried = launch.write(&mut sum).read(&source).try_submit();
    assert!(matches!(tried, Ok(Submission::Accepted(()))));
    {
        let launch = stream.launch(&add, Grid::linear(1));
        let future = launch.write(&mut sum).read(&source).submit_async();
        let mut future = pin!(future);
        while poll(future.as_mut()).is_pending() {
            std::thread::yield_now();
        }
    }
    assert_eq!(stream.read(&sum).unwrap(), [6; 64]);
    drop((sum, source, producer, stream));
    check(&runtime);
}
