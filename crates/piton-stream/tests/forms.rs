//! Each kind of work in its three forms: parking, trying, as a future; and values in memory.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use piton_driver::{Comparison, DevicePtr, MemoryWait, MemoryWord};
use piton_stream::{Semaphore, Stream, Submission, Waited};
use piton_sync::Mutex;
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use support::{
    Bench, Step,
    simulated::{BYTES, SimBench, block_on, config, machines},
    work,
};

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn trying_changes_nothing_where_there_is_no_room() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let (stream, other) = (bench.stream("a"), bench.stream("b"));
    let semaphore = Semaphore::new(&bench.device, 0).unwrap();
    work(&other).unwrap();
    let event = other.record();
    work(&stream).unwrap();
    let before = stream.now();
    let mut function = Some(|| ());
    assert_eq!(stream.try_call_host(&mut function), Ok(Submission::Full));
    assert!(function.is_some());
    assert!(matches!(stream.try_record_timed(), Ok(Submission::Full)));
    assert_eq!(stream.try_wait(&event), Ok(Submission::Full));
    assert_eq!(
        stream.try_wait_semaphore(&semaphore, 0),
        Ok(Submission::Full)
    );
    assert_eq!(
        stream.try_signal_semaphore(&semaphore, 1),
        Ok(Submission::Full)
    );
    assert_eq!(stream.now(), before);
    bench.machine.run();
    let taken = stream.try_record_timed().unwrap();
    bench.machine.run();
    let Submission::Accepted(timed) = taken else {
        panic!("there is room");
    };
    assert!(timed.time_ns().unwrap().is_some());
}

#[test]
fn a_function_that_found_no_room_comes_back_and_can_be_offered_again() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let (token, count) = (Arc::new(()), Arc::new(Mutex::new(0)));
    let (held, counts) = (Arc::clone(&token), Arc::clone(&count));
    let mut function = Some(move || {
        *counts.lock() += 1;
        drop(held);
    });
    for _ in 0..3 {
        assert_eq!(stream.try_call_host(&mut function), Ok(Submission::Full));
        assert!(function.is_some(), "it is the caller's");
    }
    bench.machine.run();
    let taken = stream.try_call_host(&mut function);
    assert_eq!(taken, Ok(Submission::Accepted(stream.now())));
    assert!(function.is_none(), "it was taken");
    let before = stream.now();
    let nothing = stream.try_call_host(&mut function);
    assert_eq!(nothing, Ok(Submission::Accepted(before)));
    assert_eq!(stream.now(), before, "there was nothing to submit");
    bench.machine.run();
    assert_eq!((*count.lock(), Arc::strong_count(&token)), (1, 1));
}

#[test]
fn a_function_that_was_refused_comes_back() {
    let bench = SimBench::new(config());
    let stream = bench.stream("a");
    let capture = stream.begin_capture().unwrap();
    let mut function = Some(|| ());
    assert!(stream.try_call_host(&mut function).is_err());
    assert!(function.is_some());
    assert!(capture.end().is_err());
}

#[test]
fn futures_end_when_there_is_room_and_submit_once() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let (stream, other) = (bench.stream("a"), bench.stream("b"));
    let semaphore = Semaphore::new(&bench.device, 0).unwrap();
    work(&other).unwrap();
    let event = other.record();
    let count = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&count);
    work(&stream).unwrap();
    let mut call = Box::pin(stream.call_host_async(move || *counts.lock() += 1));
    assert!(poll(&mut call).is_pending());
    assert_eq!(bench.machine.step(0), Step::Ended);
    let Poll::Ready(Ok(at)) = poll(&mut call) else {
        panic!("there is room");
    };
    assert_eq!(poll(&mut call), Poll::Ready(Ok(at)));
    assert_eq!(stream.now(), at);
    let mut stamp = Box::pin(stream.record_timed_async());
    assert!(poll(&mut stamp).is_pending());
    assert_eq!(bench.machine.step(0), Step::Ended);
    let Poll::Ready(Ok(timed)) = poll(&mut stamp) else {
        panic!("there is room");
    };
    let mut wait = Box::pin(stream.wait_async(&event));
    assert!(poll(&mut wait).is_pending());
    assert_eq!(bench.machine.step(0), Step::Ended);
    let waited = poll(&mut wait);
    assert!(matches!(waited, Poll::Ready(Ok(Waited::Enqueued(_)))));
    let mut signal = Box::pin(stream.signal_semaphore_async(&semaphore, 1));
    assert!(poll(&mut signal).is_pending());
    drop(signal);
    bench.machine.run();
    let mut wait = Box::pin(stream.wait_semaphore_async(&semaphore, 0));
    assert!(poll(&mut wait).is_ready());
    stream.synchronize().unwrap();
    assert_eq!((*count.lock(), semaphore.value()), (1, 0));
    assert!(timed.time_ns().unwrap().is_some());
}

#[test]
fn futures_of_all_kinds_are_awaited_over_the_simulated_device() {
    for config in machines() {
        let bench = SimBench::new(config);
        let (stream, other) = (bench.stream("a"), bench.stream("b"));
        let semaphore = Semaphore::new(&bench.device, 0).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (first, last) = (Arc::clone(&log), Arc::clone(&log));
        block_on(stream.wait_semaphore_async(&semaphore, 1)).unwrap();
        block_on(stream.call_host_async(move || first.lock().push(1))).unwrap();
        let timed = block_on(stream.record_timed_async()).unwrap();
        block_on(other.wait_async(&timed)).unwrap();
        block_on(other.call_host_async(move || last.lock().push(2))).unwrap();
        semaphore.signal(1).unwrap();
        other.synchronize().unwrap();
        assert_eq!(*log.lock(), [1, 2]);
    }
}

#[expect(unsafe_code, reason = "the command names memory")]
fn write(stream: &Stream, at: DevicePtr, value: MemoryWord) {
    // SAFETY: the memory is held until the device is dropped; waits and writes of whole words alone use it.
    unsafe { stream.write_memory(at, value) }.unwrap();
}

#[expect(unsafe_code, reason = "the command names memory")]
fn wait_for(stream: &Stream, wait: MemoryWait) {
    // SAFETY: as in `write`.
    unsafe { stream.wait_memory(wait) }.unwrap();
}

#[test]
fn a_value_in_memory_orders_two_streams() {
    for config in machines() {
        let bench = SimBench::new(config);
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let (waits, writes) = (bench.stream("waits"), bench.stream("writes"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let (first, last) = (Arc::clone(&log), Arc::clone(&log));
        let wait = MemoryWait {
            at,
            comparison: Comparison::Equal,
            value: MemoryWord::U64(7),
        };
        write(&waits, at, MemoryWord::U64(1));
        waits.synchronize().unwrap();
        wait_for(&waits, wait);
        waits.call_host(move || last.lock().push(2)).unwrap();
        writes.call_host(move || first.lock().push(1)).unwrap();
        write(&writes, at, wait.value);
        writes.synchronize().unwrap();
        waits.synchronize().unwrap();
        assert_eq!(*log.lock(), [1, 2]);
    }
}
