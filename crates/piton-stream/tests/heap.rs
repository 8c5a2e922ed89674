//! Recording, with and without the time, asking and waits that are left out take nothing from the heap.

#![cfg(not(loom))]
mod support;

use piton_stream::Waited;
use std::hint::black_box;
use support::{Bench, work};

/// How many allocations `work` makes on this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    piton_heap::during(work).allocations
}

#[test]
fn recording_and_asking_allocate_nothing() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let done = work(&stream).unwrap();
    stream.synchronize().unwrap();
    let pending = work(&stream).unwrap();
    let event = stream.record();
    let count = allocations(|| {
        black_box((stream.now(), stream.record(), event.clone()));
        black_box((stream.depth(), stream.free()));
        assert_eq!(event.query(), Ok(false));
        assert_eq!(stream.query(), Ok(false));
        assert_eq!(bench.streams.query(done), Ok(true));
        assert_eq!(bench.streams.query(pending), Ok(false));
    });
    assert_eq!(count, 0);
    assert_ne!(allocations(|| drop(black_box(Box::new(1)))), 0);
}

#[test]
fn a_timed_record_uses_again_what_earlier_ones_took() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let rounds: Vec<u64> = (0..4)
        .map(|_| {
            let mut events = [const { None }; 3];
            let made = allocations(|| {
                events = [(); 3].map(|()| Some(stream.record_timed().unwrap()));
            });
            // The device of this test writes down what it runs.
            stream.synchronize().unwrap();
            made + allocations(|| {
                let copies = events.clone();
                for event in events.into_iter().chain(copies).flatten() {
                    assert!(event.time_ns().unwrap().is_some());
                }
            })
        })
        .collect();
    assert_ne!(rounds[0], 0);
    assert_eq!(rounds[1..], [0; 3]);
}

#[test]
fn a_wait_that_is_left_out_allocates_nothing() {
    let bench = Bench::new();
    let (stream, other) = (bench.stream("a"), bench.stream("b"));
    let done = work(&other).unwrap();
    let ended = other.record();
    other.synchronize().unwrap();
    let pending = work(&other).unwrap();
    let event = other.record();
    assert!(matches!(stream.wait(&event), Ok(Waited::Enqueued(_))));
    let count = allocations(|| {
        assert_eq!(stream.wait(&ended), Ok(Waited::Done));
        assert_eq!(stream.wait(&event), Ok(Waited::Ordered));
        assert_eq!(stream.wait_timepoint(done), Ok(Waited::Done));
        assert_eq!(stream.wait_timepoint(pending), Ok(Waited::Ordered));
    });
    assert_eq!(count, 0);
}
