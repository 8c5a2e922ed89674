//! Memory asked for ahead of need, and given back when nobody needs it.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_driver::ErrorKind;
use piton_pinned::{PinnedError, PinnedPool, PinnedPoolConfig, Tended};
use piton_sync::thread;
use piton_timeline::Timeline;
use std::{sync::Arc, time::Duration};

const SLAB: u64 = 64 << 10;
const NEVER: Duration = Duration::from_secs(1 << 40);

fn config() -> PinnedPoolConfig {
    PinnedPoolConfig {
        cap_bytes: 8 * SLAB,
        slab_bytes: SLAB,
        large_above_bytes: SLAB / 4,
        decay_rounds: 3,
        magazine_bytes: 0,
        ..PinnedPoolConfig::default()
    }
}

fn pool(config: PinnedPoolConfig) -> (Arc<FakeDevice>, PinnedPool) {
    let device = FakeDevice::new(Ability::default());
    let pool = PinnedPool::new(device.clone(), Timeline::new(), config).unwrap();
    (device, pool)
}

/// Rounds until one gives memory back; what it gave, and how many came before it.
fn rounds_until_released(pool: &PinnedPool) -> (u64, usize) {
    for round in 0..20 {
        let tended = pool.tend().unwrap();
        pool.check().unwrap();
        if tended.released_bytes > 0 {
            return (tended.released_bytes, round);
        }
    }
    panic!("nothing was given back");
}

#[test]
fn memory_goes_back_after_as_many_rounds_without_need_as_configured() {
    let (device, pool) = pool(config());
    drop(pool.allocate(1000).unwrap());
    drop(pool.allocate(40_000).unwrap());
    // The large region is unused from the first round on; the small block first has to leave its depot.
    assert_eq!(rounds_until_released(&pool), (40_960, 2));
    assert_eq!(rounds_until_released(&pool).0, SLAB);
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn memory_that_is_needed_every_round_stays() {
    let (_device, pool) = pool(config());
    for _ in 0..20 {
        drop(pool.allocate(40_000).unwrap());
        drop(pool.allocate(1000).unwrap());
        assert_eq!(pool.tend(), Ok(Tended::default()));
    }
    assert_eq!(pool.stats().driver_allocations, 2);
}

#[test]
fn what_is_to_be_kept_is_kept_however_old() {
    let config = PinnedPoolConfig {
        keep_bytes: 2 * SLAB,
        ..config()
    };
    let (_device, pool) = pool(config);
    let blocks: Vec<_> = (0..3).map(|_| pool.allocate(60_000).unwrap()).collect();
    drop(blocks);
    for _ in 0..20 {
        pool.tend().unwrap();
    }
    let held = pool.stats().held_bytes;
    assert!((2 * SLAB..3 * SLAB).contains(&held), "{held}");
}

#[test]
fn nothing_goes_back_while_a_block_is_pending() {
    let device = FakeDevice::new(Ability::default());
    let timeline = Timeline::new();
    let pool = PinnedPool::new(device.clone(), timeline.clone(), config()).unwrap();
    let lane = timeline.register(None).unwrap();
    let block = pool.allocate(1000).unwrap();
    block.record_read(lane.submit(1));
    drop(block);
    for _ in 0..20 {
        assert_eq!(pool.tend(), Ok(Tended::default()));
    }
    assert_eq!(device.allocated_bytes(), SLAB);
}

#[test]
fn a_round_sees_to_memory_being_ready_up_to_the_cap() {
    let config = PinnedPoolConfig {
        ahead_bytes: 3 * SLAB / 2,
        ..config()
    };
    let (device, pool) = pool(config);
    assert_eq!(pool.tend().unwrap().grown_bytes, 2 * SLAB);
    // What is to be ready does not go back for want of need.
    for _ in 0..20 {
        assert_eq!(pool.tend(), Ok(Tended::default()));
    }
    let block = pool.allocate(16_000).unwrap();
    assert_eq!(pool.stats().misses, 0, "it was ready");
    drop(block);
    let _all: Vec<_> = std::iter::from_fn(|| pool.allocate(16_384).ok()).collect();
    assert_eq!(
        pool.tend(),
        Ok(Tended::default()),
        "the cap is nobody's error"
    );
    assert_eq!(device.allocated_bytes(), 8 * SLAB);
    pool.check().unwrap();
}

#[test]
fn a_refusal_ahead_of_need_is_told_and_changes_nothing() {
    let config = PinnedPoolConfig {
        ahead_bytes: SLAB,
        ..config()
    };
    let (device, pool) = pool(config);
    device.fail_at(1);
    let refused = pool.tend().unwrap_err();
    assert!(
        matches!(refused, PinnedError::Driver(error) if error.kind == ErrorKind::Injected { call: 1 })
    );
    pool.check().unwrap();
    assert_eq!(pool.tend().unwrap().grown_bytes, SLAB);
}

#[test]
fn a_keeper_that_is_called_has_memory_ready() {
    let config = PinnedPoolConfig {
        ahead_bytes: SLAB,
        ..config()
    };
    let (device, pool) = pool(config);
    let keeper = pool.keeper(NEVER).unwrap();
    // Cuts one block after the other until less than half is uncut: then the keeper asks for a second slab.
    let _blocks: Vec<_> = (0..5).map(|_| pool.allocate(12_000).unwrap()).collect();
    device.wait_for_allocations(2);
    keeper.stop();
    assert_eq!(pool.stats().misses, 1);
    assert_eq!(device.allocated_bytes(), 2 * SLAB);
    pool.check().unwrap();
}

#[test]
fn a_keeper_keeps_no_pool_open() {
    let (device, pool) = pool(config());
    let keeper = pool.keeper(NEVER).unwrap();
    drop(pool.allocate(1000).unwrap());
    drop(pool);
    keeper.stop();
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn the_first_gibibyte_holds_nobody_up_however_long_the_driver_takes() {
    const LARGE: usize = 1 << 30;
    let config = PinnedPoolConfig {
        cap_bytes: 2 << 30,
        ..config()
    };
    let (device, timeline) = (FakeDevice::new(Ability::default()), Timeline::new());
    let pool = PinnedPool::new(device.clone(), timeline.clone(), config).unwrap();
    let lane = timeline.register(None).unwrap();
    drop(pool.allocate(1000).unwrap());
    device.hold();
    // What others do is over before the driver answers: the answer is only given then.
    thread::scope(|scope| {
        let long = scope.spawn(|| pool.allocate(LARGE).unwrap().bytes());
        device.wait_for_held();
        // From what was free, and from what is not cut yet; dropped, and dropped under a device.
        for number in 1..100 {
            let blocks: Vec<_> = (0..20).map(|_| pool.allocate(1000).unwrap()).collect();
            blocks[0].record_read(lane.submit(number));
            drop(blocks);
            lane.complete(number);
            pool.collect();
        }
        let other = scope.spawn(|| pool.allocate(500).unwrap().bytes());
        assert_eq!(other.join().unwrap(), 500);
        drop(pool.register(vec![1_u8; 100]).unwrap());
        pool.stats();
        pool.trim(0);
        assert!(!long.is_finished());
        device.release();
        assert_eq!(long.join().unwrap(), LARGE);
    });
    pool.check().unwrap();
}

#[test]
fn settings_of_rounds_that_cannot_take_effect_are_refused() {
    let with = |change: fn(&mut PinnedPoolConfig)| {
        let mut config = config();
        change(&mut config);
        config.validate()
    };
    let (given, cap) = (8 * SLAB + 1, 8 * SLAB);
    let above = Err(PinnedError::AboveCap { given, cap });
    assert_eq!(with(|config| config.ahead_bytes = 8 * SLAB + 1), above);
    assert_eq!(with(|config| config.keep_bytes = 8 * SLAB + 1), above);
    let decay = with(|config| config.decay_rounds = 0);
    assert_eq!(decay, Err(PinnedError::InvalidDecay));
}
