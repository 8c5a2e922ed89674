//! A frontier against the plain statement of what it is: for each lane slot, the largest seq inserted.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_timeline::{Frontier, Lane, Timeline, Timepoint};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

const LANES: usize = 4;
const SUBMISSIONS: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, u64),
    Join(Vec<(usize, u64)>),
    Complete(usize, u64),
    RetainPending,
}

fn point() -> impl Strategy<Value = (usize, u64)> {
    (0..LANES, 0..=SUBMISSIONS)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => point().prop_map(|(lane, n)| Step::Insert(lane, n)),
        2 => prop::collection::vec(point(), 0..4).prop_map(Step::Join),
        2 => point().prop_map(|(lane, n)| Step::Complete(lane, n)),
        1 => Just(Step::RetainPending),
    ]
}

/// The frontier, and beside it the map that it stands for.
struct Pair {
    lanes: Vec<Lane>,
    done: [u64; LANES],
    frontier: Frontier,
    map: BTreeMap<usize, u64>,
}

impl Pair {
    fn new(timeline: &Arc<Timeline>) -> Self {
        let lanes: Vec<Lane> = (0..LANES)
            .map(|_| timeline.register(None).unwrap())
            .collect();
        for lane in &lanes {
            lane.submit(SUBMISSIONS);
        }
        Self {
            lanes,
            done: [0; LANES],
            frontier: Frontier::new(),
            map: BTreeMap::new(),
        }
    }

    fn timepoint(&self, (lane, n): (usize, u64)) -> Timepoint {
        self.lanes[lane].at(n)
    }

    fn raise(&mut self, (lane, n): (usize, u64)) {
        let seq = self.map.entry(lane).or_insert(n);
        *seq = n.max(*seq);
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Insert(lane, n) => {
                self.frontier.insert(self.timepoint((*lane, *n)));
                self.raise((*lane, *n));
            }
            Step::Join(points) => {
                let other: Frontier = points.iter().map(|point| self.timepoint(*point)).collect();
                self.frontier.join(&other);
                points.iter().for_each(|point| self.raise(*point));
            }
            Step::Complete(lane, n) => {
                self.lanes[*lane].complete(*n);
                self.done[*lane] = self.done[*lane].max(*n);
            }
            Step::RetainPending => {
                self.frontier.retain_pending(self.lanes[0].timeline());
                let done = self.done;
                self.map.retain(|lane, n| *n > done[*lane]);
            }
        }
    }

    fn check(&self) {
        let expected: Vec<Timepoint> = self
            .map
            .iter()
            .map(|(lane, n)| self.timepoint((*lane, *n)))
            .collect();
        assert_eq!(self.frontier.points(), expected);
        assert_eq!(self.frontier.is_empty(), expected.is_empty());
        let single = (expected.len() == 1).then(|| expected[0]);
        assert_eq!(self.frontier.single(), single);
        let is_complete = self.map.iter().all(|(lane, n)| *n <= self.done[*lane]);
        assert_eq!(
            self.frontier.is_complete(self.lanes[0].timeline()),
            is_complete
        );
    }
}

proptest! {
    #[test]
    fn a_frontier_is_a_map_from_lane_to_largest_seq(steps in prop::collection::vec(step(), 0..40)) {
        let mut pair = Pair::new(&Timeline::new());
        for step in &steps {
            pair.apply(step);
            pair.check();
        }
    }

    #[test]
    fn the_order_of_insertion_does_not_matter(points in prop::collection::vec(point(), 0..12)) {
        let pair = Pair::new(&Timeline::new());
        let forward: Frontier = points.iter().map(|point| pair.timepoint(*point)).collect();
        let backward: Frontier = points.iter().rev().map(|point| pair.timepoint(*point)).collect();
        prop_assert_eq!(forward, backward);
    }
}

#[test]
fn a_point_of_a_later_tenant_stands_for_one_of_an_earlier() {
    let timeline = Timeline::new();
    let first = timeline.register(None).unwrap();
    let stale = first.submit(3);
    first.complete(3);
    drop(first);
    let second = timeline.register(None).unwrap();
    let pending = second.submit(1);
    assert_eq!(stale.lane.index, pending.lane.index);

    for points in [[stale, pending], [pending, stale]] {
        let frontier: Frontier = points.into_iter().collect();
        assert_eq!(frontier.single(), Some(pending));
        assert!(!frontier.is_complete(&timeline));
    }
}
