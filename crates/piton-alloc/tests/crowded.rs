//! What a pool does that holds more than was ever live while the device is behind.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use std::sync::Arc;

use bench::Bench;
use piton_alloc::{Allocation, CrossLane, DevicePool, MemoryPoolConfig, VirtualAddressing};
use piton_timeline::{Timeline, Timepoint};
use source::{Books, GRANULE};

/// Pages that have a lane's name: what lane 0 has for itself, and what lane 1 used last and lane 0 asks for.
const OWN: u64 = 16;
const ASKED: u64 = 13;

/// Without fronts: what lies on their shelves is too small to matter to a crowded pool, but here pages are small.
fn config() -> MemoryPoolConfig {
    MemoryPoolConfig {
        virtual_addressing: VirtualAddressing::On,
        small_below: Some(0),
        front_bytes: Some(0),
        ..MemoryPoolConfig::default()
    }
}

/// A pool whose lane 0 asks for [`ASKED`] pages next: its own pending memory has more for it, and what lane 1 used last
/// just fits.
struct Choice {
    bench: Bench,
    /// What lane 1 used last, and when.
    fitting: (u64, Timepoint),
    /// Where lane 0's own memory is.
    own: u64,
    _live: Vec<Allocation>,
}

/// With `live` pages live at first, one more then, and six more held.
fn choice(live: u64, config: MemoryPoolConfig) -> Choice {
    let mut bench = bench_with_pages(config);
    let on = |bench: &Bench, lane, pages| bench.on(lane, pages * GRANULE);
    let own = on(&bench, 0, OWN);
    let mut others = vec![on(&bench, 0, 1)];
    let fitting = on(&bench, 1, ASKED);
    others.push(on(&bench, 0, 1));
    let ended = on(&bench, 0, 5);
    others.push(on(&bench, 0, 1));
    let ended_too = on(&bench, 1, 1);
    others.push(on(&bench, 0, live - OWN - ASKED - 9));
    let uses = [bench.work(0), bench.work(1)];
    bench.free(ended, [uses[0]]);
    bench.free(ended_too, [uses[1]]);
    // No run has room for it: the pool grows beyond what was ever live.
    others.push(on(&bench, 0, 7));
    assert_eq!(bench.pool.stats().held_bytes, (live + 7) * GRANULE);
    let places = (own.ptr().address(), fitting.ptr().address());
    bench.free(fitting, [uses[1]]);
    bench.free(own, [uses[0]]);
    Choice {
        bench,
        fitting: (places.1, uses[1]),
        own: places.0,
        _live: others,
    }
}

fn bench_with_pages(config: MemoryPoolConfig) -> Bench {
    let source = Arc::new(Books::with_pages(1024 * GRANULE));
    let timeline = Timeline::new();
    let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), &config).unwrap();
    Bench::over(source, timeline, pool)
}

#[test]
fn a_crowded_pool_takes_the_place_that_fits_with_a_wait_for_whoever_used_it() {
    let choice = choice(64, config());
    let (place, used) = choice.fitting;
    let taken = choice.bench.on(0, ASKED * GRANULE);
    assert_eq!(taken.ptr().address(), place);
    assert_eq!(taken.wait().points(), [used]);
    choice.bench.pool.check().unwrap();
}

#[test]
fn a_crowded_pool_waits_for_nobody_once_all_is_complete() {
    let choice = choice(64, config());
    choice.bench.complete(0);
    choice.bench.complete(1);
    let taken = choice.bench.on(0, ASKED * GRANULE);
    assert!(taken.wait().is_empty());
    choice.bench.pool.check().unwrap();
}

#[test]
fn a_pool_with_room_or_far_too_much_of_it_serves_a_lane_from_its_own_memory() {
    for live in [42, 512] {
        let choice = choice(live, config());
        let taken = choice.bench.on(0, ASKED * GRANULE);
        assert_eq!(taken.ptr().address(), choice.own, "{live} pages");
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
        let taken = choice(64, config).bench.on(0, ASKED * GRANULE);
        assert!(taken.wait().is_empty());
    }
}
