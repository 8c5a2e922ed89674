//! Pages that the pool maps itself.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_driver::{Device, DeviceId, Driver, ErrorKind, Locking};
use piton_pinned::{HostPages, PinnedError, PinnedPool, PinnedPoolConfig};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_timeline::Timeline;
use std::sync::Arc;

const HUGE: usize = 2 << 20;

fn config(pages: HostPages) -> PinnedPoolConfig {
    PinnedPoolConfig {
        pages,
        locking: Locking::Preferred,
        ..PinnedPoolConfig::default()
    }
}

fn fake() -> (Arc<FakeDevice>, PinnedPool) {
    let device = FakeDevice::new(Ability::default());
    let config = config(HostPages::Huge);
    let pool = PinnedPool::new(device.clone(), Timeline::new(), config).unwrap();
    (device, pool)
}

#[test]
fn own_pages_begin_at_two_mebibytes_are_registered_once_and_go_back() {
    let (device, pool) = fake();
    let small = pool.allocate(1000).unwrap();
    let mut large = pool.allocate(100 << 20).unwrap();
    assert!(pool.maps_pages());
    assert!(small.as_ptr().addr().get().is_multiple_of(HUGE));
    assert!(large.as_ptr().addr().get().is_multiple_of(HUGE));
    assert_eq!(
        (device.registered_count(), device.allocated_bytes()),
        (2, 0)
    );
    assert!(
        large
            .try_as_slice()
            .unwrap()
            .iter()
            .step_by(4096)
            .all(|byte| *byte == 0)
    );
    large.try_as_mut_slice().unwrap()[(100 << 20) - 1] = 1;
    let stats = pool.stats();
    assert_eq!(stats.locked_bytes, stats.held_bytes);
    drop((small, large));
    pool.check().unwrap();
    assert_eq!(pool.trim(0), stats.held_bytes);
    assert_eq!(device.registered_count(), 0);
}

#[test]
fn a_refused_registration_leaves_nothing_behind() {
    let (device, pool) = fake();
    device.fail_at(1);
    let refused = pool.allocate(1000).unwrap_err();
    assert!(
        matches!(refused, PinnedError::Driver(error) if error.kind == ErrorKind::Injected { call: 1 })
    );
    assert_eq!((device.registered_count(), pool.stats().held_bytes), (0, 0));
    pool.check().unwrap();
    assert!(pool.allocate(1000).is_ok());
}

#[test]
fn pages_that_the_driver_does_not_let_go_stay_and_are_counted() {
    let (device, pool) = fake();
    drop(pool.allocate(1000).unwrap());
    device.fail_at(1);
    pool.trim(0);
    let stats = pool.stats();
    assert_eq!((stats.held_bytes, stats.leaked_bytes), (0, 4 << 20));
    assert_eq!(device.registered_count(), 1);
    assert!(device.take_error().is_some());
}

#[test]
fn a_measured_pool_serves_whatever_was_found() {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    let device = driver.open(DeviceId(0)).unwrap();
    let config = config(HostPages::Measured);
    let pool = PinnedPool::new(device, Timeline::new(), config).unwrap();
    let mut block = pool.allocate(3 << 20).unwrap();
    block.try_as_mut_slice().unwrap().fill(9);
    drop(block);
    pool.check().unwrap();
    assert_eq!(pool.trim(0), 4 << 20);
}

#[test]
fn pages_come_from_the_node_that_is_asked_for_or_not_at_all() {
    let on = |node| {
        let config = PinnedPoolConfig {
            numa_node: Some(node),
            ..config(HostPages::Huge)
        };
        let device = FakeDevice::new(Ability::default());
        let pool = PinnedPool::new(device.clone(), Timeline::new(), config).unwrap();
        (device, pool)
    };
    // Linux knows 1024 nodes at most.
    let (device, pool) = on(1024);
    let refused = pool.allocate(1000).unwrap_err();
    assert!(
        matches!(refused, PinnedError::NodeRefused { node: 1024, .. }),
        "{refused}"
    );
    assert_eq!((device.registered_count(), pool.stats().held_bytes), (0, 0));
    pool.check().unwrap();

    let (_, pool) = on(0);
    match pool.allocate(1000) {
        Err(error @ PinnedError::NodeRefused { .. }) => println!("skipped: {error}"),
        other => {
            let block = other.unwrap();
            let stats = pool.stats();
            assert_eq!((stats.bound_bytes, stats.held_bytes), (4 << 20, 4 << 20));
            drop(block);
            pool.trim(0);
            assert_eq!(pool.stats().bound_bytes, 0);
        }
    }
}

#[test]
fn a_device_whose_node_the_system_does_not_know_has_pages_from_anywhere() {
    for (node, bound) in [(Some(1024), false), (None, false)] {
        let device = FakeDevice::on_node(node);
        let config = config(HostPages::Huge);
        let pool = PinnedPool::new(device, Timeline::new(), config).unwrap();
        let _block = pool.allocate(1000).unwrap();
        assert_eq!(pool.stats().bound_bytes > 0, bound);
    }
}
