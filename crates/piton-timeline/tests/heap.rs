//! What the timeline asks of the heap: nothing for an operation, little for a lane.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_heap::{Asked, during};
use piton_timeline::{Frontier, Lane, Timeline, WaitNeed};
use std::{ops::Range, sync::Arc};

fn lanes(timeline: &Arc<Timeline>, count: usize) -> Vec<Lane> {
    let lanes = (0..count).map(|_| timeline.register(None).unwrap());
    lanes
        .inspect(|lane| {
            lane.submit(1 << 30);
        })
        .collect()
}

/// Each waits for the next in turn, in places that nobody has waited for, so that every lane comes to know of all.
fn cross(lanes: &[Lane], places: Range<u64>) {
    for n in places {
        for (at, lane) in lanes.iter().enumerate() {
            let point = lanes[(at + 1) % lanes.len()].at(n);
            assert_eq!(lane.wait_need(point), WaitNeed::Wait(point));
            lane.note_wait(point, lane.at(n));
            assert_eq!(lane.wait_need(point), WaitNeed::Ordered);
        }
    }
}

#[test]
fn a_wait_between_lanes_that_know_each_other_allocates_nothing() {
    for count in [2, 16, 80] {
        let timeline = Timeline::new();
        let lanes = lanes(&timeline, count);
        // Tables of a clock are made once, when they are first needed.
        cross(&lanes, 1..100);
        let asked = during(|| cross(&lanes, 100..200));
        assert_eq!(asked, Asked::NOTHING, "{count} lanes");
    }
}

#[test]
fn asking_and_recording_allocate_nothing() {
    let timeline = Timeline::new();
    let lanes = lanes(&timeline, 3);
    let one = Frontier::from(lanes[1].at(1));
    let two: Frontier = [lanes[1].at(2), lanes[2].at(2)].into_iter().collect();
    let asked = during(|| {
        for lane in &lanes {
            let now = lane.now();
            assert!(!timeline.is_complete(now));
            assert_ne!(lane.wait_need(now), WaitNeed::Done);
            let _one = timeline.reuse(&one, Some(lane.id()));
            let _two = timeline.reuse(&two, Some(lane.id()));
        }
    });
    assert_eq!(asked, Asked::NOTHING);
}

#[test]
fn a_lane_that_never_waited_takes_little() {
    const LANES: u64 = 6400;
    let timeline = Timeline::new();
    let mut kept = Vec::with_capacity(6400);
    let asked = during(|| kept.extend((0..LANES).map(|_| timeline.register(None).unwrap())));
    let each = asked.bytes / LANES;
    assert!((320..=448).contains(&each), "{each} bytes");

    kept.clear();
    let asked = during(|| kept.extend((0..LANES).map(|_| timeline.register(None).unwrap())));
    assert_eq!(asked, Asked::NOTHING, "slots are used again");
}
