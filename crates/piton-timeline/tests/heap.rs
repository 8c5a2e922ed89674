//! What the timeline asks of the heap: nothing for an operation, little for a lane.

#![cfg(not(loom))]
#![expect(
    unsafe_code,
    reason = "a global allocator promises what the system's does"
)]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_timeline::{Frontier, Lane, Timeline, WaitNeed};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ops::Range,
    sync::Arc,
};

thread_local! {
    // GLOBAL: what one thread asks for is counted where it asks, and an allocator is passed no argument.
    static ASKED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

struct Counting;

// GLOBAL: an allocator is the program's by its nature.
#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (allocations, bytes) = ASKED.get();
        ASKED.set((allocations + 1, bytes + layout.size() as u64));
        // SAFETY: the caller promised it for the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller promised it for the start and the layout.
        unsafe { System.dealloc(start, layout) }
    }
}

/// How many allocations `work` makes on this thread, and of how many bytes.
fn asked(work: impl FnOnce()) -> (u64, u64) {
    let before = ASKED.get();
    work();
    let after = ASKED.get();
    (after.0 - before.0, after.1 - before.1)
}

fn lanes(timeline: &Arc<Timeline>, count: usize) -> Vec<Lane> {
    let lanes = (0..count).map(|_| timeline.register(None).unwrap());
    lanes
        .inspect(|lane| {
            lane.submit(1 << 30);
        })
        .collect()
}

/// Each waits for the next in turn, in places that nobody has waited for, so that every lane comes to know of all.
fn cross(timeline: &Timeline, lanes: &[Lane], places: Range<u64>) {
    for n in places {
        for (at, lane) in lanes.iter().enumerate() {
            let point = lanes[(at + 1) % lanes.len()].at(n);
            assert_eq!(lane.wait_need(point), WaitNeed::Wait(point));
            timeline.note_wait(lane.id(), point, lane.at(n));
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
        cross(&timeline, &lanes, 1..100);
        let asked = asked(|| cross(&timeline, &lanes, 100..200));
        assert_eq!(asked, (0, 0), "{count} lanes");
    }
}

#[test]
fn asking_and_recording_allocate_nothing() {
    let timeline = Timeline::new();
    let lanes = lanes(&timeline, 3);
    let one = Frontier::from(lanes[1].at(1));
    let two: Frontier = [lanes[1].at(2), lanes[2].at(2)].into_iter().collect();
    let asked = asked(|| {
        for lane in &lanes {
            let now = lane.now();
            assert!(!timeline.is_complete(now));
            assert_ne!(lane.wait_need(now), WaitNeed::Done);
            let _one = timeline.reuse(&one, Some(lane.id()));
            let _two = timeline.reuse(&two, Some(lane.id()));
        }
    });
    assert_eq!(asked, (0, 0));
}

#[test]
fn a_lane_that_never_waited_takes_little() {
    const LANES: u64 = 6400;
    let timeline = Timeline::new();
    let mut kept = Vec::with_capacity(6400);
    let (_, bytes) = asked(|| kept.extend((0..LANES).map(|_| timeline.register(None).unwrap())));
    let each = bytes / LANES;
    assert!((400..=704).contains(&each), "{each} bytes");

    kept.clear();
    let (allocations, _) =
        asked(|| kept.extend((0..LANES).map(|_| timeline.register(None).unwrap())));
    assert_eq!(allocations, 0, "slots are used again");
}
