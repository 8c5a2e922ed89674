//! How long a lane keeps what it freed.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench, config};
use piton_alloc::{ExactBlocks, MemoryPoolConfig, Request};

fn without_fronts() -> MemoryPoolConfig {
    MemoryPoolConfig {
        front_bytes: Some(0),
        ..config()
    }
}

#[test]
fn what_a_lane_kept_is_everyones_as_soon_as_another_asks() {
    let mut bench = Bench::new(8 * BLOCK, without_fronts());
    let halves = [(); 2].map(|()| bench.on(0, BLOCK / 2));
    let last = bench.work(0);
    for half in halves {
        bench.free(half, [last]);
    }
    let _half = bench.on(0, BLOCK / 2);
    bench.complete(0);
    let kept = bench.pool.stats();
    assert_eq!((kept.pending_bytes, kept.cached_bytes), (0, BLOCK / 2));
    let taken = bench.on(1, BLOCK / 4);
    let asked = bench.pool.stats();
    assert_eq!((asked.hits, asked.misses), (kept.hits + 1, kept.misses));
    assert!(taken.wait().is_empty());
    let last = bench.work(1);
    bench.free(taken, [last]);
    bench.complete(1);
    let plain = bench.pool.allocate(Request::new(BLOCK / 2)).unwrap();
    let asked = bench.pool.stats();
    assert_eq!(
        asked.misses, kept.misses,
        "a request without a lane is another"
    );
    bench.free(plain, []);
}

#[test]
fn a_block_that_a_lane_left_whole_is_idle_once_that_is_complete() {
    let mut bench = Bench::new(8 * BLOCK, config());
    let large = bench.on(0, 6 * BLOCK);
    let last = bench.work(0);
    bench.free(large, [last]);
    bench.complete(0);
    let small = bench.on(0, BLOCK);
    assert_eq!(
        bench.source.held(),
        BLOCK,
        "the idle one is too large for it"
    );
    bench.pool.check().unwrap();
    bench.free(small, []);
}

/// What two misses of one lane have shown: nobody else asks.
fn alone(config: MemoryPoolConfig) -> Bench {
    let mut bench = Bench::new(8 * BLOCK, config);
    for _ in 0..2 {
        let block = bench.on(0, BLOCK);
        let half = bench.on(0, BLOCK / 2);
        let last = bench.work(0);
        bench.free(half, [last]);
        bench.free(block, [last]);
        bench.complete(0);
        bench.pool.trim(0);
    }
    bench
}

#[test]
fn what_a_lane_frees_is_one_with_what_was_free_before_if_nobody_else_asks() {
    let mut bench = alone(without_fronts());
    let first = bench.on(0, BLOCK / 4);
    assert_eq!(bench.source.held(), BLOCK);
    let last = bench.work(0);
    bench.free(first, [last]);
    let misses = bench.pool.stats().misses;
    let whole = bench.on(0, BLOCK);
    assert!(whole.wait().is_empty());
    let stats = bench.pool.stats();
    assert_eq!((stats.misses, stats.held_bytes), (misses, BLOCK));
    bench.free(whole, []);
    bench.pool.check().unwrap();
}

#[test]
fn a_lane_that_is_not_alone_any_more_shares_what_is_complete_at_once() {
    let mut bench = alone(without_fronts());
    let quarter = bench.on(0, BLOCK / 4);
    let taken = bench.on(1, BLOCK / 2);
    let stats = bench.pool.stats();
    assert_eq!(
        stats.held_bytes, BLOCK,
        "what was left of the Block waits for nothing"
    );
    assert!(taken.wait().is_empty());
    let last = bench.work(0);
    bench.free(quarter, [last]);
    bench.free(taken, []);
    assert_eq!(bench.pool.stats().pending_bytes, BLOCK / 4);
    bench.pool.check().unwrap();
}

#[test]
fn a_block_that_is_pending_as_a_whole_is_broken_into_after_those_in_use() {
    let mut bench = Bench::new(16 * BLOCK, without_fronts());
    let whole = bench.on(0, BLOCK);
    bench.pool.reserve(9 * BLOCK).unwrap();
    let keep = bench.on(0, BLOCK / 4);
    let last = bench.work(0);
    bench.free(whole, [last]);
    let half = bench.on(0, BLOCK / 2);
    let distance = half.ptr().checked_offset_from(keep.ptr());
    assert_eq!(
        distance,
        Some(BLOCK / 4),
        "the larger hole, in a Block in use"
    );
    bench.complete(0);
    assert_eq!(
        bench.pool.trim(0),
        BLOCK,
        "it is whole, and complete by now"
    );
    bench.free(keep, []);
    bench.free(half, []);
}

#[test]
fn a_block_that_is_pending_as_a_whole_serves_its_lane_before_the_pool_grows() {
    let mut bench = alone(without_fronts());
    let large = bench.on(0, 6 * BLOCK);
    let last = bench.work(0);
    bench.free(large, [last]);
    let small = bench.on(0, BLOCK);
    assert_eq!(bench.source.held(), 6 * BLOCK);
    assert!(small.wait().is_empty());
    bench.free(small, []);
}

#[test]
fn a_block_that_is_whole_again_goes_back_before_the_pool_grows() {
    let mut bench = alone(without_fronts());
    let most = bench.on(0, 6 * BLOCK);
    bench.free(most, []);
    bench.pool.trim(0);
    let block = bench.on(0, BLOCK);
    bench.free(block, []);
    let large = bench.on(0, 4 * BLOCK);
    assert_eq!(bench.source.held(), 5 * BLOCK, "the first is idle");
    let half = bench.on(0, BLOCK / 2);
    let last = bench.work(0);
    bench.free(half, [last]);
    bench.complete(0);
    // The other half was everyone's, and the lane has all of that now.
    let other = bench.on(0, 2 * BLOCK);
    assert_eq!(bench.source.held(), 6 * BLOCK, "no more than before");
    bench.free(other, []);
    bench.free(large, []);
}

#[test]
fn a_request_that_a_larger_block_was_asked_for_gets_a_part_of_it() {
    let automatic = MemoryPoolConfig {
        exact_blocks: ExactBlocks::Automatic,
        growth_percent: 100,
        ..without_fronts()
    };
    let mut bench = alone(automatic);
    let most = [(); 2].map(|()| bench.on(0, BLOCK));
    let last = bench.work(0);
    for block in most {
        bench.free(block, [last]);
    }
    // Two Blocks are pending, each too small: it shares one with others that is larger than it may have of idle ones.
    let calls = bench.source.calls();
    let larger = bench.on(0, BLOCK + BLOCK / 8);
    assert_eq!(bench.source.calls(), calls + 1);
    let held = bench.source.held();
    assert!(held >= 2 * BLOCK + 2 * larger.rounded_bytes(), "{held}");
    bench.free(larger, []);
    bench.pool.check().unwrap();
}

#[test]
fn a_lane_that_is_not_alone_any_more_shares_what_never_waited_for_anything() {
    let bench = Bench::new(8 * BLOCK, without_fronts());
    let blocks = [(); 3].map(|()| bench.on(0, BLOCK));
    let half = bench.on(1, BLOCK / 2);
    let more = [(); 2].map(|()| bench.on(0, BLOCK));
    for block in blocks {
        bench.free(block, []);
    }
    let misses = bench.pool.stats().misses;
    let taken = bench.on(1, BLOCK);
    assert!(taken.wait().is_empty());
    assert_eq!(bench.pool.stats().misses, misses, "found at the first look");
    for allocation in more.into_iter().chain([half, taken]) {
        bench.free(allocation, []);
    }
}
