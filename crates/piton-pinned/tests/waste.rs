//! How much more than it asked for a request gets.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_pinned::{PinnedPool, PinnedPoolConfig};
use piton_timeline::Timeline;
use proptest::prelude::*;

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

fn pool() -> PinnedPool {
    let config = PinnedPoolConfig {
        cap_bytes: 1 << 44,
        ..PinnedPoolConfig::default()
    };
    PinnedPool::new(FakeDevice::new(Ability::default()), Timeline::new(), config).unwrap()
}

#[test]
fn large_requests_cost_a_page_more_at_most_however_large() {
    let pool = pool();
    // Rounded up to powers of two, these would take half as much again.
    let sizes = [140 * MIB + 1, 9 * GIB + 4095, 22 * GIB - 7];
    let blocks = sizes.map(|bytes| pool.allocate(bytes).unwrap());
    let stats = pool.stats();
    let asked: usize = sizes.iter().sum();
    assert_eq!(stats.requested_bytes, asked as u64);
    assert!(stats.live_bytes - stats.requested_bytes < 3 * 4096);
    assert_eq!(stats.held_bytes, stats.live_bytes);
    drop(blocks);
    pool.check().unwrap();
}

#[test]
fn sizes_of_every_scale_get_a_tenth_more_on_average() {
    let pool = pool();
    let (mut asked, mut taken) = (0_f64, 0_f64);
    // The same number of each doubling, each weighing the same.
    for doubling in 10..25 {
        for step in 0..64_usize {
            let bytes = (1 << doubling) + ((step * 2 + 1) << doubling) / 128;
            let block = pool.allocate(bytes).unwrap();
            asked += 1.0;
            taken += block.capacity() as f64 / bytes as f64;
        }
    }
    assert!(taken / asked < 1.11, "{}", taken / asked);
}

#[test]
fn requests_that_grow_leave_no_more_behind_than_they_need() {
    let pool = pool();
    let mut block = pool.allocate(33 * MIB).unwrap();
    for step in 34..80 {
        // As a growing buffer does: the next before the last goes.
        block = pool.allocate(step * MIB).unwrap();
        let held = pool.stats().held_bytes;
        assert!(held < 4 * (step * MIB) as u64, "{held} for {step} MiB");
    }
    drop(block);
    pool.check().unwrap();
}

#[test]
fn small_blocks_that_are_free_are_merged_before_more_is_asked_for() {
    let pool = pool();
    for doubling in 10..20 {
        let blocks: Vec<_> = (0..64 << (20 - doubling))
            .map(|_| pool.allocate(1 << doubling).unwrap())
            .collect();
        drop(blocks);
        pool.flush_thread();
        pool.check().unwrap();
    }
    let held = pool.stats().held_bytes;
    // Ten sizes had 64 MiB each, one after the other.
    assert!(held <= 128 << 20, "{held}");
}

proptest! {
    #[test]
    fn no_request_gets_more_than_a_quarter_more_or_63_bytes(bits in 0_u32..36, part in 0_u64..1 << 36) {
        let bytes = usize::try_from((1 << bits) + part % (1 << bits)).unwrap();
        let pool = pool();
        let block = pool.allocate(bytes).unwrap();
        let slack = usize::try_from(block.capacity()).unwrap() - bytes;
        let bound = if bytes > 32 * MIB { 4095 } else { (bytes / 4).max(63) };
        prop_assert!(slack <= bound, "{} bytes: {} more", bytes, slack);
    }
}
