//! Sources of completions are somebody else's: their destructors may do what they like.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::{Frontier, Progress, Timeline};
use std::sync::Arc;

/// A source whose end makes and ends a lane, as the last handle of a queue may: what the queue keeps is a program's.
struct MakesLanes {
    timeline: Arc<Timeline>,
    completed: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
}

impl Progress for MakesLanes {
    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }
}

impl Drop for MakesLanes {
    fn drop(&mut self) {
        drop(self.timeline.register(None).unwrap());
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_source_of_a_slots_former_lane_is_dropped_under_no_lock() {
    let timeline = Timeline::new();
    let counters = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
    let [completed, ended] = counters.clone();
    let source = MakesLanes {
        timeline: Arc::clone(&timeline),
        completed,
        ended,
    };
    let lane = timeline.register(Some(Arc::new(source))).unwrap();
    let index = lane.id().index;
    lane.submit(1);
    drop(lane);
    // It has not ended, so its slot keeps it; and it has by the time that another lane takes the slot.
    let [completed, ended] = counters;
    assert_eq!(ended.load(Ordering::Relaxed), 0);
    completed.store(1, Ordering::Release);
    let next = timeline.register(None).unwrap();
    assert_eq!(next.id().index, index, "the slot has a new lane");
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

/// A counter moved by hand.
struct Counter(Arc<AtomicU64>);

impl Progress for Counter {
    fn completed(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[test]
fn who_looks_again_knows_how_far_everything_is_that_it_comes_after() {
    let timeline = Timeline::new();
    let counters = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
    let lanes = counters.each_ref().map(|counter| {
        let source = Counter(Arc::clone(counter));
        timeline.register(Some(Arc::new(source))).unwrap()
    });
    let waits = timeline.register(None).unwrap();
    let points = lanes.each_ref().map(|lane| lane.submit(1));
    // The second comes after the first, and so does whoever comes after the second.
    lanes[1].note_wait(points[0], lanes[1].now());
    let last = lanes[1].submit(2);
    waits.note_wait(last, waits.now());
    counters[0].store(1, Ordering::Release);
    assert!(!timeline.is_known_complete(points[0]));
    waits.look_again();
    assert!(timeline.is_known_complete(points[0]));
    assert!(!timeline.is_known_complete(last), "it has not ended");
    assert!(waits.is_ordered_after(points[0]) && waits.is_ordered_after(last));
    counters[1].store(2, Ordering::Release);
    lanes[1].look_again();
    assert!(
        timeline.is_known_complete(last),
        "its own source is asked too"
    );
}

#[test]
fn what_is_known_asks_nobody_and_a_lane_that_was_asked_is_known() {
    let timeline = Timeline::new();
    let counter = Arc::new(AtomicU64::new(0));
    let lane = timeline
        .register(Some(Arc::new(Counter(Arc::clone(&counter)))))
        .unwrap();
    let other = timeline.register(None).unwrap();
    let (first, second) = (lane.submit(1), lane.submit(2));
    counter.store(1, Ordering::Release);
    let pending = |timeline: &Timeline| {
        let mut uses: Frontier = [first, other.submit(1)].into_iter().collect();
        uses.retain_unknown(timeline);
        uses.points().len()
    };
    let is_free = |point| timeline.is_known_free(other.id(), point);
    assert_eq!((pending(&timeline), is_free(first)), (2, false));
    timeline.refresh(lane.id());
    assert_eq!((pending(&timeline), is_free(first)), (1, true));
    assert!(!is_free(second), "it has not ended");
    assert!(timeline.is_known_free(lane.id(), second), "its own");
    other.note_wait(second, other.now());
    assert!(is_free(second), "it comes after");
}
