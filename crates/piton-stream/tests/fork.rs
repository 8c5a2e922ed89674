//! In a fork of the process nothing waits for a lock that a thread which is not there has held.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "forking is unsafe")]

mod support;

use piton_driver::Device;
use piton_stream::{Completion, Event, Semaphore, Stream, StreamError, StreamOptions, Streams};
use piton_timeline::Frontier;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use support::{Bench, work};

/// Forks; the child runs `child`, whose answers are all to be `true`, and ends.
fn in_a_fork(child: impl FnOnce() -> Vec<bool>) {
    // SAFETY: the child runs `child` and ends at once, running nothing of the parent's. That it takes no lock is what is
    // tested; the system's allocator may be used in a fork.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: a child that hangs is ended by the signal.
        unsafe { libc::alarm(40) };
        let wrong = child().iter().position(|is_well| !is_well);
        let code = wrong.map_or(100, |wrong| wrong.min(99));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::try_from(code).unwrap_or(0)) };
    }
    assert!(process > 0, "the system forks");
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    assert!(libc::WIFEXITED(status), "the child hung: {status:#x}");
    let code = libc::WEXITSTATUS(status);
    assert_eq!(code, 100, "the answer of that number is wrong");
}

/// What a program has in its hands when it forks.
struct Hands<'a> {
    streams: &'a Streams,
    device: &'a Arc<dyn Device>,
    stream: &'a mut Stream,
    /// Of another stream, which is gone; its work has not ended.
    pending: &'a Event,
    /// Polled once.
    completion: Pin<Box<Completion>>,
    semaphore: Semaphore,
}

fn is_refused<T>(answer: Result<T, StreamError>) -> bool {
    matches!(answer, Err(StreamError::Forked))
}

/// Whether everything that cannot be known without a lock is refused.
fn all_is_refused(hands: &mut Hands<'_>) -> Vec<bool> {
    let Hands {
        streams, pending, ..
    } = *hands;
    let (point, stream) = (pending.timepoint(), &*hands.stream);
    let frontier = Frontier::from(point);
    let mut context = Context::from_waker(Waker::noop());
    let polled = hands.completion.as_mut().poll(&mut context);
    let soon = Some(Instant::now() + Duration::from_secs(1));
    let timed = stream.record_timed();
    let answers = vec![
        is_refused(streams.create(hands.device, StreamOptions::default())),
        is_refused(pending.query()),
        is_refused(pending.synchronize()),
        is_refused(stream.wait(pending)),
        is_refused(stream.try_wait(pending)),
        is_refused(stream.wait_timepoint(point)),
        is_refused(stream.order_after(&frontier)),
        is_refused(streams.query(point)),
        is_refused(streams.wait(point, soon)),
        is_refused(streams.wait_frontier(&frontier, None)),
        is_refused(streams.completion(point)),
        is_refused(timed),
        matches!(polled, Poll::Ready(Err(StreamError::Forked))),
        stream.failure().is_none(),
        is_refused(hands.stream.clear_error()),
        streams.dump().is_empty(),
        streams.detached() == 0,
    ];
    streams.prune();
    let _shown = format!("{streams:?}");
    let _value = hands.semaphore.value();
    answers
}

fn fork_while_a_thread_looks_at_the_lanes(bench: &Bench) {
    let mut stream = bench.stream("here");
    let gone = bench.stream("gone");
    let semaphore = Semaphore::new(&bench.device, 0).unwrap();
    stream.signal_semaphore(&semaphore, 1).unwrap();
    work(&gone).unwrap();
    let pending = gone.record();
    let mut completion = Box::pin(pending.completion());
    let mut context = Context::from_waker(Waker::noop());
    assert!(completion.as_mut().poll(&mut context).is_pending());
    drop(gone);
    let mut hands = Hands {
        streams: &bench.streams,
        device: &bench.device,
        stream: &mut stream,
        pending: &pending,
        completion,
        semaphore,
    };
    // Holds the lock of the list of lanes, and that of the lane that is gone.
    let call = || bench.streams.prune();
    bench
        .machine
        .while_inside(call, || in_a_fork(|| all_is_refused(&mut hands)));
    assert_eq!(pending.synchronize(), Ok(()));
}

#[test]
fn what_is_not_known_without_a_lock_is_refused() {
    fork_while_a_thread_looks_at_the_lanes(&Bench::new());
}

#[test]
fn so_it_is_with_a_sanitizer() {
    fork_while_a_thread_looks_at_the_lanes(&Bench::sanitized());
}

#[test]
fn nothing_is_told_to_a_sanitizer_whose_lock_was_held() {
    let bench = Bench::sanitized();
    let (stream, other) = (bench.stream("here"), bench.stream("other"));
    let semaphore = Semaphore::new(&bench.device, 0).unwrap();
    stream.signal_semaphore(&semaphore, 1).unwrap();
    work(&stream).unwrap();
    stream.synchronize().unwrap();
    let ended = stream.record();
    let submit = || assert!(work(&other).is_ok());
    bench.machine.while_inside(submit, || {
        in_a_fork(|| {
            let _value = semaphore.value();
            vec![
                // Its answer would be told.
                is_refused(ended.query()),
                is_refused(bench.streams.wait(ended.timepoint(), None)),
                is_refused(work(&stream)),
                is_refused(stream.call_host(|| ())),
                is_refused(semaphore.signal(2)),
                // Nothing is submitted.
                stream.wait(&ended).is_ok(),
            ]
        });
    });
}
