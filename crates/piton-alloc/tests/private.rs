//! Private pools: what is in one nobody else gets, and what it gives back is everyone's.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod source;

use std::sync::Arc;

use piton_alloc::{
    AllocError, ConfigError, DevicePool, MemoryPoolConfig, PoolLimit, Request, VirtualAddressing,
};
use piton_timeline::{Frontier, Timeline};
use source::{Books, GRANULE};

const CONFIG: fn() -> MemoryPoolConfig = || MemoryPoolConfig {
    block_bytes: Some(2 * GRANULE),
    virtual_addressing: VirtualAddressing::Off,
    ..MemoryPoolConfig::default()
};

fn pools(capacity: u64) -> (Arc<Timeline>, Vec<Arc<DevicePool>>) {
    let timeline = Timeline::new();
    let pool = |source: Books, addressing| {
        let config = MemoryPoolConfig {
            virtual_addressing: addressing,
            ..MemoryPoolConfig::default()
        };
        Arc::new(DevicePool::new(Arc::new(source), Arc::clone(&timeline), &config).unwrap())
    };
    let pools = vec![
        pool(Books::new(capacity), VirtualAddressing::Off),
        pool(Books::with_pages(capacity), VirtualAddressing::On),
    ];
    (Arc::clone(&timeline), pools)
}

#[test]
fn what_a_private_pool_frees_nobody_else_gets_before_it_is_dropped() {
    let (_timeline, pools) = pools(8 * GRANULE);
    for pool in pools {
        let private = pool.private(&CONFIG()).unwrap();
        assert_eq!(
            pool.stats().live_bytes,
            0,
            "nothing is taken before it is needed"
        );
        let one = private.allocate(Request::new(6 * GRANULE)).unwrap();
        let place = one.ptr();
        private.free(one, Frontier::new()).unwrap();
        let refused = pool.allocate(Request::new(6 * GRANULE));
        assert!(matches!(refused, Err(AllocError::FullNow(_))));
        let again = private.allocate(Request::new(6 * GRANULE)).unwrap();
        assert_eq!(again.ptr(), place, "the same memory from replay to replay");
        private.free(again, Frontier::new()).unwrap();
        private.check().unwrap();
        drop(private);
        assert_eq!(pool.stats().live_bytes, 0);
        let whole = pool.allocate(Request::new(6 * GRANULE)).unwrap();
        pool.free(whole, Frontier::new()).unwrap();
        pool.check().unwrap();
    }
}

#[test]
fn memory_in_use_is_not_given_back_with_its_pool() {
    let (timeline, pools) = pools(8 * GRANULE);
    let lane = timeline.register(None).unwrap();
    for (number, pool) in (1..).zip(pools) {
        let private = pool.private(&CONFIG()).unwrap();
        let block = private
            .allocate(Request::new(2 * GRANULE).on(lane.id()))
            .unwrap();
        let running = lane.submit(number);
        private.free(block, Frontier::from(running)).unwrap();
        // The work that uses it has not ended, so nobody may have its memory.
        drop(private);
        assert_eq!(pool.stats().live_bytes, 2 * GRANULE);
        lane.complete(number);
    }
}

#[test]
fn a_private_pool_has_a_limit_of_its_own_and_ends_where_the_outside_does() {
    let (_timeline, pools) = pools(8 * GRANULE);
    for pool in pools {
        let config = MemoryPoolConfig {
            limit: PoolLimit::Bytes(4 * GRANULE),
            ..CONFIG()
        };
        let private = pool.private(&config).unwrap();
        let refused = private.allocate(Request::new(5 * GRANULE));
        assert!(matches!(refused, Err(AllocError::NeverFits { .. })));
        let taken = pool.allocate(Request::new(7 * GRANULE)).unwrap();
        let refused = private.allocate(Request::new(2 * GRANULE));
        assert!(matches!(refused, Err(AllocError::FullNow(_))));
        pool.free(taken, Frontier::new()).unwrap();
        let granted = private.allocate(Request::new(2 * GRANULE)).unwrap();
        private.free(granted, Frontier::new()).unwrap();
        let pages = MemoryPoolConfig {
            virtual_addressing: VirtualAddressing::On,
            ..MemoryPoolConfig::default()
        };
        let refused = pool.private(&pages);
        assert!(matches!(refused, Err(ConfigError::NoVirtualMemory)));
    }
}
