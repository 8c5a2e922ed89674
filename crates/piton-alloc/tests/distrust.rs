//! Giving memory back is safe, so no frontier that a program makes up lets memory go before its earlier uses have ended.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench, config};
use piton_alloc::{Allocation, Request};
use piton_timeline::Timepoint;

/// Memory that lane 0 used, which has not ended, in the hands of a lane.
fn taken_by(lane: usize) -> (Bench, Allocation, Timepoint) {
    let mut bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let taken = bench.on(lane, BLOCK);
    (bench, taken, use_of_it)
}

/// Nobody gets the memory before lane 0's use has ended.
fn is_kept_until_lane_0_ends(bench: &Bench) {
    assert!(bench.pool.allocate(Request::new(BLOCK)).is_err());
    bench.complete(0);
    assert!(bench.pool.allocate(Request::new(BLOCK)).is_ok());
}

#[test]
fn a_place_before_its_lanes_last_use_is_not_believed() {
    let (bench, taken, _) = taken_by(0);
    let long_ago = bench.lanes[0].at(0);
    bench.free(taken, [long_ago]);
    is_kept_until_lane_0_ends(&bench);
}

#[test]
fn a_place_before_its_lanes_last_use_is_not_believed_beside_others() {
    let (mut bench, taken, _) = taken_by(0);
    let (long_ago, elsewhere) = (bench.lanes[0].at(0), bench.work(1));
    bench.free(taken, [long_ago, elsewhere]);
    bench.complete(1);
    is_kept_until_lane_0_ends(&bench);
}

#[test]
fn a_wait_that_was_never_made_is_not_believed() {
    let (mut bench, taken, use_of_it) = taken_by(1);
    assert_eq!(taken.wait().points(), [use_of_it]);
    let last = bench.work(1);
    bench.free(taken, [last]);
    bench.complete(1);
    is_kept_until_lane_0_ends(&bench);
}

#[test]
fn a_place_before_the_wait_is_not_believed() {
    let (mut bench, taken, use_of_it) = taken_by(1);
    let before = bench.work(1);
    bench.lanes[1].note_wait(use_of_it, bench.lanes[1].now());
    bench.complete(1);
    bench.free(taken, [before]);
    is_kept_until_lane_0_ends(&bench);
}

#[test]
fn a_place_behind_a_wait_that_was_made_is_believed() {
    let (mut bench, taken, use_of_it) = taken_by(1);
    bench.lanes[1].note_wait(use_of_it, bench.lanes[1].now());
    let last = bench.work(1);
    bench.free(taken, [last]);
    assert_eq!(bench.on(2, BLOCK).wait().points(), [last]);
}

#[test]
fn a_lane_that_cannot_be_takes_no_memory_of_the_host() {
    let (bench, taken, _) = taken_by(1);
    let mut nobody = bench.lanes[1].id();
    nobody.index = u32::MAX - 1;
    let request = Request::new(BLOCK / 2).on(nobody);
    assert!(bench.pool.allocate(request).is_ok() || taken.bytes() == BLOCK);
    bench.free(
        taken,
        [Timepoint {
            lane: nobody,
            seq: 1,
        }],
    );
}
