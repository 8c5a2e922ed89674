//! Aborts, failures that are forgotten, streams that go on after one, circles of waits.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use piton_driver::{ClearedFailures, Command, ErrorKind, OnFailure, Operation};
use piton_stream::{
    Event, Semaphore, Stream, StreamError, StreamFailure, StreamOptions, Streams, Waited,
};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timepoint};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};
use support::{
    Bench, Ran,
    simulated::{SimBench, machines},
    trap, work,
};

#[track_caller]
fn poisoned<T: std::fmt::Debug>(result: Result<T, StreamError>) -> Arc<StreamFailure> {
    match result {
        Err(StreamError::Poisoned(failure)) => failure,
        other => panic!("{other:?} is no failure"),
    }
}

#[test]
fn what_failed_stays_failed_and_what_comes_after_clearing_runs() {
    let bench = Bench::new();
    let mut stream = bench.stream("a");
    let good = work(&stream).unwrap();
    let failed = trap(&stream).unwrap();
    let skipped = work(&stream).unwrap();
    let first = poisoned(stream.synchronize());
    assert_eq!(stream.clear_error(), Ok(Some(Arc::clone(&first))));
    assert_eq!(stream.failure(), None);
    let anew = stream.record();
    stream.synchronize().unwrap();
    assert_eq!((stream.query(), anew.query()), (Ok(true), Ok(true)));
    let between = work(&stream).unwrap();
    stream.synchronize().unwrap();
    let again = trap(&stream).unwrap();
    let second = poisoned(stream.synchronize());
    assert_eq!((first.timepoint, second.timepoint), (failed, again));
    stream.clear_error().unwrap();
    let last = work(&stream).unwrap();
    stream.synchronize().unwrap();
    for point in [good, between, last] {
        assert_eq!(bench.streams.query(point), Ok(true));
    }
    for (point, failure) in [(failed, &first), (skipped, &first), (again, &second)] {
        assert_eq!(&poisoned(bench.streams.query(point)), failure);
    }
    bench.streams.check();
}

#[test]
fn waits_for_a_failed_range_fail_after_it_was_cleared_and_later_ones_do_not() {
    let bench = Bench::new();
    let mut stream = bench.stream("a");
    trap(&stream).unwrap();
    let failed = stream.record();
    assert!(stream.synchronize().is_err());
    stream.clear_error().unwrap();
    work(&stream).unwrap();
    stream.synchronize().unwrap();
    let (well, ill) = (bench.stream("well"), bench.stream("ill"));
    assert_eq!(well.wait(&stream.record()), Ok(Waited::Done));
    assert_eq!(well.synchronize(), Ok(()));
    ill.wait(&failed).unwrap();
    let failure = poisoned(ill.synchronize());
    assert!(matches!(
        failure.error.kind,
        ErrorKind::DependencyFailed { .. }
    ));
}

/// The second stream waits for the first, which fails, and with it the second; that forgets its failure.
fn forgotten_by_a_dependent(bench: &Bench) -> ([Stream; 2], Event) {
    let (failing, mut stream) = (bench.stream("failing"), bench.stream("a"));
    trap(&failing).unwrap();
    let failed = failing.record();
    assert!(matches!(stream.wait(&failed), Ok(Waited::Enqueued(_))));
    // Nobody looks at the first.
    assert!(stream.synchronize().is_err());
    stream.clear_error().unwrap();
    assert_eq!(stream.synchronize(), Ok(()));
    ([stream, failing], failed)
}

#[test]
fn who_forgot_what_a_wait_brought_is_told_again_by_the_next() {
    let bench = Bench::new();
    let ([stream, _failing], failed) = forgotten_by_a_dependent(&bench);
    assert!(matches!(stream.wait(&failed), Ok(Waited::Enqueued(_))));
    poisoned(stream.synchronize());
    let ([stream, _failing], failed) = forgotten_by_a_dependent(&bench);
    stream.wait_timepoint(failed.timepoint()).unwrap();
    poisoned(stream.synchronize());
    // By another's clock: it learns of the order only when the failure was forgotten.
    let ([stream, _failing], failed) = forgotten_by_a_dependent(&bench);
    let last = bench.stream("last");
    work(&stream).unwrap();
    assert!(matches!(
        last.wait(&stream.record()),
        Ok(Waited::Enqueued(_))
    ));
    last.wait_timepoint(failed.timepoint()).unwrap();
    poisoned(last.synchronize());
}

#[test]
fn who_comes_after_a_cleared_stream_is_told_of_what_it_forgot() {
    for waits in [
        Stream::wait_timepoint,
        |stream: &Stream, point: Timepoint| {
            let after = [Frontier::from(point)];
            stream.wait_frontiers(&after).map(|()| Waited::Done)
        },
    ] {
        let bench = Bench::new();
        let [mut failing, other, last] =
            ["failing", "other", "last"].map(|name| bench.stream(name));
        trap(&failing).unwrap();
        let failed = failing.record();
        other.wait(&failed).unwrap();
        // Nobody looks at the first.
        assert!(other.synchronize().is_err());
        failing.clear_error().unwrap();
        work(&failing).unwrap();
        assert!(matches!(
            last.wait(&failing.record()),
            Ok(Waited::Enqueued(_))
        ));
        // What it comes after already is later than the failure, and does not bring it.
        waits(&last, failed.timepoint()).unwrap();
        poisoned(last.synchronize());
    }
}

#[test]
fn what_only_comes_after_a_failed_stream_runs_and_a_wait_for_it_still_fails() {
    let bench = Bench::new();
    let (failing, other) = (bench.stream("failing"), bench.stream("other"));
    trap(&failing).unwrap();
    let failed = failing.record();
    other.order_after(&failed.timepoint().into()).unwrap();
    work(&other).unwrap();
    assert!(failing.synchronize().is_err());
    assert_eq!(other.synchronize(), Ok(()));
    // It has ended: nothing more is submitted to come after it.
    let before = other.now();
    other.order_after(&failed.timepoint().into()).unwrap();
    assert_eq!(other.now(), before);
    // That it came after once does not make a wait, which means more, one that can be left out.
    other.wait(&failed).unwrap();
    assert!(matches!(
        poisoned(other.synchronize()).error.kind,
        ErrorKind::DependencyFailed { .. }
    ));
}

#[test]
fn a_wait_behind_one_that_only_orders_is_made() {
    let bench = Bench::new();
    let (failing, other) = (bench.stream("failing"), bench.stream("other"));
    trap(&failing).unwrap();
    let failed = failing.record();
    other.order_after(&failed.timepoint().into()).unwrap();
    assert!(matches!(other.wait(&failed), Ok(Waited::Enqueued(_))));
    assert!(failing.synchronize().is_err());
    assert!(other.synchronize().is_err());
}

#[test]
fn a_failure_is_forgotten_only_when_all_has_ended() {
    let bench = Bench::new();
    let mut stream = bench.stream("a");
    trap(&stream).unwrap();
    work(&stream).unwrap();
    bench.machine.step(0);
    let refused = StreamError::NotDrained {
        submitted: 2,
        completed: 1,
    };
    assert_eq!(stream.clear_error(), Err(refused));
    assert!(stream.failure().is_some());
    bench.machine.step(0);
    assert!(stream.clear_error().unwrap().is_some());
    bench.machine.step(0);
    assert_eq!(stream.clear_error(), Ok(None));
}

#[test]
fn a_stream_that_continues_runs_on_and_still_tells() {
    let bench = Bench::new();
    let stream = bench.stream_with(StreamOptions {
        on_failure: OnFailure::Continue,
        ..StreamOptions::labelled("a")
    });
    let good = work(&stream).unwrap();
    let failed = trap(&stream).unwrap();
    work(&stream).unwrap();
    assert_eq!(poisoned(stream.synchronize()).timepoint, failed);
    assert_eq!(bench.streams.query(good), Ok(true));
    let ran = Ran {
        queue: 0,
        position: 3,
        did: true,
    };
    assert!(bench.machine.trace().contains(&ran));
}

#[test]
fn a_simulated_stream_that_continues_runs_on() {
    for config in machines() {
        let bench = SimBench::new(config);
        for (on_failure, runs) in [(OnFailure::Stop, false), (OnFailure::Continue, true)] {
            let mut stream = bench.stream_with(StreamOptions {
                on_failure,
                ..StreamOptions::labelled("a")
            });
            let ran = Arc::new(Mutex::new(false));
            let inside = Arc::clone(&ran);
            stream.call_host(|| panic!("on purpose")).unwrap();
            stream.call_host(move || *inside.lock() = true).unwrap();
            poisoned(stream.synchronize());
            assert_eq!(*ran.lock(), runs);
            stream.clear_error().unwrap();
            stream.call_host(|| ()).unwrap();
            assert_eq!(stream.synchronize(), Ok(()));
        }
    }
}

#[test]
fn an_abort_ends_what_waits_and_what_is_behind_and_the_stream_goes_on() {
    for config in machines() {
        let bench = SimBench::new(config);
        let mut stream = bench.stream("a");
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        for _ in 0..20 {
            let waits = stream.wait_semaphore(&gate, 1).unwrap();
            stream.call_host(|| unreachable!("aborted")).unwrap();
            stream.abort().unwrap();
            let failure = poisoned(stream.synchronize());
            assert_eq!(failure.error.kind, ErrorKind::Aborted);
            assert_eq!(failure.timepoint, waits);
            stream.clear_error().unwrap();
            stream.call_host(|| ()).unwrap();
            stream.synchronize().unwrap();
        }
        stream.abort().unwrap();
        assert_eq!(stream.synchronize(), Ok(()));
    }
}

/// Else memory freed in the aborted stream's order could be in use by the other.
#[test]
fn an_aborted_wait_for_a_stream_ends_when_that_has_got_there() {
    for config in machines() {
        let bench = SimBench::new(config);
        let (slow, stream) = (bench.stream("slow"), bench.stream("a"));
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        slow.wait_semaphore(&gate, 1).unwrap();
        stream.wait(&slow.record()).unwrap();
        stream.call_host(|| unreachable!("aborted")).unwrap();
        let end = stream.record();
        stream.abort().unwrap();
        assert_eq!(end.query(), Ok(false));
        gate.signal(1).unwrap();
        let failure = poisoned(end.synchronize());
        assert_eq!(failure.error.kind, ErrorKind::Aborted);
        assert_eq!(slow.query(), Ok(true));
    }
}

/// Streams in a circle: each waits for a semaphore that the next one would raise. None goes on before all of it is
/// submitted.
fn circle(bench: &SimBench, labels: &[&str]) -> Vec<Stream> {
    let streams: Vec<_> = labels.iter().map(|label| bench.stream(label)).collect();
    let start = Semaphore::new(&bench.device, 0).unwrap();
    let raised: Vec<_> = streams
        .iter()
        .map(|_| Semaphore::between_streams(&bench.device, 0).unwrap())
        .collect();
    for (n, stream) in streams.iter().enumerate() {
        stream.wait_semaphore(&start, 1).unwrap();
        let next = (n + 1) % streams.len();
        stream.wait_semaphore(&raised[next], 1).unwrap();
        stream.signal_semaphore(&raised[n], 1).unwrap();
    }
    start.signal(1).unwrap();
    streams
}

#[test]
fn streams_in_a_circle_fail_by_their_names_and_the_rest_run_on() {
    let circles: [&[&str]; 2] = [&["a", "b"], &["a", "b", "c"]];
    for labels in circles {
        for config in machines() {
            let bench = SimBench::new(config);
            let other = bench.stream("other");
            let streams = circle(&bench, labels);
            other.call_host(|| ()).unwrap();
            for stream in &streams {
                poisoned(stream.synchronize());
            }
            assert_eq!(other.synchronize(), Ok(()));
            let failure = streams[0].failure().unwrap();
            let named: Vec<_> = failure
                .circle
                .iter()
                .map(|name| name.label.as_deref().unwrap())
                .collect();
            let mut expected = labels.to_vec();
            expected.push("a");
            assert_eq!(named, expected);
            let told = failure.to_string();
            assert!(told.ends_with("-> `a`"), "{told}");
            assert!(told.contains(": `a` -> `b` -> "), "{told}");
            assert_eq!(streams[0].failure(), Some(failure));
        }
    }
}

#[test]
fn a_stream_that_waits_for_what_nobody_can_signal_fails_and_goes() {
    for config in machines() {
        let bench = SimBench::new(config);
        let stream = bench.stream("a");
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        stream.wait_semaphore(&gate, 3).unwrap();
        let event = stream.record();
        drop(stream);
        assert_eq!(event.query(), Ok(false));
        drop(gate);
        let failure = poisoned(event.synchronize());
        let never = ErrorKind::NeverSignalled {
            current: 0,
            wanted: 3,
        };
        assert_eq!(failure.error.kind, never);
        bench.streams.prune();
        assert_eq!(bench.streams.detached(), 0);
        bench.streams.check();
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_waker_that_panics_stops_no_stream() {
    for config in machines() {
        let bench = SimBench::new(config);
        let (stream, other) = (bench.stream("a"), bench.stream("b"));
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        stream.wait_semaphore(&gate, 1).unwrap();
        let waker = Waker::from(Arc::new(Panics));
        let mut completion = pin!(stream.completion());
        let polled = completion.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending);
        stream.call_host(|| ()).unwrap();
        other.wait(&stream.record()).unwrap();
        other.signal_semaphore(&gate, 2).unwrap();
        // Raised by a device's thread, as the host's own call would meet the panic.
        let raises = bench.stream("raises");
        raises.signal_semaphore(&gate, 1).unwrap();
        other.synchronize().unwrap();
        stream.synchronize().unwrap();
        assert_eq!(gate.value(), 2);
    }
}

#[test]
fn what_a_device_cannot_do_is_said() {
    let bench = Bench::over(support::FakeDevice::bare);
    let stream = bench.stream("a");
    let wait = piton_driver::MemoryWait {
        at: piton_driver::DevicePtr::new(16),
        comparison: piton_driver::Comparison::Equal,
        value: piton_driver::MemoryWord::U32(1),
    };
    #[expect(unsafe_code, reason = "the wait names memory")]
    // SAFETY: the fake device touches no memory.
    let refused = unsafe { stream.wait_memory(wait) };
    let facet = piton_stream::Facet::MemoryOperations;
    assert!(
        matches!(refused, Err(StreamError::Unsupported { facet: lacks, .. }) if lacks == facet)
    );
    let operation = Command::WaitMemory(wait).operation();
    assert_eq!(operation, Operation::WaitMemory);
}

/// What a test holds; each may go first, and last.
enum Held {
    Streams(Streams),
    Stream(Stream),
    Event(Event),
    Semaphore(Semaphore),
    Nothing,
}

impl Held {
    fn let_go(&mut self) {
        match std::mem::replace(self, Self::Nothing) {
            Self::Streams(held) => drop(held),
            Self::Stream(held) => drop(held),
            Self::Event(held) => drop(held),
            Self::Semaphore(held) => drop(held),
            Self::Nothing => panic!("let go twice"),
        }
    }
}

/// Every order of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..count {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let rest = (0..count).filter(|n| !order.contains(n));
                let longer = rest.map(|n| [order.clone(), vec![n]].concat());
                longer.collect::<Vec<_>>()
            })
            .collect();
    }
    orders
}

#[test]
fn whatever_is_let_go_first_no_queue_is_left() {
    for order in orders(5) {
        let bench = Bench::new();
        let (a, b) = (bench.stream("a"), bench.stream("b"));
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        work(&a).unwrap();
        a.wait_semaphore(&gate, 1).unwrap();
        let event = a.record();
        b.wait(&event).unwrap();
        trap(&b).unwrap();
        gate.signal(1).unwrap();
        let (streams, machine) = (bench.streams.clone(), Arc::clone(&bench.machine));
        let Bench { device, .. } = bench;
        let lives = move || support::live_queues(&*device);
        assert_eq!(lives(), 2);
        let mut held = [
            Held::Stream(a),
            Held::Stream(b),
            Held::Event(event),
            Held::Semaphore(gate),
            Held::Streams(streams.clone()),
        ];
        for (turn, n) in order.into_iter().enumerate() {
            if turn == 3 {
                machine.run();
            }
            held[n].let_go();
        }
        streams.prune();
        assert_eq!((streams.detached(), lives()), (0, 0));
        streams.check();
    }
}

#[test]
fn an_event_of_a_lane_that_is_gone_says_how_its_own_work_ended() {
    let bench = Bench::new();
    let stream = bench.stream("old");
    work(&stream).unwrap();
    let good = stream.record();
    trap(&stream).unwrap();
    let failed = stream.record();
    drop(stream);
    bench.machine.run();
    bench.streams.prune();
    let new = bench.stream("new");
    assert_eq!(new.id().index, good.timepoint().lane.index);
    assert_ne!(new.id(), good.timepoint().lane);
    work(&new).unwrap();
    assert_eq!(good.query(), Ok(true));
    assert_eq!(poisoned(failed.query()).label.as_deref(), Some("old"));
    assert_eq!(new.record().query(), Ok(false));
    assert_eq!(new.synchronize(), Ok(()));
}

#[test]
fn the_place_after_clearing_is_new_to_whoever_waits_for_it() {
    for config in machines() {
        let bench = SimBench::new(config);
        let (mut stream, other) = (bench.stream("a"), bench.stream("other"));
        stream.call_host(|| panic!("on purpose")).unwrap();
        let (spoilt, late) = (stream.record(), stream.completion());
        poisoned(stream.synchronize());
        stream.clear_error().unwrap();
        other.wait(&stream.record()).unwrap();
        assert_eq!(other.synchronize(), Ok(()));
        assert_eq!(stream.synchronize(), Ok(()));
        poisoned(spoilt.query());
        let polled = pin!(late).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(answer) = polled else {
            panic!("it has ended");
        };
        poisoned(answer);
        assert_eq!(stream.clear_error(), Ok(None));
        let submitted = stream.now();
        assert_eq!(stream.clear_error(), Ok(None));
        assert_eq!(stream.now(), submitted, "there was nothing to leave behind");
    }
}

#[test]
fn a_stream_that_fails_for_years_keeps_few_failures_and_no_failed_place_ends_well() {
    let bench = SimBench::new(machines().remove(0));
    let (mut stream, mut other) = (bench.stream("a"), bench.stream("other"));
    let mut failed = Vec::new();
    for _ in 0..5 * ClearedFailures::KEPT {
        stream.call_host(|| ()).unwrap();
        stream.call_host(|| panic!("on purpose")).unwrap();
        failed.push(stream.record());
        poisoned(stream.synchronize());
        stream.clear_error().unwrap();
        stream.synchronize().unwrap();
    }
    for event in &failed {
        let told = poisoned(event.query());
        assert!(told.timepoint <= event.timepoint());
        other.wait(event).unwrap();
        let spread = poisoned(other.synchronize());
        assert!(matches!(
            spread.error.kind,
            ErrorKind::DependencyFailed { .. }
        ));
        other.clear_error().unwrap();
    }
    bench.streams.check();
}
