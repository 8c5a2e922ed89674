//! What threads keep of the pool, and what becomes of it.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_pinned::{PinnedPool, PinnedPoolConfig, PinnedThreadStats};
use piton_sync::{heavy_fence, thread};
use piton_timeline::Timeline;
use std::sync::{Arc, mpsc};

const SLAB: u64 = 64 << 10;

fn pool() -> (Arc<FakeDevice>, PinnedPool) {
    let device = FakeDevice::new(Ability::default());
    let config = PinnedPoolConfig {
        cap_bytes: 8 * SLAB,
        slab_bytes: SLAB,
        large_above_bytes: SLAB / 4,
        ..PinnedPoolConfig::default()
    };
    let pool = PinnedPool::new(device.clone(), Timeline::new(), config).unwrap();
    (device, pool)
}

/// Takes `count` blocks and drops them, so that the thread keeps some.
fn fill(pool: &PinnedPool, count: usize) {
    let blocks: Vec<_> = (0..count).map(|_| pool.allocate(500).unwrap()).collect();
    drop(blocks);
}

#[test]
fn a_thread_that_ends_gives_back_what_it_kept() {
    let (_device, pool) = pool();
    let theirs = pool.clone();
    thread::spawn(move || fill(&theirs, 100)).join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.threads, stats.thread_bytes), (0, 0));
    assert_eq!(
        (stats.cuts + stats.misses, stats.cached_bytes),
        (100, 100 * 512)
    );
    fill(&pool, 100);
    assert_eq!(pool.stats().cuts, stats.cuts);
    assert_eq!(pool.stats().hits, 100);
    pool.check().unwrap();
}

/// Whether what an idle thread keeps can be had: the system knows the fence that it takes.
#[expect(clippy::print_stdout, reason = "a test without ground says so")]
fn has_fence() -> bool {
    let has = heavy_fence();
    if !has {
        println!("skipped: the system has no membarrier");
    }
    has
}

#[test]
fn what_an_idle_thread_keeps_is_counted_and_can_be_had() {
    let (device, pool) = pool();
    let (to_main, main) = mpsc::channel();
    let (to_thread, inbox) = mpsc::channel::<()>();
    let theirs = pool.clone();
    let thread = thread::spawn(move || {
        fill(&theirs, 20);
        to_main.send(()).unwrap();
        inbox.recv().unwrap();
        let again = theirs.allocate(500).unwrap();
        drop(theirs.allocate(64).unwrap());
        drop(again);
        to_main.send(()).unwrap();
        inbox.recv().unwrap();
    });
    main.recv().unwrap();
    assert_eq!(pool.stats().thread_bytes, 20 * 512);
    if has_fence() {
        assert_eq!(pool.trim(0), SLAB);
        assert_eq!(device.allocated_bytes(), 0);
        assert_eq!(pool.stats().thread_bytes, 0);
        pool.check().unwrap();
    }
    to_thread.send(()).unwrap();
    main.recv().unwrap();
    assert_eq!(pool.stats().live_blocks, 0);
    pool.check().unwrap();
    to_thread.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(pool.trim(0), SLAB);
}

#[test]
fn what_idle_threads_keep_serves_others_before_the_driver_is_asked() {
    let (device, pool) = pool();
    let (to_main, main) = mpsc::channel();
    let (to_thread, inbox) = mpsc::channel::<()>();
    let theirs = pool.clone();
    let thread = thread::spawn(move || {
        fill(&theirs, 100);
        to_main.send(()).unwrap();
        inbox.recv().unwrap();
    });
    main.recv().unwrap();
    let block = pool.allocate(14_000).unwrap();
    if has_fence() {
        assert_eq!(device.allocated_bytes(), SLAB);
    }
    drop(block);
    to_thread.send(()).unwrap();
    thread.join().unwrap();
    pool.check().unwrap();
}

#[test]
fn a_thread_gives_up_what_it_keeps_when_asked() {
    let (_device, pool) = pool();
    fill(&pool, 20);
    assert_eq!(pool.stats().thread_bytes, 20 * 512);
    pool.flush_thread();
    assert_eq!(pool.stats().thread_bytes, 0);
    assert_eq!(pool.stats().cached_bytes, 20 * 512);
    pool.check().unwrap();
}

#[test]
fn a_block_may_be_dropped_after_its_pool_by_a_thread_that_never_knew_it() {
    let (device, pool) = pool();
    fill(&pool, 20);
    let block = pool.allocate(500).unwrap();
    drop(pool);
    assert_eq!(device.allocated_bytes(), SLAB);
    thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn what_a_thread_keeps_of_a_pool_that_is_gone_goes_at_once_or_with_the_thread() {
    let (device, pool) = pool();
    let (to_main, main) = mpsc::channel();
    let (to_thread, inbox) = mpsc::channel::<()>();
    let theirs = pool.clone();
    let thread = thread::spawn(move || {
        fill(&theirs, 20);
        drop(theirs);
        to_main.send(()).unwrap();
        inbox.recv().unwrap();
    });
    main.recv().unwrap();
    drop(pool);
    if has_fence() {
        assert_eq!(device.allocated_bytes(), 0);
    }
    to_thread.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn what_a_thread_keeps_of_a_pool_that_is_gone_goes_when_it_meets_another() {
    let (device, first) = pool();
    let (other_device, second) = pool();
    let (to_main, main) = mpsc::channel();
    let (to_thread, inbox) = mpsc::channel::<()>();
    let theirs = first.clone();
    let thread = thread::spawn(move || {
        fill(&theirs, 20);
        drop(theirs);
        to_main.send(()).unwrap();
        inbox.recv().unwrap();
        fill(&second, 1);
        second
    });
    main.recv().unwrap();
    drop(first);
    to_thread.send(()).unwrap();
    let second = thread.join().unwrap();
    assert_eq!(device.allocated_bytes(), 0);
    drop(second);
    assert_eq!(other_device.allocated_bytes(), 0);
}

#[test]
fn a_thread_may_use_many_pools_at_once() {
    let pools: Vec<_> = (0..5).map(|_| pool()).collect();
    for round in 0..40 {
        let (_, pool) = &pools[round * 3 % pools.len()];
        fill(pool, 1 + round);
    }
    for (device, pool) in pools {
        assert_eq!(pool.stats().live_blocks, 0);
        pool.check().unwrap();
        drop(pool);
        assert_eq!(device.allocated_bytes(), 0);
    }
}

#[test]
fn two_threads_that_keep_none_share_what_there_is() {
    let device = FakeDevice::new(Ability::default());
    let config = PinnedPoolConfig {
        cap_bytes: SLAB,
        slab_bytes: SLAB,
        large_above_bytes: SLAB / 4,
        magazine_bytes: 0,
        ..PinnedPoolConfig::default()
    };
    let pool = PinnedPool::new(device, Timeline::new(), config).unwrap();
    fill(&pool, 100);
    assert_eq!(pool.stats().thread_bytes, 0);
    let theirs = pool.clone();
    thread::spawn(move || fill(&theirs, 100)).join().unwrap();
    assert_eq!(pool.stats().hits, 100);
    pool.check().unwrap();
}

#[test]
fn the_numbers_of_a_thread_say_what_it_took_dropped_and_keeps() {
    let (_device, pool) = pool();
    fill(&pool, 10);
    let blocks: Vec<_> = (0..5).map(|_| pool.allocate(500).unwrap()).collect();
    let exact = pool.allocate(20_000).unwrap();
    let (to_main, main) = mpsc::channel();
    let (to_thread, inbox) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        drop(blocks);
        to_main.send(()).unwrap();
        inbox.recv().unwrap();
    });
    main.recv().unwrap();
    let numbers = |handed_out, taken_back, kept_blocks| PinnedThreadStats {
        handed_out,
        taken_back,
        kept_blocks,
        kept_bytes: 512 * kept_blocks,
    };
    assert_eq!(pool.thread_stats(), [numbers(16, 10, 5), numbers(0, 5, 5)]);
    to_thread.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(pool.thread_stats(), [numbers(16, 10, 5)]);
    drop(exact);
    assert_eq!(pool.thread_stats(), [numbers(16, 11, 5)]);
}
