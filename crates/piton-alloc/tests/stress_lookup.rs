//! Threads that look addresses up while others allocate and free: what stays is always found, and no answer is made up.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod source;

use std::sync::Arc;

use piton_alloc::{AddressLookup, Allocation, DevicePool, MemoryPoolConfig, Request, Tag};
use piton_driver::DevicePtr;
use piton_sync::thread;
use piton_timeline::{Frontier, Lane, Timeline};
use source::{Books, GRANULE};

const STEPS: u64 = 2_000;
const CAPACITY: u64 = 256 * GRANULE;

/// A small generator: the same numbers on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The tag says the size, so that an answer put together from two allocations is seen.
fn take(pool: &DevicePool, lane: &Lane, bytes: u64) -> Option<Allocation> {
    let tag = Tag(u32::try_from(bytes).unwrap());
    let request = Request::new(bytes).on(lane.id()).tagged(tag);
    pool.allocate(request).ok()
}

fn come_and_go(pool: &DevicePool, lane: &Lane, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut mine: Vec<Allocation> = Vec::new();
    for step in 1..=STEPS {
        // Few sizes, which fronts keep, and many, which the index merges and splits.
        let bytes = match numbers.below(2) {
            0 => 512 * (1 + numbers.below(3)),
            _ => 1 + numbers.below(8 * GRANULE),
        };
        mine.extend(take(pool, lane, bytes));
        if mine.len() > 12 {
            let at = usize::try_from(numbers.below(12)).unwrap();
            let gone = mine.swap_remove(at);
            let last_use = Frontier::from(lane.submit(step));
            lane.complete(step);
            pool.free(gone, last_use).unwrap();
        }
        for own in &mine {
            let found = pool.lookup(own.ptr()).unwrap();
            assert_eq!((found.id, found.bytes), (own.id(), own.bytes()));
        }
    }
    for own in mine {
        pool.free(own, Frontier::new()).unwrap();
    }
}

fn look(pool: &DevicePool, stay: &[Allocation], seed: u64) {
    let mut numbers = Numbers(seed);
    let (low, high) = (stay[0].ptr().address(), CAPACITY);
    for step in 0..5 * STEPS {
        let one = &stay[usize::try_from(step).unwrap() % stay.len()];
        let inside = one.ptr().checked_add(numbers.below(one.bytes())).unwrap();
        let found = pool.lookup(inside).unwrap();
        assert_eq!((found.id, found.ptr), (one.id(), one.ptr()));
        assert_eq!((found.lane, found.tag), (one.lane(), one.tag()));
        let anywhere = DevicePtr::new(low + numbers.below(high));
        if let Some(found) = pool.lookup(anywhere) {
            assert_eq!(found.tag, Some(Tag(u32::try_from(found.bytes).unwrap())));
            assert!(found.offset < found.rounded_bytes);
            assert_eq!(found.ptr.checked_add(found.offset), Some(anywhere));
        }
    }
}

fn run(source: Books) {
    let timeline = Timeline::new();
    let lanes: Vec<Lane> = (0..3).map(|_| timeline.register(None).unwrap()).collect();
    let config = MemoryPoolConfig {
        address_lookup: AddressLookup::Tables,
        ..MemoryPoolConfig::default()
    };
    let pool = DevicePool::new(Arc::new(source), timeline, &config).unwrap();
    let stay: Vec<Allocation> = (1..9)
        .filter_map(|number| take(&pool, &lanes[2], number * 3000))
        .collect();
    thread::scope(|scope| {
        let (pool, stay) = (&pool, &stay);
        for (lane, seed) in lanes[..2].iter().zip(1..) {
            scope.spawn(move || come_and_go(pool, lane, seed));
        }
        for seed in 11..13 {
            scope.spawn(move || look(pool, stay, seed));
        }
    });
    pool.check().unwrap();
    for one in stay {
        pool.free(one, Frontier::new()).unwrap();
    }
    assert_eq!(pool.stats().allocations, 0);
}

#[test]
fn what_stays_is_found_while_others_come_and_go_in_blocks() {
    run(Books::new(CAPACITY));
}

#[test]
fn what_stays_is_found_while_others_come_and_go_where_pages_are_mapped() {
    run(Books::with_pages(CAPACITY));
}
