//! How long a lane keeps what it freed.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench, config};
use piton_alloc::{MemoryPoolConfig, Request};

#[test]
fn what_a_lane_kept_is_everyones_as_soon_as_another_asks() {
    let without_fronts = MemoryPoolConfig {
        front_bytes: Some(0),
        ..config()
    };
    let mut bench = Bench::new(8 * BLOCK, without_fronts);
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
