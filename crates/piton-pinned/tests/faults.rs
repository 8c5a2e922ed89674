//! A failure at each driver call of a short program, one after the other.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_driver::{Device, ErrorKind};
use piton_pinned::{PinnedError, PinnedPool, PinnedPoolConfig};
use piton_timeline::{Lane, Timeline};
use std::sync::Arc;

const SLAB: u64 = 64 << 10;

fn pool(device: &Arc<FakeDevice>, timeline: &Arc<Timeline>) -> PinnedPool {
    let config = PinnedPoolConfig {
        cap_bytes: 3 * SLAB,
        slab_bytes: SLAB,
        large_above_bytes: SLAB / 4,
        ..PinnedPoolConfig::default()
    };
    PinnedPool::new(device.clone(), timeline.clone(), config).unwrap()
}

/// Small, large, registered, over the cap, trimmed; stops at the first refusal.
fn program(pool: &PinnedPool, lane: &Lane) -> Result<(), PinnedError> {
    let small = pool.allocate(1000)?;
    small.record_read(lane.submit(1));
    let large = pool.allocate(30_000)?;
    drop(small);
    let registered = pool
        .register(vec![1_u8; 500])
        .map_err(|refused| refused.error)?;
    lane.complete(1);
    drop(large);
    // The idle large region and the slab have to go to make room.
    let wide = pool.allocate(170_000)?;
    let back = registered.into_inner().map_err(|refused| refused.error)?;
    assert_eq!(back.len(), 500);
    drop(wide);
    pool.trim(0);
    Ok(())
}

#[test]
fn a_failure_at_any_driver_call_leaves_the_books_right_and_nothing_lost() {
    let mut fired = 0;
    loop {
        let device = FakeDevice::new(Ability::default());
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        let pool = pool(&device, &timeline);
        device.fail_at(fired + 1);
        let outcome = program(&pool, &lane);
        lane.complete(1);
        let has_fired = device.end_plan();
        pool.check().unwrap();
        check_outcome(&outcome, &device, &pool, has_fired);
        let leaked = pool.stats().leaked_bytes;
        drop(pool);
        assert_eq!(device.allocated_bytes(), leaked, "call {}", fired + 1);
        if !has_fired {
            break;
        }
        fired += 1;
    }
    assert_eq!(fired, 8, "allocate 3, register, unregister, free 3");
}

/// A failed call is told to the caller or, where there is none to tell, to the device.
fn check_outcome(
    outcome: &Result<(), PinnedError>,
    device: &Arc<FakeDevice>,
    pool: &PinnedPool,
    has_fired: bool,
) {
    let recorded = device.take_error();
    match outcome {
        Err(PinnedError::Driver(error)) => {
            assert!(has_fired && recorded.is_none());
            assert!(matches!(error.kind, ErrorKind::Injected { .. }));
        }
        Err(PinnedError::CapReached { held, .. }) => {
            assert!(has_fired && recorded.is_some());
            assert!(*held <= 3 * SLAB);
        }
        Err(other) => panic!("{other}"),
        Ok(()) => assert_eq!(has_fired, recorded.is_some()),
    }
    let is_leak = pool.stats().leaked_bytes > 0;
    assert_eq!(is_leak, recorded.is_some());
}
