//! Large requests have Blocks of their size, or share one where sizes change too much for that.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench, config};
use piton_alloc::{Allocation, ExactBlocks, MemoryPoolConfig, PoolStats};
use source::GRANULE;

#[test]
fn large_requests_get_blocks_of_their_size() {
    let exact = MemoryPoolConfig {
        exact_blocks: ExactBlocks::From(2 * BLOCK),
        growth_percent: 100,
        ..config()
    };
    let bench = Bench::new(64 * BLOCK, exact);
    let _large = bench.on(0, 10 * BLOCK + 1);
    assert_eq!(bench.source.held(), 10 * BLOCK + GRANULE);
    let _filler = bench.on(0, GRANULE);
    let _small = bench.on(0, GRANULE);
    assert_eq!(bench.source.held(), 2 * (10 * BLOCK + GRANULE));
}

/// Eight sequences that grow step by step, each by a larger piece of memory for the one before; nothing is seen to end of what
/// the lane did with it, or all.
fn sequences_that_grow(exact_blocks: ExactBlocks, growth_percent: u32, is_seen: bool) -> PoolStats {
    let growing = MemoryPoolConfig {
        exact_blocks,
        growth_percent,
        ..config()
    };
    let mut bench = Bench::new(4096 * BLOCK, growing);
    let mut sequences: Vec<Allocation> = (0..8).map(|_| bench.on(0, BLOCK)).collect();
    for step in 1..64 {
        for sequence in &mut sequences {
            let longer = bench.on(0, BLOCK + step * BLOCK / 8);
            let shorter = std::mem::replace(sequence, longer);
            let last = (!is_seen).then(|| bench.work(0));
            bench.free(shorter, last);
        }
    }
    bench.pool.stats()
}

#[test]
fn large_requests_share_blocks_while_a_pile_of_smaller_ones_is_pending() {
    let held = |exact_blocks| {
        let stats = sequences_that_grow(exact_blocks, 2, false);
        stats.peak_held_bytes / stats.peak_live_bytes
    };
    assert!(held(ExactBlocks::Automatic) <= 4);
    assert!(
        held(ExactBlocks::From(BLOCK)) > 20,
        "exact ones are no other's"
    );
}

#[test]
fn large_requests_share_blocks_where_each_size_had_its_own_come_and_go() {
    let calls = |exact_blocks| sequences_that_grow(exact_blocks, 50, true).source_calls();
    let (shared, exact) = (
        calls(ExactBlocks::Automatic),
        calls(ExactBlocks::From(BLOCK)),
    );
    assert!(4 * shared < exact, "{shared} calls, and {exact}");
}
