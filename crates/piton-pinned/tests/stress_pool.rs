//! Threads that pass blocks to each other while devices use them.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_pinned::{PinnedBlock, PinnedPool, PinnedPoolConfig};
use piton_sync::thread;
use piton_timeline::{Lane, Timeline};
use std::sync::{Arc, mpsc};

const ROUNDS: u64 = 20_000;

/// Allocates, marks and passes on; what it receives it checks and drops under a use of its own lane.
fn work(
    pool: &PinnedPool,
    lane: &Lane,
    mark: u8,
    inbox: &mpsc::Receiver<(u8, PinnedBlock)>,
    outbox: &mpsc::SyncSender<(u8, PinnedBlock)>,
) {
    for round in 1..=ROUNDS {
        let bytes = usize::try_from(1 + round * 37 % 9_000).unwrap();
        if let Ok(mut block) = pool.allocate(bytes) {
            block.try_as_mut_slice().unwrap().fill(mark);
            // A full box drops the block here.
            drop(outbox.try_send((mark, block)));
        }
        if let Ok((mark, block)) = inbox.try_recv() {
            assert!(block.try_as_slice().unwrap().iter().all(|b| *b == mark));
            block.record_read(lane.submit(round));
        }
        if round % 8 == 0 {
            lane.complete(round);
        }
        if round % 500 == 0 {
            pool.trim(0);
        }
    }
    lane.submit(ROUNDS);
    lane.complete(ROUNDS);
}

#[test]
fn blocks_freed_by_other_threads_are_reused_and_accounted_for() {
    let device = FakeDevice::new(Ability::default());
    let timeline = Timeline::new();
    let config = PinnedPoolConfig {
        cap_bytes: 1 << 20,
        slab_bytes: 64 << 10,
        large_above_bytes: 8 << 10,
        queue_blocks: 2,
        ..PinnedPoolConfig::default()
    };
    let pool = PinnedPool::new(device.clone(), Arc::clone(&timeline), config).unwrap();
    let (to_first, first) = mpsc::sync_channel(8);
    let (to_second, second) = mpsc::sync_channel(8);
    thread::scope(|scope| {
        let boxes = [(1, first, to_second), (2, second, to_first)];
        let threads = boxes.map(|(mark, inbox, outbox)| {
            let lane = timeline.register(None).unwrap();
            let pool = pool.clone();
            scope.spawn(move || work(&pool, &lane, mark, &inbox, &outbox))
        });
        // A scope ends before its threads have given back what they kept; a join does not.
        for thread in threads {
            thread.join().unwrap();
        }
    });
    pool.collect();
    pool.check().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live_blocks, stats.pending_blocks), (0, 0));
    assert!(stats.hits > stats.misses);
    assert_eq!(pool.trim(0), stats.held_bytes);
    assert_eq!(device.allocated_bytes(), 0);
}
