//! Commands behind places of other lanes: taken with all the waits they need, or with none.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{DevicePtr, FillPattern};
use piton_sanitizer::Hazard;
use piton_stream::{
    Command, Stream, StreamError, StreamOptions, Submission, SubmittingBehind, Waited, WhenFull,
};
use piton_sync::thread;
use piton_timeline::{Frontier, Timepoint, WaitNeed};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};
use support::{
    Bench, Step,
    simulated::{BYTES, SimBench, machines},
    trap, work,
};

fn fill(at: u64) -> Command<'static> {
    Command::Fill {
        dst: DevicePtr::new(at),
        pattern: FillPattern::Byte(1),
        bytes: 1,
    }
}

fn submit(stream: &Stream, after: &[Frontier]) -> Result<Timepoint, StreamError> {
    // SAFETY: the fake device touches no memory.
    unsafe { stream.submit_behind(after, &fill(16)) }
}

fn offer(stream: &Stream, after: &[Frontier]) -> Result<Submission, StreamError> {
    // SAFETY: as in `submit`.
    unsafe { stream.try_submit_behind(after, &fill(16)) }
}

fn submit_async<'a>(stream: &'a Stream, after: &'a [Frontier]) -> SubmittingBehind<'a> {
    // SAFETY: as in `submit`.
    unsafe { stream.submit_behind_async(after, fill(16)) }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn of_two_places_of_a_stream_one_that_failed_is_not_left_to_the_other() {
    let bench = Bench::new();
    let (mut other, stream) = (bench.stream("other"), bench.stream("a"));
    let failed = Frontier::from(trap(&other).unwrap());
    assert!(other.synchronize().is_err());
    other.clear_error().unwrap();
    let pending = Frontier::from(work(&other).unwrap());
    let before = stream.now();
    let point = submit(&stream, &[failed.clone(), pending.clone()]).unwrap();
    assert_eq!(point.seq, before.seq + 3, "a wait for each");
    assert!(matches!(
        stream.synchronize(),
        Err(StreamError::Poisoned(_))
    ));
    let again = bench.stream("b");
    submit(&again, &[pending, failed]).unwrap();
    assert!(again.synchronize().is_err());
}

/// A stream of each label, with a command that has not ended.
fn busy<const N: usize>(bench: &Bench) -> ([Stream; N], [Frontier; N]) {
    let streams = [(); N].map(|()| bench.stream("other"));
    let points = streams.each_ref().map(|other| work(other).unwrap().into());
    (streams, points)
}

#[test]
fn a_command_is_refused_with_all_its_waits_or_taken_with_all() {
    let bench = Bench::over(|device| device.with_capacity(4));
    let ([a, b], after) = busy(&bench);
    let stream = bench.stream("behind");
    work(&stream).unwrap();
    work(&stream).unwrap();
    let before = stream.now();
    assert_eq!(offer(&stream, &after), Ok(Submission::Full));
    {
        let mut future = submit_async(&stream, &after);
        assert!(poll(&mut future).is_pending());
    }
    assert_eq!(stream.now(), before, "nothing has changed");
    let is_behind = |other: &Stream| {
        let timeline = bench.streams.timeline();
        timeline.wait_need(stream.id(), other.now()) == WaitNeed::Ordered
    };
    assert!(!is_behind(&a) && !is_behind(&b), "the clock knows nothing");
    // Behind one that has ended and one that has not there is room for two.
    bench.machine.step(0);
    let taken = offer(&stream, &after).unwrap();
    assert_eq!(taken, Submission::Accepted(stream.now()));
    assert_eq!(stream.depth(), 4);
    assert!(is_behind(&b));
    assert_eq!(
        stream.try_wait(&b.record()),
        Ok(Submission::Accepted(Waited::Ordered))
    );
    bench.machine.run();
    assert_eq!(stream.synchronize(), Ok(()));
}

#[test]
fn a_command_comes_behind_every_point_and_waits_for_each_lane_once() {
    let bench = Bench::new();
    let ([a, b], mut after) = busy(&bench);
    after[1].join(&work(&a).unwrap().into());
    let stream = bench.stream("behind");
    let at = submit(&stream, &after).unwrap();
    assert_eq!((at, stream.depth()), (stream.now(), 3));
    bench.machine.run();
    let trace = bench.machine.trace();
    let place = |queue, position| {
        let is_it = |ran: &support::Ran| (ran.queue, ran.position) == (queue, position);
        trace.iter().position(is_it).unwrap()
    };
    assert!(place(2, 3) > place(0, 2) && place(2, 3) > place(1, 1));
    // Ended, so nothing is waited for.
    submit(&stream, &after).unwrap();
    assert_eq!(stream.depth(), 1);
    drop(b);
}

#[test]
fn a_command_behind_a_failure_fails() {
    let bench = Bench::new();
    let other = bench.stream("other");
    let after = [trap(&other).unwrap().into()];
    let stream = bench.stream("behind");
    submit(&stream, &after).unwrap();
    bench.machine.run();
    assert!(matches!(
        stream.synchronize(),
        Err(StreamError::Poisoned(_))
    ));
    // It has ended by now, and is told all the same.
    let late = bench.stream("late");
    submit(&late, &after).unwrap();
    bench.machine.run();
    assert!(matches!(late.synchronize(), Err(StreamError::Poisoned(_))));
}

#[test]
fn more_waits_than_a_stream_holds_are_made_one_by_one_where_that_may_be() {
    let bench = Bench::over(|device| device.with_capacity(2));
    let (others, after) = busy::<3>(&bench);
    let options = StreamOptions {
        when_full: WhenFull::Refuse,
        ..StreamOptions::default()
    };
    let strict = bench.stream_with(options);
    assert_eq!(offer(&strict, &after), Ok(Submission::Full));
    let refused = StreamError::Full { capacity: 2 };
    assert_eq!(submit(&strict, &after), Err(refused));
    assert_eq!(strict.depth(), 0);
    let patient = bench.stream("patient");
    {
        let mut future = submit_async(&patient, &after);
        assert!(poll(&mut future).is_pending());
        assert_eq!(patient.depth(), 2);
        bench.machine.run();
        assert_eq!(poll(&mut future), Poll::Ready(Ok(patient.now())));
    }
    bench.machine.run();
    let others = others.each_ref().map(|other| work(other).unwrap().into());
    // Parks, while the fake device goes on.
    submit(&patient, &others).unwrap();
    assert_eq!(patient.synchronize(), Ok(()));
}

#[test]
fn a_place_that_failed_is_waited_for_once_where_waits_are_made_one_by_one() {
    let bench = Bench::over(|device| device.with_capacity(2));
    let mut other = bench.stream("other");
    let failed = Frontier::from(trap(&other).unwrap());
    assert!(other.synchronize().is_err());
    other.clear_error().unwrap();
    let (_others, [pending]) = busy::<1>(&bench);
    let stream = bench.stream("a");
    submit(&stream, &[failed, pending]).unwrap();
    assert!(stream.synchronize().is_err());
}

#[test]
fn a_sanitizer_knows_what_a_command_comes_behind_and_nothing_of_one_that_was_refused() {
    let bench = Bench {
        streams: Bench::sanitized().streams,
        ..Bench::over(|device| device.with_capacity(2))
    };
    let kinds = || {
        let reports = bench.streams.sanitizer().unwrap().take_reports();
        reports
            .into_iter()
            .map(|report| report.kind)
            .collect::<Vec<_>>()
    };
    let ([_other], after) = busy(&bench);
    let stream = bench.stream("behind");
    submit(&stream, &after).unwrap();
    assert_eq!(kinds(), [], "in order");
    bench.machine.run();
    // All has ended, so the wait is left out, which orders as well.
    let third = bench.stream("third");
    submit(&third, &[stream.now().into()]).unwrap();
    assert_eq!((kinds(), third.depth()), (vec![], 1));
    let after = Frontier::from(work(&third).unwrap());
    let late = bench.stream("late");
    // Room for one, and two are needed.
    late.wait(&third.record()).unwrap();
    let fourth = bench.stream("fourth");
    let more = [after, late.now().into()];
    assert_eq!(offer(&fourth, &more), Ok(Submission::Full));
    work(&fourth).unwrap();
    assert_eq!(
        kinds(),
        [Hazard::WriteWrite],
        "the refused one ordered nothing"
    );
}

#[test]
fn commands_behind_each_other_run_in_order_on_every_schedule() {
    for machine in machines() {
        let bench = SimBench::new(machine);
        let options = StreamOptions {
            commands: Some(4),
            ..StreamOptions::default()
        };
        let streams = [(); 3].map(|()| bench.stream_with(options.clone()));
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let command = Command::Fill {
            dst: at,
            pattern: FillPattern::Byte(1),
            bytes: BYTES,
        };
        let mut last = [(); 3].map(|()| Frontier::new());
        for turn in 0..40 {
            let stream = &streams[turn % 3];
            // SAFETY: the memory is live until the end; each use comes behind all before.
            let tried = unsafe { stream.try_submit_behind(&last, &command).unwrap() };
            let point = match tried {
                Submission::Accepted(point) => point,
                // SAFETY: as above.
                Submission::Full => unsafe { stream.submit_behind(&last, &command).unwrap() },
            };
            last[turn % 3] = point.into();
        }
        for stream in &streams {
            stream.synchronize().unwrap();
        }
        // SAFETY: all that names it has ended.
        unsafe { bench.device.memory().free(at).unwrap() };
    }
}

/// Two producers of one stream: whatever the other takes in between, a refusal leaves no wait.
#[test]
fn a_refusal_beside_another_producer_leaves_no_wait() {
    let bench = Bench::over(|device| device.with_capacity(3));
    let ([a, b], after) = busy(&bench);
    let stream = bench.stream("behind");
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                let _taken = support::try_work(&stream).unwrap();
            }
        });
        let taken = offer(&stream, &after).unwrap();
        let is_behind = |other: &Stream| {
            let timeline = bench.streams.timeline();
            timeline.wait_need(stream.id(), other.now()) == piton_timeline::WaitNeed::Ordered
        };
        let was_taken = matches!(taken, Submission::Accepted(_));
        assert_eq!((is_behind(&a), is_behind(&b)), (was_taken, was_taken));
    });
    bench.machine.run();
    stream.synchronize().unwrap();
}

fn of(frontiers: &[Frontier]) -> Frontier {
    let points = frontiers.iter().flat_map(Frontier::points);
    points.copied().collect()
}

#[test]
fn a_stream_without_room_for_all_waits_of_a_frontier_makes_none() {
    let bench = Bench::over(|device| device.with_capacity(3));
    let (others, after) = busy::<3>(&bench);
    let stream = bench.stream_with(StreamOptions {
        when_full: WhenFull::Refuse,
        ..StreamOptions::default()
    });
    work(&stream).unwrap();
    let all = of(&after);
    let refused = Err(StreamError::Full { capacity: 3 });
    assert_eq!(stream.wait_frontier(&all), refused);
    assert_eq!(stream.wait_frontiers(&after), refused);
    assert_eq!(stream.order_after(&all), refused);
    assert_eq!(stream.depth(), 1, "there was room for two");
    let timeline = bench.streams.timeline();
    let need = |other: &Stream| timeline.wait_need(stream.id(), other.now());
    assert!(
        others
            .iter()
            .all(|other| need(other) == WaitNeed::Wait(other.now()))
    );
    assert_eq!(bench.machine.step(3), Step::Ended);
    assert_eq!(stream.wait_frontiers(&after), Ok(()));
    assert_eq!(stream.depth(), 3);
    assert!(others.iter().all(|other| need(other) == WaitNeed::Ordered));
    // All are known, so it needs no room.
    assert_eq!(stream.wait_frontier(&all), Ok(()));
}

#[test]
fn a_frontier_with_a_point_that_was_never_submitted_is_not_waited_for() {
    let bench = Bench::new();
    let ([other], mut after) = busy::<1>(&bench);
    let stream = bench.stream("behind");
    let point = Timepoint {
        seq: other.now().seq + 1,
        ..bench.stream("idle").now()
    };
    after[0].insert(point);
    let unknown = Err(StreamError::UnknownTimepoint { point });
    assert_eq!(stream.wait_frontier(&after[0]), unknown);
    assert_eq!(stream.order_after(&after[0]), unknown);
    assert_eq!(stream.depth(), 0);
}

#[test]
fn a_frontier_of_more_points_than_a_stream_holds_is_waited_for_in_parts() {
    for inherits in [true, false] {
        let bench = Bench::over(|device| device.with_capacity(2));
        let (others, after) = busy::<5>(&bench);
        let stream = bench.stream("behind");
        let all = of(&after);
        // Parks, while the fake device goes on.
        if inherits {
            stream.wait_frontier(&all).unwrap();
        } else {
            stream.order_after(&all).unwrap();
        }
        work(&stream).unwrap();
        assert_eq!(stream.synchronize(), Ok(()));
        assert!(others.iter().all(|other| other.query() == Ok(true)));
        let strict = bench.stream_with(StreamOptions {
            when_full: WhenFull::Refuse,
            ..StreamOptions::default()
        });
        let (_others, after) = busy::<5>(&bench);
        let refused = Err(StreamError::Full { capacity: 2 });
        assert_eq!(strict.wait_frontiers(&after), refused);
        assert_eq!(strict.depth(), 0);
    }
}

#[test]
fn a_failure_behind_a_frontier_is_inherited_where_that_is_wanted() {
    let bench = Bench::new();
    let (bad, good) = (bench.stream("bad"), bench.stream("good"));
    trap(&bad).unwrap();
    work(&good).unwrap();
    let all: Frontier = [good.now(), bad.now()].into_iter().collect();
    let (waits, only_ordered) = (bench.stream("waits"), bench.stream("ordered"));
    waits.wait_frontier(&all).unwrap();
    only_ordered.order_after(&all).unwrap();
    assert_eq!((waits.depth(), only_ordered.depth()), (2, 2));
    for stream in [&waits, &only_ordered] {
        work(stream).unwrap();
    }
    bench.machine.run();
    assert!(matches!(waits.query(), Err(StreamError::Poisoned(_))));
    assert_eq!(only_ordered.query(), Ok(true));
}
