//! Memory of a device that is full now, for those who wait until work lets it go.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    AllocError, BufferError, DeviceBuffer, Devices, FullNow, MemoryPoolConfig, Runtime,
    RuntimeConfig, Stream, VirtualAddressing,
    sim::{ScheduleOrder, SimConfig},
};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};
use support::{executor::block_on, runtime, small_devices};

const MIB: u64 = 1 << 20;
/// Words of a buffer that fits only once all that was freed before is one.
const LARGE: u64 = 40 * MIB / 4;

fn over(config: SimConfig, virtual_addressing: VirtualAddressing) -> Runtime {
    support::configured(RuntimeConfig {
        memory: MemoryPoolConfig {
            virtual_addressing,
            ..MemoryPoolConfig::default()
        },
        ..RuntimeConfig::on(Devices::Simulated(config))
    })
}

/// Frees two pieces of 24 MiB that work is still to use, with one in between that stays.
fn fill_up(stream: &Stream) -> DeviceBuffer<u32> {
    let allocate = |mib: u64| stream.allocate::<u32>(mib * MIB / 4).unwrap();
    let (mut one, mut kept, mut other) = (allocate(24), allocate(1), allocate(24));
    stream.fill(&mut one, 1).unwrap();
    stream.fill(&mut kept, 2).unwrap();
    stream.fill(&mut other, 3).unwrap();
    kept
}

fn full_now<T>(refused: Result<DeviceBuffer<T>, BufferError>) -> FullNow {
    match refused.err().unwrap() {
        BufferError::Memory(AllocError::FullNow(full)) => *full,
        other => panic!("{other}"),
    }
}

#[test]
fn who_waits_gets_what_work_lets_go_and_who_does_not_is_told_what_to_wait_for() {
    for placement in [VirtualAddressing::On, VirtualAddressing::Off] {
        // Nothing runs in virtual time unless somebody waits for it.
        let machine = small_devices(1).in_virtual_time(1, ScheduleOrder::Seeded);
        let runtime = over(machine, placement);
        let device = runtime.device(0).unwrap();
        let (stream, other) = (device.stream("a").unwrap(), device.stream("b").unwrap());
        let kept = fill_up(&stream);
        let full = full_now(stream.allocate::<u32>(LARGE));
        assert!(
            !full.frees_at.is_empty() && full.pending >= 48 * MIB,
            "{full}"
        );
        let mut large = other.allocate_waiting::<u32>(LARGE).unwrap();
        other.fill(&mut large, 4).unwrap();
        assert!(stream.read(&kept).unwrap().iter().all(|word| *word == 2));
        assert!(other.read(&large).unwrap().iter().all(|word| *word == 4));
    }
}

#[test]
fn who_waits_is_refused_at_once_where_no_wait_helps() {
    let runtime = runtime(small_devices(1));
    let stream = runtime.device(0).unwrap().stream("a").unwrap();
    let live = stream.allocate::<u32>(LARGE).unwrap();
    let full = full_now(stream.allocate_waiting::<u32>(LARGE));
    assert!(full.frees_at.is_empty(), "{full}");
    drop(live);
    let never = stream.allocate_waiting::<u32>(1 << 40);
    assert!(matches!(
        never,
        Err(BufferError::Memory(AllocError::NeverFits { .. }))
    ));
    let none = stream.allocate_waiting::<u32>(0);
    assert!(matches!(none, Err(BufferError::InvalidLength { .. })));
}

#[test]
fn work_that_failed_lets_its_memory_go_too() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (stream, other) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let held = device.semaphore(0).unwrap();
    stream.wait_semaphore(&held, 1).unwrap();
    stream.call_host(|| panic!("on purpose")).unwrap();
    let _kept = fill_up(&stream);
    full_now(other.allocate::<u32>(LARGE));
    held.signal(1).unwrap();
    assert!(other.allocate_waiting::<u32>(LARGE).is_ok());
    assert!(stream.synchronize().is_err());
}

fn movable<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn a_future_holds_no_thread_until_work_lets_memory_go() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    let held = device.semaphore(0).unwrap();
    stream.wait_semaphore(&held, 1).unwrap();
    let kept = fill_up(&stream);
    drop(stream.allocate_async::<u32>(LARGE));
    let mut large = pin!(movable(stream.allocate_async::<u32>(LARGE)));
    assert!(
        large
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    held.signal(1).unwrap();
    let large = block_on(large).unwrap();
    assert_eq!(large.len(), LARGE);
    assert!(stream.read(&kept).unwrap().iter().all(|word| *word == 2));
}
