//! Host functions: in order, free to submit, and kept from waiting for themselves.

#![cfg(not(loom))]

mod support;

use piton_driver::{ErrorKind, Operation};
use piton_stream::{Stream, StreamError};
use piton_sync::Mutex;
use std::sync::Arc;
use support::{
    Bench,
    simulated::{SimBench, machines},
    work,
};

/// What a host function of a stream saw.
type Seen = Arc<Mutex<Option<Result<(), StreamError>>>>;

fn seen() -> Seen {
    Arc::default()
}

fn would_deadlock(seen: &Seen) -> bool {
    matches!(&*seen.lock(), Some(Err(StreamError::WouldDeadlock { .. })))
}

#[test]
fn a_host_function_runs_in_its_turn() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    work(&stream).unwrap();
    let called = seen();
    let inside = Arc::clone(&called);
    stream
        .call_host(move || *inside.lock() = Some(Ok(())))
        .unwrap();
    bench.machine.step(0);
    assert_eq!(*called.lock(), None);
    stream.synchronize().unwrap();
    assert_eq!(*called.lock(), Some(Ok(())));
}

#[test]
fn waiting_for_its_own_stream_is_refused() {
    let bench = Bench::new();
    let stream = Arc::new(bench.stream("a"));
    let past = {
        work(&stream).unwrap();
        stream.record()
    };
    let (own, before) = (seen(), seen());
    let (inside, inside_before) = (Arc::clone(&own), Arc::clone(&before));
    let itself = Arc::clone(&stream);
    stream
        .call_host(move || {
            *inside_before.lock() = Some(past.synchronize());
            *inside.lock() = Some(itself.synchronize());
        })
        .unwrap();
    stream.synchronize().unwrap();
    assert!(would_deadlock(&own));
    assert_eq!(
        *before.lock(),
        Some(Ok(())),
        "what has ended may be waited for"
    );
    assert_eq!(stream.synchronize(), Ok(()), "the mark is gone");
}

#[test]
fn waiting_through_another_streams_host_function_is_refused() {
    let bench = Bench::new();
    let (a, b) = (Arc::new(bench.stream("a")), Arc::new(bench.stream("b")));
    let (outer, inner) = (seen(), seen());
    let of_b: (Arc<Stream>, Seen) = (Arc::clone(&a), Arc::clone(&inner));
    b.call_host(move || *of_b.1.lock() = Some(of_b.0.synchronize()))
        .unwrap();
    // Waiting for b runs b's function on this very thread, inside a's.
    let of_a = (Arc::clone(&b), Arc::clone(&outer));
    a.call_host(move || *of_a.1.lock() = Some(of_a.0.synchronize()))
        .unwrap();
    bench.machine.step(0);
    assert!(would_deadlock(&inner));
    assert_eq!(*outer.lock(), Some(Ok(())));
}

#[test]
fn a_function_may_wait_for_another_streams_function() {
    for config in machines() {
        let bench = SimBench::new(config);
        let (a, b) = (bench.stream("a"), Arc::new(bench.stream("b")));
        let results = [seen(), seen()];
        let (inner, of_a) = (Arc::clone(&b), results.clone());
        a.call_host(move || {
            let of_b = Arc::clone(&of_a[0]);
            let called = inner.call_host(move || *of_b.lock() = Some(Ok(())));
            *of_a[1].lock() = Some(called.and_then(|_| inner.synchronize()));
        })
        .unwrap();
        a.synchronize().unwrap();
        assert!(results.iter().all(|seen| *seen.lock() == Some(Ok(()))));
    }
}

#[test]
fn parking_in_a_full_stream_of_its_own_is_refused() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let stream = Arc::new(bench.stream("a"));
    let result = seen();
    let (itself, inside) = (Arc::clone(&stream), Arc::clone(&result));
    stream
        .call_host(move || *inside.lock() = Some(work(&itself).map(drop)))
        .unwrap();
    stream.synchronize().unwrap();
    assert!(would_deadlock(&result));
}

#[test]
fn a_panic_poisons_the_stream_and_takes_its_mark_away() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    stream.call_host(|| panic!("on purpose")).unwrap();
    stream.call_host(|| unreachable!("skipped")).unwrap();
    let Err(StreamError::Poisoned(failure)) = stream.synchronize() else {
        panic!("the stream is poisoned");
    };
    assert_eq!(failure.error.operation, Operation::CallHost);
    assert_eq!(failure.error.kind, ErrorKind::HostFunctionPanicked);
    let other = bench.stream("b");
    work(&other).unwrap();
    assert_eq!(other.synchronize(), Ok(()));
}

#[test]
fn a_host_function_may_submit_and_drop_streams() {
    let bench = Bench::new();
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    let target = Arc::new(b);
    let inside = Arc::clone(&target);
    a.call_host(move || {
        work(&inside).unwrap();
        drop(inside);
    })
    .unwrap();
    a.close().unwrap();
    assert_eq!(target.depth(), 1);
    target.synchronize().unwrap();
}
