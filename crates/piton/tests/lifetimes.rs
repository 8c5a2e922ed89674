//! Whatever is dropped or forgotten midway, memory stays owned until the device is done with it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{Grid, PinnedBuffer, sim::ScheduleOrder};
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};
use support::{check, runtime, small_devices};

/// The smallest executor: polls when woken.
struct Thread(std::thread::Thread, AtomicBool);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let thread = Arc::new(Thread(std::thread::current(), AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&thread));
    loop {
        if thread.1.swap(false, Ordering::SeqCst)
            && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn a_copy_is_awaited_without_any_particular_executor() {
    let runtime = runtime(small_devices(1));
    let stream = runtime.device(0).unwrap().stream("s").unwrap();
    let mut source = stream.pinned::<u32>(1 << 16).unwrap();
    source.as_mut_slice().fill(5);
    let mut buffer = stream.allocate::<u32>(1 << 16).unwrap();
    let sent = stream.copy_to_device(source, &mut buffer).unwrap();
    let source = block_on(sent).unwrap();
    assert!(source.as_slice().iter().all(|word| *word == 5));
    let landed = block_on(stream.copy_to_host(&buffer, source).unwrap()).unwrap();
    assert!(landed.as_slice().iter().all(|word| *word == 5));
}

#[test]
fn dropping_or_forgetting_everything_midway_loses_nothing() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let scale = device.load("test").unwrap().kernel("scale").unwrap();
    for round in 0..50_u32 {
        let stream = device.stream("round").unwrap();
        let mut buffer = stream.allocate::<u32>(1 << 14).unwrap();
        stream.fill(&mut buffer, round).unwrap();
        stream
            .launch(&scale, Grid::linear(256))
            .write(&mut buffer)
            .value(3_u32)
            .submit()
            .unwrap();
        let host: PinnedBuffer<u32> = stream.pinned(1 << 14).unwrap();
        let transfer = stream.copy_to_host(&buffer, host).unwrap();
        match round % 4 {
            0 => drop((buffer, transfer, stream)),
            1 => {
                // A guard that is never dropped: its memory is lost to the pool, not to the device.
                #[expect(clippy::mem_forget, reason = "what is tested")]
                std::mem::forget(transfer);
                drop(buffer);
            }
            2 => {
                let mut unpolled = pin!(transfer);
                let waker = Waker::noop();
                let _pending = unpolled.as_mut().poll(&mut Context::from_waker(waker));
            }
            _ => {
                let landed = transfer.wait().unwrap();
                assert!(landed.as_slice().iter().all(|word| *word == round * 3));
            }
        }
        check(&runtime);
    }
    let stream = device.stream("last").unwrap();
    stream.synchronize().unwrap();
    check(&runtime);
}

#[test]
fn memory_freed_on_one_stream_is_not_seen_through_by_another() {
    for seed in 0..200 {
        let config = small_devices(1).in_virtual_time(seed, ScheduleOrder::Seeded);
        let runtime = runtime(config);
        let device = runtime.device(0).unwrap();
        let (a, b) = (device.stream("a").unwrap(), device.stream("b").unwrap());
        let mut first = a.allocate::<u32>(4096).unwrap();
        a.fill(&mut first, 1).unwrap();
        let mut kept = b.allocate::<u32>(4096).unwrap();
        b.copy(&first, &mut kept).unwrap();
        drop(first);
        // Very likely the same memory, handed to the other stream.
        let mut second = a.allocate::<u32>(4096).unwrap();
        a.fill(&mut second, 2).unwrap();
        assert_eq!(b.read(&kept).unwrap(), [1; 4096], "seed {seed}");
        assert_eq!(a.read(&second).unwrap(), [2; 4096], "seed {seed}");
        check(&runtime);
    }
}

#[test]
fn a_host_function_that_waits_for_its_own_stream_is_told() {
    let runtime = runtime(small_devices(1));
    let stream = Arc::new(runtime.device(0).unwrap().stream("s").unwrap());
    let refused = Arc::new(AtomicBool::new(false));
    let (own, flag) = (Arc::clone(&stream), Arc::clone(&refused));
    stream
        .call_host(move || flag.store(own.synchronize().is_err(), Ordering::SeqCst))
        .unwrap();
    stream.synchronize().unwrap();
    assert!(refused.load(Ordering::SeqCst));
}
