//! Counters and generations against a plain model: what is complete, what has failed, who has which slot.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod program;

use piton_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use piton_timeline::{Frontier, LaneId, Progress, Reuse, Timeline, TimelineError};
use program::{Place, Program, step};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

fn check_completion(program: &Program) {
    for place in program.places() {
        let point = program.timepoint(place);
        if program.timeline.is_known_complete(point) {
            assert!(program.is_done(place), "{place:?} is known to be done");
        }
        assert_eq!(
            program.timeline.is_complete(point),
            program.is_done(place),
            "{place:?}"
        );
    }
    for tenant in &program.tenants {
        let unborn = tenant.timepoint(tenant.submitted + 1);
        if tenant.lane.is_some() {
            assert!(!program.timeline.is_complete(unborn), "{unborn:?}");
        }
    }
}

/// The failure of a lane whose slot has a new tenant may be forgotten; one that never was is never told.
fn check_failures(program: &Program) {
    for place in program.places() {
        let tenant = &program.tenants[place.0];
        let expected = tenant.failed.is_some_and(|failed| failed <= place.1);
        let is_current = latest_tenant_of(program, tenant.id) == place.0;
        let told = program.timeline.has_failed(program.timepoint(place));
        if is_current && program.is_done(place) {
            assert_eq!(told, expected, "{place:?}");
        } else {
            assert!(!told || expected, "{place:?}");
        }
    }
}

fn latest_tenant_of(program: &Program, id: LaneId) -> usize {
    let last = program.tenants.iter().rposition(|t| t.id.index == id.index);
    last.unwrap()
}

fn check_slots(program: &Program) {
    let ids: BTreeSet<LaneId> = program.tenants.iter().map(|t| t.id).collect();
    assert_eq!(ids.len(), program.tenants.len(), "no two lanes are equal");
    let live = program.live();
    let slots: BTreeSet<u32> = live
        .iter()
        .map(|tenant| program.tenants[*tenant].id.index)
        .collect();
    assert_eq!(slots.len(), live.len(), "no two live lanes share a slot");
}

/// Last uses of some memory.
fn places() -> impl Strategy<Value = Vec<(prop::sample::Index, u64)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..8u64), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn completion_is_what_was_completed_whoever_has_the_slot(
        steps in prop::collection::vec(step(), 0..60)
    ) {
        let mut program = Program::new();
        for step in &steps {
            program.apply(step);
            check_completion(&program);
            check_failures(&program);
            check_slots(&program);
        }
    }

    #[test]
    fn memory_without_a_taker_is_free_when_every_use_is_done(
        steps in prop::collection::vec(step(), 0..60),
        places in places(),
    ) {
        let mut program = Program::new();
        for step in &steps {
            program.apply(step);
            let uses: Vec<Place> = places
                .iter()
                .map(|(tenant, n)| program.pick_place((tenant.index(64), *n)))
                .collect();
            let frontier: Frontier = uses.iter().map(|place| program.timepoint(*place)).collect();
            let expected = if uses.iter().all(|place| program.is_done(*place)) {
                Reuse::Now
            } else {
                Reuse::No
            };
            prop_assert_eq!(program.timeline.reuse(&frontier, None), expected);
        }
    }

    #[test]
    fn smaller_numbers_change_nothing(told in prop::collection::vec((any::<bool>(), 0..20u64), 0..30)) {
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        let (mut submitted, mut done) = (0, 0);
        for (is_submission, n) in told {
            if is_submission {
                lane.submit(n);
                submitted = n.max(submitted);
            } else {
                lane.complete(n);
                done = n.min(submitted).max(done);
            }
            prop_assert_eq!(lane.now(), lane.at(submitted));
            prop_assert!(timeline.is_complete(lane.at(done)));
            prop_assert!(!timeline.is_complete(lane.at(done + 1)));
        }
    }
}

#[test]
fn a_slot_whose_numbers_are_used_up_is_given_to_nobody() {
    let timeline = Timeline::new();
    let lane = timeline.register(None).unwrap();
    let stale = lane.submit(u64::MAX);
    lane.complete(u64::MAX);
    drop(lane);
    let next = timeline.register(None).unwrap();
    let point = next.submit(1);
    assert!(timeline.is_complete(stale));
    assert!(!timeline.is_complete(point));
    assert_ne!(next.id().index, stale.lane.index);
}

#[test]
fn a_lane_too_many_is_refused_until_one_ends() {
    let timeline = Timeline::new();
    let mut lanes: Vec<_> = (0..Timeline::LANES)
        .map(|_| timeline.register(None).unwrap())
        .collect();
    let refused = timeline.register(None).unwrap_err();
    let limit = Timeline::LANES;
    assert_eq!(refused, TimelineError::TooManyLanes { limit });

    let pending = lanes.pop().unwrap();
    pending.submit(1);
    drop(pending);
    assert!(timeline.register(None).is_err(), "its work has not ended");
    lanes.pop();
    assert!(timeline.register(None).is_ok());
}

/// Work that fails and ends between two looks at it.
struct FailsMeanwhile(OnceLock<()>);

impl Progress for FailsMeanwhile {
    fn completed(&self) -> u64 {
        u64::from(self.0.set(()).is_err())
    }

    fn failed(&self) -> Option<u64> {
        self.0.set(()).is_err().then_some(1)
    }
}

#[test]
fn a_failure_is_known_no_later_than_the_end_of_the_work() {
    let timeline = Timeline::new();
    let source = Arc::new(FailsMeanwhile(OnceLock::new()));
    let lane = timeline.register(Some(source)).unwrap();
    let point = lane.submit(1);
    while !timeline.is_complete(point) {}
    assert!(timeline.has_failed(point));
}

/// A device's counter, moved by hand.
#[derive(Default)]
struct Counter {
    completed: AtomicU64,
    has_failed: AtomicBool,
}

impl Progress for Counter {
    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    fn failed(&self) -> Option<u64> {
        self.has_failed.load(Ordering::Acquire).then_some(1)
    }
}

#[test]
fn a_new_tenant_does_not_inherit_a_failure() {
    let timeline = Timeline::new();
    let counter = Arc::new(Counter::default());
    let lane = timeline.register(Some(counter.clone())).unwrap();
    let failing = lane.submit(1);
    drop(lane);
    counter.has_failed.store(true, Ordering::Release);
    counter.completed.store(1, Ordering::Release);
    assert!(timeline.is_complete(failing) && timeline.has_failed(failing));

    let next = timeline.register(None).unwrap();
    let point = next.submit(1);
    next.complete(1);
    assert_eq!(point.lane.index, failing.lane.index);
    assert!(!timeline.has_failed(point));
}

#[test]
fn work_that_ended_before_it_was_announced_does_not_count_for_the_next_tenant() {
    let timeline = Timeline::new();
    let counter = Arc::new(Counter::default());
    let lane = timeline.register(Some(counter.clone())).unwrap();
    let announced = lane.submit(1);
    counter.completed.store(3, Ordering::Release);
    assert!(timeline.is_complete(announced));
    drop(lane);

    let next = timeline.register(None).unwrap();
    let point = next.submit(1);
    assert_eq!(point.lane.index, announced.lane.index);
    assert!(!timeline.is_complete(point));
}
