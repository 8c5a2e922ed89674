//! How often lanes are asked how far they are: by a request that finds nothing at once, each a few times, however much is
//! pending there.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bench::{BLOCK, Bench, config};
use piton_alloc::{Allocation, DevicePool, MemoryPoolConfig, PoolLimit, Request};
use piton_timeline::{Frontier, Lane, Progress, Timeline};
use source::Books;

/// Work of which nothing ends, and how often that was asked.
#[derive(Default)]
struct Asked(AtomicU64);

impl Progress for Asked {
    fn completed(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        0
    }
}

const PIECES: u64 = 64;

#[test]
fn a_miss_asks_each_lane_a_few_times_and_not_for_each_piece_of_its_memory() {
    let limited = MemoryPoolConfig {
        limit: PoolLimit::Bytes(BLOCK),
        front_bytes: Some(0),
        ..config()
    };
    let (source, timeline) = (Arc::new(Books::new(BLOCK)), Timeline::new());
    let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), &limited).unwrap();
    let mut bench = Bench::over(source, Arc::clone(&timeline), pool);
    let asked = [(); 2].map(|()| Arc::new(Asked::default()));
    let lanes: [Lane; 2] = [0, 1].map(|lane: usize| {
        let progress: Arc<dyn Progress> = asked[lane].clone();
        timeline.register(Some(progress)).unwrap()
    });
    // Every other piece goes: on one lane, or on both.
    let pieces: Vec<Allocation> = (0..PIECES).map(|_| bench.on(0, BLOCK / PIECES)).collect();
    let uses = lanes.each_ref().map(|lane| lane.submit(1));
    let _done = bench.work(0);
    bench.complete(0);
    let mut kept = Vec::new();
    for (piece, number) in pieces.into_iter().zip(0..) {
        match number % 4 {
            0 => bench.free(piece, [uses[0]]),
            2 => bench.free(piece, uses),
            _ => kept.push(piece),
        }
    }
    let before = asked.each_ref().map(|lane| lane.0.load(Ordering::Relaxed));
    let full = bench.full_now(Request::new(BLOCK / PIECES * 2).on(bench.lanes[1].id()));
    assert_eq!(full.pending, BLOCK / 2);
    for (lane, before) in asked.iter().zip(before) {
        let times = lane.0.load(Ordering::Relaxed) - before;
        assert!((1..=8).contains(&times), "{times} times");
    }
    for piece in kept {
        bench.pool.free(piece, Frontier::new()).unwrap();
    }
}
