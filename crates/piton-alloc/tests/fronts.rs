//! What a lane freed last is at hand for it, and a pool of one owner needs no lock: one example each.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench, config};
use piton_alloc::{AllocError, Allocation, MemoryPoolConfig, OwnedPool, PoolLimit, Request};
use piton_driver::DevicePtr;
use piton_timeline::Frontier;

#[test]
fn what_a_lane_freed_is_its_own_first_and_everyones_before_the_pool_grows() {
    let config = MemoryPoolConfig {
        front_bytes: Some(BLOCK),
        limit: PoolLimit::Bytes(BLOCK),
        ..config()
    };
    let mut bench = Bench::new(2 * BLOCK, config);
    let chunks: Vec<Allocation> = (0..16).map(|_| bench.on(0, BLOCK / 16)).collect();
    let ptrs: Vec<DevicePtr> = chunks.iter().map(Allocation::ptr).collect();
    let last = bench.work(0);
    for chunk in chunks {
        bench.free(chunk, [last]);
    }
    bench.pool.check().unwrap();
    assert_eq!(
        (
            bench.pool.stats().pending_bytes,
            bench.pool.stats().live_bytes
        ),
        (BLOCK, 0)
    );
    assert_eq!(bench.pool.lookup(ptrs[15]), None);
    let again = bench.on(0, BLOCK / 16);
    assert_eq!((again.ptr(), again.wait().is_empty()), (ptrs[15], true));
    bench.free(again, []);
    let all = bench.on(1, BLOCK);
    assert_eq!(all.wait().points(), [last]);
    assert_eq!(bench.pool.stats().block_allocations, 1);
    bench.pool.check().unwrap();
    bench.free(all, []);
}

#[test]
fn a_chunk_from_a_front_keeps_the_use_it_came_with() {
    let config = MemoryPoolConfig {
        front_bytes: Some(BLOCK),
        ..config()
    };
    let mut bench = Bench::new(BLOCK, config);
    let last = bench.work(0);
    for _ in 0..3 {
        let chunk = bench.on(0, 1000);
        bench.free(chunk, [last]);
    }
    // Taken and given back unused: the use before it still counts.
    let chunk = bench.on(0, 1000);
    bench.free(chunk, []);
    assert_eq!(bench.on(1, BLOCK).wait().points(), [last]);
}

#[test]
fn a_pool_of_one_owner_does_what_the_shared_one_does() {
    let bench = Bench::new(2 * BLOCK, config());
    let lane = bench.lanes[0].id();
    let mut pool = OwnedPool::from(bench.pool);
    let first = pool.allocate(Request::new(1000).on(lane)).unwrap();
    let ptr = first.ptr();
    let point = bench.lanes[0].submit(1);
    pool.free(first, Frontier::from(point)).unwrap();
    let again = pool.allocate(Request::new(1000).on(lane)).unwrap();
    assert_eq!((again.ptr(), pool.stats().hits), (ptr, 1));
    let other = pool.allocate(Request::new(BLOCK + 1)).unwrap_err();
    assert!(matches!(other, AllocError::FullNow(_)));
    pool.check().unwrap();
    let shared = pool.into_shared();
    shared.free(again, Frontier::new()).unwrap();
    shared.check().unwrap();
}
