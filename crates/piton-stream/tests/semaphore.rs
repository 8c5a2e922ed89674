//! Counters from outside: waits before signals, signals from the host and from streams.

#![cfg(not(loom))]

mod support;

use piton_driver::ErrorKind;
use piton_stream::{Semaphore, StreamError};
use support::{Bench, Step, trap, work};

#[test]
fn a_wait_comes_before_its_signal() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let semaphore = Semaphore::new(&bench.device, 3).unwrap();
    stream.wait_semaphore(&semaphore, 5).unwrap();
    work(&stream).unwrap();
    assert_eq!(bench.machine.step(0), Step::Blocked);
    semaphore.signal(4).unwrap();
    assert_eq!(bench.machine.step(0), Step::Blocked);
    semaphore.signal(7).unwrap();
    assert_eq!(stream.synchronize(), Ok(()));
    assert_eq!(semaphore.value(), 7);
}

#[test]
fn a_value_that_does_not_grow_is_refused_with_its_numbers() {
    let bench = Bench::new();
    let semaphore = Semaphore::new(&bench.device, 3).unwrap();
    let Err(StreamError::Driver(error)) = semaphore.signal(3) else {
        panic!("3 is not above 3");
    };
    let expected = ErrorKind::NotMonotonic {
        current: 3,
        given: 3,
    };
    assert_eq!(error.kind, expected);
}

#[test]
fn one_stream_signals_another_unless_it_failed() {
    let bench = Bench::new();
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    let semaphore = Semaphore::new(&bench.device, 0).unwrap();
    b.wait_semaphore(&semaphore, 1).unwrap();
    work(&a).unwrap();
    a.signal_semaphore(&semaphore, 1).unwrap();
    assert_eq!(b.synchronize(), Ok(()));
    trap(&a).unwrap();
    a.signal_semaphore(&semaphore, 2).unwrap();
    bench.machine.run();
    assert_eq!(semaphore.value(), 1);
}
