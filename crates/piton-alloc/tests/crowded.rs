//! What a pool does that holds more than was ever live while the device is behind.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench};
use piton_alloc::{Allocation, CrossLane, MemoryPoolConfig};
use piton_timeline::Timepoint;

/// What is asked for: so much that a Block has one of them.
const MOST: u64 = BLOCK / 16 * 13;

/// Without fronts: what lies on their shelves is too small to matter to a crowded pool, but these Blocks are small.
fn config() -> MemoryPoolConfig {
    MemoryPoolConfig {
        front_bytes: Some(0),
        ..bench::config()
    }
}

/// A pool whose lane 0 is handed most of a Block next: its own pending memory has a whole one for it, and what lane 1 used
/// last just fits.
struct Choice {
    bench: Bench,
    /// What lane 1 used last, and when.
    fitting: (u64, Timepoint),
    /// Where lane 0's own memory is.
    own: u64,
    _live: Vec<Allocation>,
}

/// With `blocks` Blocks and one live at first, and two more held in the end.
fn choice(blocks: usize, config: MemoryPoolConfig) -> Choice {
    let mut bench = Bench::new(64 * BLOCK, config);
    let mut live: Vec<Allocation> = (0..blocks).map(|_| bench.on(0, BLOCK)).collect();
    let whole = live.remove(0);
    let (wide, narrow) = (bench.on(1, MOST), bench.on(1, BLOCK - MOST));
    let used = bench.work(1);
    let fitting = (wide.ptr().address(), used);
    // Six Blocks' worth of memory goes, and eight requests leave a part of each: the last two grow the pool.
    for end in live.drain(..6).collect::<Vec<_>>() {
        let used = bench.work(0);
        bench.free(end, [used]);
    }
    live.extend((0..8).map(|_| bench.on(0, MOST)));
    assert_eq!(bench.pool.stats().blocks, blocks as u64 + 3);
    bench.free(wide, [used]);
    let own = whole.ptr().address();
    let used = bench.work(0);
    bench.free(whole, [used]);
    live.push(narrow);
    Choice {
        bench,
        fitting,
        own,
        _live: live,
    }
}

#[test]
fn a_crowded_pool_takes_the_place_that_fits_with_a_wait_for_whoever_used_it() {
    let choice = choice(16, config());
    let (place, used) = choice.fitting;
    let taken = choice.bench.on(0, MOST);
    assert_eq!(taken.ptr().address(), place);
    assert_eq!(taken.wait().points(), [used]);
    choice.bench.pool.check().unwrap();
}

#[test]
fn a_crowded_pool_waits_for_nobody_once_all_is_complete() {
    let choice = choice(16, config());
    choice.bench.complete(0);
    choice.bench.complete(1);
    let taken = choice.bench.on(0, MOST);
    assert!(taken.wait().is_empty());
    choice.bench.pool.check().unwrap();
}

#[test]
fn a_pool_with_room_or_far_too_much_of_it_serves_a_lane_from_its_own_memory() {
    for blocks in [8, 64 - 3] {
        let choice = choice(blocks, config());
        let taken = choice.bench.on(0, MOST);
        assert_eq!(taken.ptr().address(), choice.own, "{blocks} Blocks");
        assert!(taken.wait().is_empty());
    }
}

#[test]
fn waits_that_are_kept_for_a_full_pool_are_not_spent_on_a_crowded_one() {
    for cross_lane in [CrossLane::WaitWhenFull, CrossLane::Never] {
        let config = MemoryPoolConfig {
            cross_lane,
            ..config()
        };
        let taken = choice(16, config).bench.on(0, MOST);
        assert!(taken.wait().is_empty());
    }
}
