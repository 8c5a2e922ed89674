//! Memory reserved at the start: what follows asks the source for nothing.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod source;

use std::collections::VecDeque;
use std::sync::Arc;

use piton_alloc::{AllocError, DevicePool, MemoryPoolConfig, PoolLimit, Request};
use piton_timeline::{Frontier, Timeline};
use source::{Books, GRANULE};

const CAPACITY: u64 = 1024 * GRANULE;

fn pool(source: Books) -> (Arc<Books>, DevicePool) {
    let source = Arc::new(source);
    let config = MemoryPoolConfig {
        limit: PoolLimit::Bytes(CAPACITY / 2),
        ..MemoryPoolConfig::default()
    };
    let pool = DevicePool::new(source.clone(), Timeline::new(), &config).unwrap();
    (source, pool)
}

/// A loop of large and small requests, some tens of them live at a time.
fn run_loop(pool: &DevicePool) {
    let mut live = VecDeque::new();
    for round in 0..2000_u64 {
        let bytes = [100, 3 * GRANULE, 700, 2 * GRANULE + 1, 5000][(round % 5) as usize];
        live.push_back(pool.allocate(Request::new(bytes)).unwrap());
        if live.len() > 60 {
            pool.free(live.pop_front().unwrap(), Frontier::new())
                .unwrap();
        }
        if round % 100 == 0 {
            pool.check().unwrap();
        }
    }
    for allocation in live {
        pool.free(allocation, Frontier::new()).unwrap();
    }
}

#[test]
fn a_loop_within_its_reserve_asks_the_source_for_nothing() {
    for source in [Books::new(CAPACITY), Books::with_pages(CAPACITY)] {
        let (source, pool) = pool(source);
        assert_eq!(pool.reserve(300 * GRANULE).unwrap(), 300 * GRANULE);
        pool.check().unwrap();
        let calls = source.calls();
        run_loop(&pool);
        assert_eq!(source.calls(), calls);
        assert_eq!(pool.reserve(100 * GRANULE).unwrap(), 300 * GRANULE);
        assert_eq!(source.calls(), calls);
    }
}

#[test]
fn more_is_never_reserved_than_the_limit_allows() {
    for source in [Books::new(CAPACITY), Books::with_pages(CAPACITY)] {
        let (source, pool) = pool(source);
        let refused = pool.reserve(513 * GRANULE).unwrap_err();
        assert!(matches!(refused, AllocError::NeverFits { .. }), "{refused}");
        let kept = pool.allocate(Request::new(10 * GRANULE)).unwrap();
        assert_eq!(pool.reserve(512 * GRANULE).unwrap(), 512 * GRANULE);
        assert_eq!(source.held(), 512 * GRANULE);
        pool.free(kept, Frontier::new()).unwrap();
        pool.check().unwrap();
    }
}

#[test]
fn a_reserve_that_the_source_refuses_leaves_the_pool_whole() {
    for source in [Books::new(CAPACITY), Books::with_pages(CAPACITY)] {
        let (source, pool) = pool(source);
        for call in 1..6 {
            source.fail_call(call);
            pool.reserve((50 + call) * GRANULE).ok();
            source.fail_no_call();
            pool.check().unwrap();
            assert_eq!(pool.stats().held_bytes, source.held());
        }
        pool.trim(0);
        assert_eq!(source.held(), 0);
    }
}
