//! Streams that wait for streams: what becomes a command, what is left out, what is refused.

#![cfg(not(loom))]

mod support;

use piton_stream::{StreamError, Submission, Waited};
use piton_timeline::{Frontier, LaneId, Timepoint};
use support::{Bench, Ran, Step, trap, try_work, work};

#[test]
fn a_stream_waits_on_the_device() {
    let bench = Bench::new();
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    work(&a).unwrap();
    assert!(matches!(b.wait(&a.record()), Ok(Waited::Enqueued(_))));
    work(&b).unwrap();
    assert_eq!(bench.machine.step(1), Step::Blocked);
    bench.machine.run();
    let order: Vec<_> = bench
        .machine
        .trace()
        .iter()
        .map(|ran| (ran.queue, ran.position))
        .collect();
    assert_eq!(order, [(0, 1), (1, 1), (1, 2)]);
}

#[test]
fn a_wait_that_adds_nothing_is_left_out() {
    let bench = Bench::new();
    let (a, b, c) = (bench.stream("a"), bench.stream("b"), bench.stream("c"));
    work(&a).unwrap();
    let early = a.record();
    work(&a).unwrap();
    let late = a.record();
    assert_eq!(a.wait(&late), Ok(Waited::Ordered), "its own past");
    assert!(matches!(b.wait(&late), Ok(Waited::Enqueued(_))));
    assert_eq!(b.wait(&late), Ok(Waited::Ordered));
    assert_eq!(b.wait(&early), Ok(Waited::Ordered));
    assert!(matches!(c.wait(&b.record()), Ok(Waited::Enqueued(_))));
    assert_eq!(c.wait(&late), Ok(Waited::Ordered), "through b");
    bench.machine.run();
    let fresh = bench.stream("fresh");
    assert_eq!(fresh.wait(&late), Ok(Waited::Done));
    assert_eq!(fresh.depth(), 0);
}

#[test]
fn a_frontier_is_waited_for_point_by_point() {
    let bench = Bench::new();
    let (a, b, c) = (bench.stream("a"), bench.stream("b"), bench.stream("c"));
    let uses: Frontier = [work(&a).unwrap(), work(&b).unwrap()].into_iter().collect();
    c.wait_frontier(&uses).unwrap();
    assert_eq!(c.depth(), 2);
    c.wait_frontier(&uses).unwrap();
    assert_eq!(c.depth(), 2);
    work(&c).unwrap();
    assert_eq!(c.synchronize(), Ok(()));
    assert!(uses.is_complete(bench.streams.timeline()));
}

#[test]
fn a_done_point_that_failed_still_poisons_who_waits() {
    let bench = Bench::new();
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    work(&a).unwrap();
    let good = a.record();
    trap(&a).unwrap();
    let bad = a.record();
    bench.machine.run();
    assert_eq!(b.wait(&good), Ok(Waited::Done));
    assert!(matches!(b.wait(&bad), Ok(Waited::Enqueued(_))));
    work(&b).unwrap();
    assert!(matches!(b.synchronize(), Err(StreamError::Poisoned(_))));
    let last = bench.machine.trace().last().copied();
    assert_eq!(
        last,
        Some(Ran {
            queue: 1,
            position: 2,
            did: false
        })
    );
}

#[test]
fn a_failure_nobody_can_spread_is_refused() {
    let bench = Bench::new();
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    trap(&a).unwrap();
    let bad = a.record();
    bench.machine.run();
    drop(a);
    assert!(matches!(b.wait(&bad), Err(StreamError::Poisoned(_))));
    assert_eq!(b.depth(), 0);
    assert_eq!(b.synchronize(), Ok(()));
}

#[test]
fn a_dropped_streams_work_can_be_waited_for() {
    let bench = Bench::new();
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    let point = work(&a).unwrap();
    drop(a);
    assert!(matches!(b.wait_timepoint(point), Ok(Waited::Enqueued(_))));
    work(&b).unwrap();
    assert_eq!(bench.machine.step(1), Step::Blocked);
    assert_eq!(b.synchronize(), Ok(()));
}

#[test]
fn points_of_nobody_are_refused() {
    let bench = Bench::new();
    let stream = bench.stream("a");
    let ahead = Timepoint {
        seq: stream.now().seq + 1,
        ..stream.now()
    };
    let nowhere = Timepoint {
        lane: LaneId {
            index: u32::MAX,
            generation: 0,
        },
        seq: 0,
    };
    let later_tenant = Timepoint {
        lane: LaneId {
            generation: 9,
            ..stream.id()
        },
        seq: 1,
    };
    for point in [ahead, nowhere, later_tenant] {
        let refused = Err(StreamError::UnknownTimepoint { point });
        assert_eq!(stream.wait_timepoint(point), refused);
        assert_eq!(bench.streams.query(point), refused.map(|_| true));
    }
}

#[test]
fn an_event_of_another_runtime_is_refused() {
    let (here, there) = (Bench::new(), Bench::new());
    let event = there.stream("a").record();
    let refused = here.stream("b").wait(&event);
    assert!(matches!(refused, Err(StreamError::ForeignEvent { .. })));
}

#[test]
fn a_wait_with_no_room_changes_nothing() {
    let bench = Bench::over(|device| device.with_capacity(1));
    let (a, b) = (bench.stream("a"), bench.stream("b"));
    work(&a).unwrap();
    let event = a.record();
    assert!(matches!(try_work(&b), Ok(Submission::Accepted(_))));
    assert_eq!(b.try_wait(&event), Ok(Submission::Full));
    bench.machine.step(1);
    let again = b.try_wait(&event);
    assert!(
        matches!(again, Ok(Submission::Accepted(Waited::Enqueued(_)))),
        "a wait that was refused is not counted as made: {again:?}"
    );
}
