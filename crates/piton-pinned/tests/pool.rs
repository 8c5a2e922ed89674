//! What a program sees of the pool, case by case.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_driver::{ErrorKind, Locking};
use piton_pinned::{Leftovers, PinnedError, PinnedPool, PinnedPoolConfig};
use piton_timeline::{Frontier, Lane, Timeline};
use std::sync::Arc;

const SLAB: u64 = 64 << 10;

struct Bench {
    device: Arc<FakeDevice>,
    timeline: Arc<Timeline>,
    lane: Lane,
    pool: PinnedPool,
}

fn config() -> PinnedPoolConfig {
    PinnedPoolConfig {
        cap_bytes: 4 * SLAB,
        slab_bytes: SLAB,
        large_above_bytes: SLAB / 4,
        ..PinnedPoolConfig::default()
    }
}

fn bench(ability: Ability, config: PinnedPoolConfig) -> Bench {
    let device = FakeDevice::new(ability);
    let timeline = Timeline::new();
    let pool = PinnedPool::new(device.clone(), timeline.clone(), config).unwrap();
    Bench {
        device,
        lane: timeline.register(None).unwrap(),
        timeline,
        pool,
    }
}

fn plain() -> Bench {
    bench(Ability::default(), config())
}

#[test]
fn a_device_without_host_memory_has_no_pool() {
    let device = FakeDevice::new(Ability {
        has_host_memory: false,
        ..Ability::default()
    });
    let refused = PinnedPool::new(device, Timeline::new(), config()).unwrap_err();
    assert!(matches!(refused, PinnedError::NoHostMemory { device } if device.0 == 7));
}

#[test]
fn a_setting_that_cannot_take_effect_is_refused_with_its_numbers() {
    let refusal = |change: fn(&mut PinnedPoolConfig)| {
        let mut config = config();
        change(&mut config);
        config.validate().unwrap_err()
    };
    for slab in [0, 4095, u64::MAX, 2 << 30] {
        let config = PinnedPoolConfig {
            slab_bytes: slab,
            ..config()
        };
        let refused = config.validate().unwrap_err();
        assert!(matches!(refused, PinnedError::InvalidSlab { given, .. } if given == slab));
    }
    assert_eq!(
        refusal(|config| config.large_above_bytes = (1 << 30) + 1),
        PinnedError::InvalidLargeThreshold {
            given: (1 << 30) + 1,
            minimum: 64,
            maximum: 1 << 30,
        }
    );
    assert!(matches!(
        refusal(|config| config.large_above_bytes = 0),
        PinnedError::InvalidLargeThreshold { given: 0, .. }
    ));
    assert!(matches!(
        refusal(|config| config.queue_blocks = 0),
        PinnedError::InvalidQueue { given: 0, .. }
    ));
    assert_eq!(
        refusal(|config| config.cap_bytes = SLAB - 1),
        PinnedError::CapBelowSlab {
            cap: SLAB - 1,
            slab: SLAB,
        }
    );
    assert_eq!(PinnedPoolConfig::default().validate(), Ok(()));
    assert_eq!(config().validate(), Ok(()));
}

#[test]
fn impossible_sizes_and_alignments_are_refused() {
    let Bench { pool, device, .. } = plain();
    for bytes in [0, usize::MAX, isize::MAX as usize] {
        let refused = pool.allocate(bytes).unwrap_err();
        assert!(matches!(refused, PinnedError::InvalidSize { given, .. } if given == bytes as u64));
    }
    for alignment in [0, 3, 8192, usize::MAX] {
        let refused = pool.allocate_aligned(64, alignment).unwrap_err();
        assert!(matches!(refused, PinnedError::InvalidAlignment { .. }));
    }
    assert_eq!(device.allocated_bytes(), 0, "the driver was not asked");
}

#[test]
fn memory_is_zero_at_first_and_initialised_ever_after() {
    let Bench { pool, .. } = plain();
    let mut block = pool.allocate(1000).unwrap();
    assert!(block.try_as_slice().unwrap().iter().all(|byte| *byte == 0));
    block.try_as_mut_slice().unwrap().fill(9);
    drop(block);
    let again = pool.allocate(1000).unwrap();
    assert!(again.try_as_slice().unwrap().iter().all(|byte| *byte == 9));
    assert_eq!(pool.stats().hits, 1);
}

#[test]
fn the_host_reads_beside_a_reading_device_and_waits_for_a_writing_one() {
    let Bench { pool, lane, .. } = plain();
    let mut block = pool.allocate(64).unwrap();
    let reading = lane.submit(1);
    block.record_read(reading);
    assert!(block.try_as_slice().is_ok());
    assert_eq!(
        block.try_as_mut_slice().unwrap_err(),
        PinnedError::InUse {
            pending: reading.into(),
        }
    );
    lane.complete(1);
    assert!(block.try_as_mut_slice().is_ok());

    let writing = lane.submit(2);
    block.record_write(writing);
    let pending = Frontier::from(writing);
    assert_eq!(
        block.try_as_slice().unwrap_err(),
        PinnedError::InUse { pending }
    );
    assert_eq!(block.writes().single(), Some(writing));
    assert_eq!(block.uses().single(), Some(writing));
    lane.complete(2);
    assert!(block.try_as_slice().is_ok());
}

#[test]
fn a_freed_block_waits_for_its_last_use_and_nobody_else_waits_for_it() {
    let Bench {
        pool,
        lane,
        timeline,
        ..
    } = plain();
    let quick = timeline.register(None).unwrap();
    let slow_block = pool.allocate(4096).unwrap();
    let quick_block = pool.allocate(4096).unwrap();
    let (slow_at, quick_at) = (slow_block.as_ptr(), quick_block.as_ptr());
    slow_block.record_read(lane.submit(1));
    quick_block.record_read(quick.submit(1));
    drop(slow_block);
    drop(quick_block);
    assert_eq!(pool.stats().pending_blocks, 2);

    quick.complete(1);
    let next = pool.allocate(4096).unwrap();
    assert_eq!(next.as_ptr(), quick_at);
    let other = pool.allocate(4096).unwrap();
    assert_ne!(other.as_ptr(), slow_at);
    lane.complete(1);
    assert_eq!(pool.allocate(4096).unwrap().as_ptr(), slow_at);
    pool.check().unwrap();
}

#[test]
fn a_large_block_is_whole_pages_of_the_best_fit_and_merges_again() {
    let Bench { pool, .. } = plain();
    let wide = pool.allocate(100_000).unwrap();
    let close = pool.allocate(50_000).unwrap();
    assert_eq!((wide.capacity(), close.capacity()), (102_400, 53_248));
    let (wide_at, close_at) = (wide.as_ptr(), close.as_ptr());
    drop((wide, close));
    let first = pool.allocate(45_000).unwrap();
    assert_eq!((first.as_ptr(), first.capacity()), (close_at, 45_056));
    let second = pool.allocate(45_000).unwrap();
    assert_eq!(
        second.as_ptr(),
        wide_at,
        "what is left of the other is too small"
    );
    let third = pool.allocate(57_344).unwrap();
    assert_eq!(third.as_ptr().addr().get(), wide_at.addr().get() + 45_056);
    drop((second, third, first));
    assert_eq!(pool.allocate(102_400).unwrap().as_ptr(), wide_at);
    assert_eq!(pool.stats().driver_allocations, 2);
    pool.check().unwrap();
}

#[test]
fn a_driver_that_rounds_up_is_booked_at_what_it_gave() {
    let ability = Ability {
        granularity: 128 << 10,
        ..Ability::default()
    };
    let Bench { pool, device, .. } = bench(ability, config());
    let small = pool.allocate(100).unwrap();
    let large = pool.allocate(30_000).unwrap();
    assert_eq!(pool.stats().held_bytes, device.allocated_bytes());
    pool.check().unwrap();
    drop((small, large));
    pool.check().unwrap();
    assert_eq!(pool.trim(0), 256 << 10);
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn a_block_has_the_address_that_kernels_read_it_at() {
    let Bench { pool, .. } = plain();
    let block = pool.allocate(1000).unwrap();
    let address = block.device_address().map(|address| address.address());
    assert_eq!(address, Some(block.as_ptr().addr().get() as u64));
}

#[test]
fn a_full_pool_says_what_holds_its_memory() {
    let Bench { pool, lane, .. } = plain();
    let large = pool.allocate(usize::try_from(3 * SLAB).unwrap()).unwrap();
    let used = pool.allocate(4096).unwrap();
    used.record_read(lane.submit(1));
    drop(used);
    let refused = pool.allocate(usize::try_from(SLAB).unwrap()).unwrap_err();
    assert_eq!(
        refused,
        PinnedError::CapReached {
            requested: SLAB,
            cap: 4 * SLAB,
            held: 4 * SLAB,
            live: 3 * SLAB,
            pending: 4096,
        }
    );
    drop(large);
    assert!(pool.allocate(usize::try_from(SLAB).unwrap()).is_ok());
    pool.check().unwrap();
}

#[test]
fn free_blocks_of_other_sizes_are_merged_before_a_request_is_refused() {
    let Bench { pool, .. } = plain();
    let blocks: Vec<_> = std::iter::from_fn(|| pool.allocate(1024).ok()).collect();
    assert_eq!(blocks.len() as u64, 4 * SLAB / 1024);
    drop(blocks);
    let wider: Vec<_> = std::iter::from_fn(|| pool.allocate(16_384).ok()).collect();
    assert_eq!(wider.len() as u64, 4 * SLAB / 16_384);
    pool.check().unwrap();
}

#[test]
fn a_refused_lock_names_the_limit_or_is_done_without_as_configured() {
    let ability = Ability {
        lock_limit: SLAB,
        ..Ability::default()
    };
    let Bench { pool, .. } = bench(ability, config());
    let first = pool.allocate(4096).unwrap();
    let refused = pool.allocate(20_000).unwrap_err();
    let PinnedError::Driver(error) = refused else {
        panic!("{refused}");
    };
    assert_eq!(
        error.kind,
        ErrorKind::LockRefused {
            requested: 20_480,
            limit: SLAB,
        }
    );
    drop(first);
    assert!(
        pool.allocate(20_000).is_ok(),
        "what nobody uses is unlocked to make room"
    );

    let preferred = PinnedPoolConfig {
        locking: Locking::Preferred,
        ..config()
    };
    let Bench { pool, .. } = bench(ability, preferred);
    let _first = pool.allocate(4096).unwrap();
    let _second = pool.allocate(20_000).unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.locked_bytes, stats.held_bytes),
        (SLAB, SLAB + 20_480)
    );
}

#[test]
fn trim_gives_back_what_nobody_uses_and_nothing_else() {
    let Bench {
        pool, lane, device, ..
    } = plain();
    let pending = pool.allocate(4096).unwrap();
    pending.record_read(lane.submit(1));
    drop(pending);
    drop(pool.allocate(30_000).unwrap());
    assert_eq!(pool.trim(0), 32_768, "the slab has a pending block");
    assert_eq!(device.allocated_bytes(), SLAB);
    lane.complete(1);
    assert_eq!(pool.trim(SLAB), 0, "as much may be kept");
    assert_eq!(pool.trim(0), SLAB);
    assert_eq!(device.allocated_bytes(), 0);
    pool.check().unwrap();
}

#[test]
fn a_block_outlives_its_pool() {
    let Bench { pool, device, .. } = plain();
    let mut block = pool.allocate(1000).unwrap();
    drop(pool);
    block.try_as_mut_slice().unwrap().fill(3);
    assert_eq!(device.allocated_bytes(), SLAB);
    drop(block);
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn memory_under_a_device_outlives_every_handle_and_the_next_pool_frees_it() {
    let Bench {
        pool,
        lane,
        device,
        timeline,
    } = plain();
    let leftovers = pool.leftovers();
    let mut block = pool.allocate(1000).unwrap();
    block.record_write(lane.submit(1));
    drop(pool.allocate(30_000).unwrap());
    drop(pool);
    drop(block);
    assert_eq!(
        leftovers.bytes(),
        SLAB,
        "the other region was freed at once"
    );
    assert_eq!(device.allocated_bytes(), SLAB);

    lane.complete(1);
    let next =
        PinnedPool::with_leftovers(device.clone(), timeline, config(), leftovers.clone()).unwrap();
    let _block = next.allocate(30_000).unwrap();
    assert_eq!(leftovers.bytes(), 0);
    assert_eq!(device.allocated_bytes(), 32_768);
}

#[test]
fn memory_that_nobody_waits_for_is_leaked_rather_than_freed_under_a_device() {
    let Bench {
        pool, lane, device, ..
    } = plain();
    let mut block = pool.allocate(1000).unwrap();
    block.record_write(lane.submit(1));
    drop((block, pool));
    assert_eq!(device.allocated_bytes(), SLAB);
}

#[test]
fn an_empty_place_for_leftovers_has_nothing_to_sweep() {
    assert_eq!(Leftovers::new().sweep(), 0);
}

#[test]
fn the_programs_own_memory_is_registered_and_comes_back() {
    let Bench {
        pool, lane, device, ..
    } = plain();
    let mut memory = pool.register(vec![5_u8; 3000]).unwrap();
    assert_eq!((memory.bytes(), device.registered_count()), (3000, 1));
    memory.try_as_mut_slice().unwrap()[0] = 6;
    memory.record_write(lane.submit(1));
    assert!(memory.try_as_slice().is_err());
    let refused = memory.into_inner().unwrap_err();
    assert!(matches!(refused.error, PinnedError::InUse { .. }));
    assert_eq!(device.registered_count(), 1);
    lane.complete(1);
    let back = refused.memory.into_inner().unwrap();
    assert_eq!((back[0], back[1], back.len()), (6, 5, 3000));
    assert_eq!(device.registered_count(), 0);

    let empty = pool.register(Vec::<u8>::new()).unwrap_err();
    assert!(matches!(
        empty.error,
        PinnedError::InvalidSize { given: 0, .. }
    ));
}

#[test]
fn registered_memory_dropped_under_a_device_stays_registered_until_it_is_done() {
    let Bench {
        pool, lane, device, ..
    } = plain();
    let memory = pool.register(vec![0_u8; 100]).unwrap();
    memory.record_read(lane.submit(1));
    drop(memory);
    assert_eq!(pool.leftovers().sweep(), 100);
    assert_eq!(device.registered_count(), 1);
    lane.complete(1);
    assert_eq!(pool.leftovers().sweep(), 0);
    assert_eq!(device.registered_count(), 0);

    drop(pool.register(vec![0_u8; 100]).unwrap());
    assert_eq!(device.registered_count(), 0, "nothing to wait for");
}

#[test]
fn memory_whose_unregistration_was_refused_is_still_registered_and_asked_for_again() {
    let Bench { pool, device, .. } = plain();
    let memory = pool.register(vec![7_u8; 64]).unwrap();
    device.fail_at(1);
    let refused = memory.into_inner().unwrap_err();
    assert!(matches!(refused.error, PinnedError::Driver(_)));
    assert_eq!(device.registered_count(), 1);
    assert_eq!(*refused.memory.into_inner().unwrap(), [7; 64]);
    assert_eq!(device.registered_count(), 0);
}

#[test]
fn registered_elements_come_back_as_what_they_were_and_go_as_that() {
    let device = FakeDevice::new(Ability::default());
    let config = PinnedPoolConfig::default();
    let pool = PinnedPool::new(device.clone(), Timeline::new(), config).unwrap();
    let words: Vec<u64> = (0..1000).collect();
    let mut memory = pool.register(words).unwrap();
    assert_eq!((memory.len(), memory.bytes()), (1000, 8000));
    memory.try_as_mut_slice().unwrap()[7] = 70;
    assert_eq!(memory.try_as_slice().unwrap()[6..8], [6, 70]);
    assert!(memory.device_address().is_some());
    let back = memory.into_inner().unwrap();
    assert_eq!((back[7], back[999]), (70, 999));
    // Freed as what it is, which a checking allocator would notice.
    drop(pool.register(back).unwrap());
    assert_eq!(device.registered_count(), 0);
}

#[test]
fn a_lost_device_is_told_before_its_driver_is_asked_for_memory() {
    let device = FakeDevice::new(Ability::default());
    let config = PinnedPoolConfig::default();
    let pool = PinnedPool::new(device.clone(), Timeline::new(), config).unwrap();
    let block = pool.allocate(1000).unwrap();
    device.lose();
    let before = pool.stats().driver_allocations;
    for bytes in [1000, 5 << 20, 100 << 20] {
        let refused = pool.allocate(bytes).unwrap_err();
        assert!(
            matches!(refused, PinnedError::Driver(error) if error.kind == ErrorKind::DeviceLost),
            "{refused}"
        );
    }
    assert_eq!(pool.stats().driver_allocations, before);
    drop(block);
    pool.check().unwrap();
}
