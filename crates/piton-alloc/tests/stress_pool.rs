//! Threads on lanes of their own, one pool, more wanted than the device has: nobody is given what another holds.

#![cfg(not(loom))]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use piton_alloc::{AllocError, Allocation, DevicePool, MemoryPoolConfig, Request};
use piton_sync::{Mutex, thread};
use piton_timeline::{Frontier, Lane, Timeline};
use source::{Books, GRANULE};

const THREADS: u64 = 4;
const STEPS: u64 = 3_000;
const SNAPSHOTS: u64 = 100;
const CAPACITY: u64 = 64 * GRANULE;

/// Start and end of what is held by some thread.
#[derive(Default)]
struct Held(Mutex<BTreeMap<u64, u64>>);

impl Held {
    fn add(&self, allocation: &Allocation) {
        let start = allocation.ptr().address();
        let end = start + allocation.rounded_bytes();
        let mut held = self.0.lock();
        let below = held.range(..end).next_back();
        let overlaps = below.is_some_and(|(_, &other_end)| other_end > start);
        assert!(!overlaps, "two threads hold {start:#x}");
        held.insert(start, end);
    }

    fn remove(&self, allocation: &Allocation) {
        self.0.lock().remove(&allocation.ptr().address());
    }
}

/// A small generator: the same sizes on every run.
struct Sizes(u64);

impl Sizes {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn work(pool: &DevicePool, held: &Held, lane: &Lane, seed: u64) {
    let mut sizes = Sizes(seed);
    let mut mine: Vec<Allocation> = Vec::new();
    for step in 1..=STEPS {
        // One in two of few sizes, which fronts keep.
        let bytes = match sizes.next(2) {
            0 => 512 * (1 + sizes.next(3)),
            _ => 1 + sizes.next(6 * GRANULE),
        };
        let request = Request::new(bytes).on(lane.id());
        match pool.allocate(request) {
            Ok(allocation) => {
                held.add(&allocation);
                mine.push(allocation);
            }
            Err(AllocError::FullNow(_)) => {}
            Err(error) => panic!("{error}"),
        }
        let used = lane.submit(step);
        while mine.len() > 3 || (sizes.next(3) == 0 && !mine.is_empty()) {
            let allocation = mine.swap_remove(0);
            held.remove(&allocation);
            pool.free(allocation, Frontier::from(used))
                .expect("it is the pool's");
        }
        if sizes.next(8) == 0 {
            lane.complete(step);
        }
        if sizes.next(64) == 0 {
            pool.trim(CAPACITY / 4);
        }
    }
    lane.complete(STEPS);
    for allocation in mine {
        held.remove(&allocation);
        pool.free(allocation, Frontier::new())
            .expect("it is the pool's");
    }
}

/// Whatever happens meanwhile, a Block's chunks cover it.
fn look(pool: &DevicePool) {
    for block in pool.snapshot().blocks {
        let bytes: u64 = block.chunks.iter().map(|chunk| chunk.bytes).sum();
        assert_eq!(bytes, block.range.bytes);
    }
    let stats = pool.stats();
    let sum = stats.live_bytes
        + stats.padding_bytes
        + stats.cached_bytes
        + stats.pending_bytes
        + stats.in_transit_bytes;
    assert_eq!(stats.held_bytes, sum);
}

#[test]
fn threads_never_share_memory_and_leave_nothing_behind() {
    let source = Arc::new(Books::new(CAPACITY));
    let timeline = Timeline::new();
    let config = MemoryPoolConfig {
        block_bytes: Some(8 * GRANULE),
        front_bytes: Some(4 * GRANULE),
        ..MemoryPoolConfig::default()
    };
    let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), &config)
        .expect("a right configuration");
    let held = Held::default();
    thread::scope(|scope| {
        for seed in 1..=THREADS {
            let lane = timeline.register(None).expect("lanes are few");
            let (pool, held) = (&pool, &held);
            scope.spawn(move || work(pool, held, &lane, seed * 0x9E37_79B9));
        }
        scope.spawn(|| (0..SNAPSHOTS).for_each(|_| look(&pool)));
    });
    pool.check().expect("consistent");
    pool.trim(0);
    assert_eq!((pool.stats().live_bytes, source.held()), (0, 0));
}
