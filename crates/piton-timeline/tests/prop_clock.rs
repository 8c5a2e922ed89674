//! The happens-before clock against full vector clocks that forget nothing.

#![cfg(not(loom))]

mod program;

use piton_timeline::{Frontier, Reuse, Timeline, WaitNeed};
use program::{Place, Program, Step, kind, step};
use proptest::prelude::*;

/// Whether the model says that the waiter's next submission is ordered after the place by waits alone.
fn is_ordered(program: &Program, waiter: usize, (tenant, n): Place) -> bool {
    let seen = program.tenants[waiter].next.get(&tenant).copied();
    waiter == tenant || seen.is_some_and(|seen| seen >= n)
}

/// How many replaced facts a clock remembers.
const PAST: usize = 16;

/// What the clock says of every place, on every live lane, must be true.
fn check_sound(program: &Program) {
    check_sound_for(program, program.live());
}

fn check_sound_for(program: &Program, waiters: impl IntoIterator<Item = usize>) {
    for waiter in waiters {
        let id = program.tenants[waiter].id;
        for place in program.places() {
            let point = program.timepoint(place);
            match program.timeline.wait_need(id, point) {
                WaitNeed::Done => assert!(program.is_done(place), "{place:?} is not done"),
                WaitNeed::Ordered => assert!(
                    program.is_done(place) || is_ordered(program, waiter, place),
                    "{waiter} is not ordered after {place:?}"
                ),
                WaitNeed::Wait(named) => {
                    assert_eq!(named, point);
                    assert!(!program.is_done(place), "{place:?} is done");
                }
            }
        }
    }
}

/// A lane knows what it was told: every place that it waited for itself.
fn check_direct(program: &Program) {
    for waiter in program.live() {
        let id = program.tenants[waiter].id;
        for place in &program.tenants[waiter].direct {
            let need = program.timeline.wait_need(id, program.timepoint(*place));
            assert!(
                !matches!(need, WaitNeed::Wait(_)),
                "{waiter} has waited for {place:?}"
            );
        }
    }
}

/// Whether no lane has learnt so much that it forgot.
fn remembers(program: &Program) -> bool {
    program.tenants.iter().all(|t| t.replaced <= PAST)
}

/// As long as no lane has learnt so much that it forgot, the clock knows every order there is.
fn check_exact(program: &Program) {
    for waiter in program.live() {
        let id = program.tenants[waiter].id;
        for place in program.places() {
            let is_free = program.is_done(place) || is_ordered(program, waiter, place);
            let need = program.timeline.wait_need(id, program.timepoint(place));
            assert_eq!(
                matches!(need, WaitNeed::Wait(_)),
                !is_free,
                "{waiter} after {place:?}"
            );
        }
    }
}

fn expected_reuse(program: &Program, uses: &[Place], taker: usize) -> Reuse {
    let waits: Frontier = latest(uses)
        .filter(|place| !program.is_done(*place) && !is_ordered(program, taker, *place))
        .map(|place| program.timepoint(place))
        .collect();
    if waits.is_empty() {
        Reuse::Now
    } else {
        Reuse::AfterWait(waits)
    }
}

/// The latest place of each lane.
fn latest(uses: &[Place]) -> impl Iterator<Item = Place> + '_ {
    uses.iter()
        .copied()
        .filter(|(lane, n)| uses.iter().all(|(other, m)| other != lane || m <= n))
}

/// Few lanes that wait often, so that clocks are joined across several and history is forgotten.
fn crossing_step() -> impl Strategy<Value = Step> {
    let place = || (0..4usize, 0..64u64);
    prop_oneof![
        1 => kind().prop_map(Step::Register),
        4 => (0..4usize, 1..3u64).prop_map(|(tenant, more)| Step::Submit(tenant, more)),
        1 => (0..4usize, 1..3u64).prop_map(|(tenant, more)| Step::Complete(tenant, more)),
        8 => (0..4usize, place()).prop_map(|(waiter, place)| Step::Wait { waiter, place }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_clock_is_sound_in_every_program(steps in prop::collection::vec(step(), 0..60)) {
        let mut program = Program::new();
        for step in &steps {
            program.apply(step);
            check_sound(&program);
            check_direct(&program);
        }
    }

    #[test]
    fn the_clock_stays_sound_when_it_forgets(steps in prop::collection::vec(crossing_step(), 80..160)) {
        let mut program = Program::new();
        for step in &steps {
            program.apply(step);
        }
        check_sound(&program);
        check_direct(&program);
    }

    #[test]
    fn the_clock_is_exact_while_it_remembers(steps in prop::collection::vec(crossing_step(), 0..40)) {
        let mut program = Program::new();
        for step in &steps {
            program.apply(step);
            prop_assume!(remembers(&program));
            check_exact(&program);
        }
    }

    #[test]
    fn reuse_names_exactly_the_uses_that_are_neither_done_nor_ordered(
        steps in prop::collection::vec(step(), 0..30),
        places in prop::collection::vec((0..64usize, 0..8u64), 0..4),
        taker in 0..64usize,
    ) {
        let mut program = Program::new();
        for step in &steps {
            program.apply(step);
            prop_assume!(remembers(&program));
            let live = program.live();
            if live.is_empty() {
                continue;
            }
            let taker = live[taker % live.len()];
            let uses: Vec<Place> = places.iter().map(|place| program.pick_place(*place)).collect();
            let frontier: Frontier = uses.iter().map(|place| program.timepoint(*place)).collect();
            let answer = program.timeline.reuse(&frontier, Some(program.tenants[taker].id));
            prop_assert_eq!(answer, expected_reuse(&program, &uses, taker));
        }
    }
}

/// Many lanes of which the first few wait for the others, so that clocks run out of room.
fn gathering_step() -> impl Strategy<Value = Step> {
    let any_lane = 0..256usize;
    let place = (any_lane.clone(), 0..64u64);
    prop_oneof![
        1 => any_lane.clone().prop_map(Step::Drop),
        1 => kind().prop_map(Step::Register),
        20 => (any_lane.clone(), 1..3u64).prop_map(|(tenant, more)| Step::Submit(tenant, more)),
        1 => (any_lane, 1..3u64).prop_map(|(tenant, more)| Step::Complete(tenant, more)),
        20 => (0..6usize, place).prop_map(|(waiter, place)| Step::Wait { waiter, place }),
    ]
}

fn gathered(lanes: usize, steps: &[Step]) -> Program {
    let mut program = Program::with_lanes(lanes);
    for lane in 0..lanes {
        program.apply(&Step::Submit(lane, 2));
    }
    for step in steps {
        program.apply(step);
    }
    program
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_fifty_lanes_were_waited_for_is_known(
        steps in prop::collection::vec(gathering_step(), 100..500)
    ) {
        let program = gathered(50, &steps);
        check_direct(&program);
        check_sound_for(&program, program.live().into_iter().take(6));
    }

    #[test]
    fn the_clock_stays_sound_when_it_knows_of_too_many_lanes(
        steps in prop::collection::vec(gathering_step(), 400..800)
    ) {
        let program = gathered(200, &steps);
        check_sound_for(&program, program.live().into_iter().take(6));
    }
}

#[test]
fn order_reaches_through_a_lane_in_between() {
    let timeline = Timeline::new();
    let [a, b, c] = std::array::from_fn(|_| timeline.register(None).unwrap());
    let first = a.submit(1);
    b.note_wait(first, b.now());
    let second = b.submit(1);
    c.note_wait(second, c.now());
    assert_eq!(timeline.wait_need(c.id(), first), WaitNeed::Ordered);
    assert_eq!(
        timeline.wait_need(a.id(), second),
        WaitNeed::Wait(second),
        "order has a direction"
    );
}

#[test]
fn a_wait_made_after_a_point_says_nothing_of_the_point() {
    let timeline = Timeline::new();
    let [a, b, c] = std::array::from_fn(|_| timeline.register(None).unwrap());
    let first = a.submit(1);
    let before = b.submit(1);
    b.note_wait(first, b.now());
    b.submit(2);
    c.note_wait(before, c.now());
    assert_eq!(timeline.wait_need(c.id(), first), WaitNeed::Wait(first));
}

#[test]
fn an_ended_lane_is_ordered_after_nothing_that_its_slot_has_learnt_since() {
    let timeline = Timeline::new();
    let other = timeline.register(None).unwrap();
    let pending = other.submit(1);
    let ended = timeline.register(None).unwrap();
    let ended_id = ended.id();
    drop(ended);
    let tenant = timeline.register(None).unwrap();
    assert_eq!(tenant.id().index, ended_id.index);
    tenant.note_wait(pending, tenant.now());
    assert_eq!(
        timeline.wait_need(ended_id, pending),
        WaitNeed::Wait(pending)
    );
}
