//! Memory that the program lends to a device for a scope.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_driver::{Device, ErrorKind};
use piton_pinned::{PinnedError, PinnedPool, PinnedPoolConfig};
use piton_sync::thread;
use piton_timeline::{Frontier, Lane, Timeline};
use std::{
    cell::Cell,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

struct Bench {
    device: Arc<FakeDevice>,
    pool: PinnedPool,
    lane: Lane,
}

fn bench() -> Bench {
    let device = FakeDevice::new(Ability::default());
    let timeline = Timeline::new();
    let lane = timeline.register(None).unwrap();
    let pool = PinnedPool::new(device.clone(), timeline, PinnedPoolConfig::default()).unwrap();
    Bench { device, pool, lane }
}

fn nothing_to_wait_for(pending: &Frontier) {
    panic!("{pending:?}");
}

#[test]
fn lent_memory_is_registered_in_its_scope_and_the_programs_again_behind_it() {
    let Bench { device, pool, .. } = bench();
    let mut memory = vec![1_u32; 5000];
    let sum = pool.lend(&mut memory, nothing_to_wait_for, |mut lent| {
        assert_eq!(device.registered_count(), 1);
        assert!(lent.device_address().is_some());
        lent.try_as_mut_slice().unwrap()[0] = 7;
        lent.try_as_slice().unwrap().iter().sum::<u32>()
    });
    assert_eq!(sum, Ok(5006));
    assert_eq!((device.registered_count(), memory[0]), (0, 7));
    pool.check().unwrap();
}

#[test]
fn a_scope_ends_behind_the_last_use_recorded_in_it_however_often_it_is_woken_before() {
    let Bench { device, pool, lane } = bench();
    let (mut memory, waits) = (vec![0_u8; 100], Cell::new(0));
    let wait = |pending: &Frontier| {
        assert_eq!(pending.points().len(), 1);
        assert_eq!(device.registered_count(), 1);
        waits.set(waits.get() + 1);
        if waits.get() == 3 {
            lane.complete(2);
        }
    };
    let lent = pool.lend(&mut memory, wait, |mut lent| {
        lent.record_read(lane.submit(1));
        assert!(lent.try_as_slice().is_ok() && lent.try_as_mut_slice().is_err());
        lent.record_write(lane.submit(2));
        assert!(lent.try_as_slice().is_err());
    });
    assert_eq!((lent, waits.get()), (Ok(()), 3));
    assert_eq!(device.registered_count(), 0);
}

#[test]
fn a_view_that_is_forgotten_changes_nothing() {
    let Bench { device, pool, lane } = bench();
    let mut memory = [0_u64; 9];
    let lent = pool.lend(
        &mut memory,
        |_| lane.complete(1),
        |mut lent| {
            lent.record_write(lane.submit(1));
            let _forgotten = ManuallyDrop::new(lent);
        },
    );
    assert_eq!((lent, device.registered_count()), (Ok(()), 0));
}

#[test]
fn a_scope_that_unwinds_waits_all_the_same() {
    let Bench { device, pool, lane } = bench();
    let mut memory = [0_u64; 9];
    let lend = || {
        let wait = |_: &Frontier| lane.complete(1);
        pool.lend(&mut memory, wait, |mut lent| {
            lent.record_write(lane.submit(1));
            // A panic without its message.
            resume_unwind(Box::new(()));
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(lend)).is_err());
    assert_eq!(device.registered_count(), 0);
}

#[test]
fn a_wait_that_unwinds_does_not_let_the_memory_go_early() {
    let Bench { device, pool, lane } = bench();
    let mut memory = [0_u64; 9];
    thread::scope(|scope| {
        let lend = || {
            let wait = |_: &Frontier| {
                // What is waited for comes from elsewhere, at whatever time.
                scope.spawn(|| lane.complete(1));
                resume_unwind(Box::new(()));
            };
            pool.lend(&mut memory, wait, |lent| {
                lent.record_read(lane.submit(1));
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(lend)).is_err());
        assert_eq!(device.registered_count(), 0);
    });
}

#[test]
fn what_the_driver_refuses_is_told_and_never_lent() {
    let Bench { device, pool, .. } = bench();
    let mut memory = [0_u64; 9];
    let none: Result<(), _> = pool.lend(&mut [] as &mut [u8], nothing_to_wait_for, |_| panic!());
    assert!(matches!(
        none,
        Err(PinnedError::InvalidSize { given: 0, .. })
    ));
    device.fail_at(1);
    let refused: Result<(), _> = pool.lend(&mut memory, nothing_to_wait_for, |_| panic!());
    assert!(
        matches!(refused, Err(PinnedError::Driver(error)) if error.kind == ErrorKind::Injected { call: 1 })
    );
    device.fail_at(2);
    let stays = pool.lend(&mut memory, nothing_to_wait_for, |_| ());
    assert_eq!((stays, device.registered_count()), (Ok(()), 1));
    assert!(device.take_error().is_some());
}
