//! Whatever is dropped or forgotten midway, memory stays owned until the device is done with it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{Grid, PinnedBuffer, Stream, sim::ScheduleOrder};
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};
use support::{check, executor::block_on, runtime, small_devices};

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

/// Holds a stream up until it is opened, or dropped.
struct Gate(std::sync::mpsc::Sender<()>);

impl Gate {
    fn on(stream: &Stream) -> Self {
        let (open, wait) = std::sync::mpsc::channel::<()>();
        // An error says that the sender is gone, which opens the gate as well.
        stream
            .call_host(move || {
                let _opened = wait.recv();
            })
            .unwrap();
        Self(open)
    }

    fn open(self) {
        drop(self.0);
    }
}

#[test]
fn a_copy_whose_future_is_dropped_midway_goes_on_and_keeps_its_memory() {
    const WORDS: usize = 1 << 14;
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("s").unwrap();
    let mut buffer = stream.allocate::<u32>(WORDS as u64).unwrap();
    let mut source = stream.pinned::<u32>(WORDS).unwrap();
    source.as_mut_slice().fill(7);
    let gate = Gate::on(&stream);
    {
        let mut sent = pin!(stream.copy_to_device(source, &mut buffer).unwrap());
        let waker = Waker::noop();
        let polled = sent.as_mut().poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending(), "the gate is shut");
    }
    let bytes = (WORDS * size_of::<u32>()) as u64;
    assert!(device.pinned_stats().pending_bytes >= bytes);
    // Memory of the same size, while the copy has not run: not the copy's.
    let mut others: Vec<PinnedBuffer<u32>> =
        (0..4).map(|_| stream.pinned(WORDS).unwrap()).collect();
    others
        .iter_mut()
        .for_each(|other| other.as_mut_slice().fill(8));
    check(&runtime);
    gate.open();
    assert_eq!(stream.read(&buffer).unwrap(), [7; WORDS]);
    drop(others);
    check(&runtime);
}

#[test]
fn a_forgotten_transfer_keeps_its_memory_for_good_and_hurts_nobody() {
    const WORDS: usize = 1 << 14;
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("s").unwrap();
    let mut buffer = stream.allocate::<u32>(WORDS as u64).unwrap();
    let mut source = stream.pinned::<u32>(WORDS).unwrap();
    source.as_mut_slice().fill(7);
    let gate = Gate::on(&stream);
    let transfer = stream.copy_to_device(source, &mut buffer).unwrap();
    #[expect(clippy::mem_forget, reason = "what is tested")]
    std::mem::forget(transfer);
    gate.open();
    assert_eq!(stream.read(&buffer).unwrap(), [7; WORDS]);
    let stats = device.pinned_stats();
    assert_eq!((stats.live_blocks, stats.pending_blocks), (1, 0));
    drop(buffer);
    stream.synchronize().unwrap();
    assert_eq!(device.memory_stats().live_bytes, 0);
    check(&runtime);
}

#[test]
fn a_buffer_dropped_while_a_kernel_is_to_use_it_is_nobody_elses_until_then() {
    const WORDS: usize = 1 << 14;
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let add = device.load("test").unwrap().kernel("add").unwrap();
    let (a, b) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let (mut x, mut y) = (
        a.allocate::<u32>(WORDS as u64).unwrap(),
        a.allocate::<u32>(WORDS as u64).unwrap(),
    );
    a.fill(&mut x, 3).unwrap();
    a.fill(&mut y, 4).unwrap();
    let gate = Gate::on(&a);
    let blocks = u32::try_from(WORDS as u64 / support::BLOCK).unwrap();
    let launch = a.launch(&add, Grid::linear(blocks));
    launch.write(&mut y).read(&x).submit().unwrap();
    drop(x);
    // Another stream takes memory of that size, and writes to it as soon as it may.
    let mut others: Vec<_> = (0..4)
        .map(|_| b.allocate::<u32>(WORDS as u64).unwrap())
        .collect();
    for other in &mut others {
        b.fill(other, 9).unwrap();
    }
    check(&runtime);
    gate.open();
    assert_eq!(a.read(&y).unwrap(), [7; WORDS]);
    for other in &others {
        assert_eq!(b.read(other).unwrap(), [9; WORDS]);
    }
    drop((others, y));
    assert_eq!(device.memory_stats().live_bytes, 0);
    check(&runtime);
}

#[test]
fn a_host_function_that_panics_fails_its_stream_and_nothing_else() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (bad, good) = (
        device.stream("bad").unwrap(),
        device.stream("good").unwrap(),
    );
    let mut lost = bad.allocate::<u32>(1024).unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let witness = DropWitness(Arc::clone(&dropped));
    bad.call_host(move || {
        let _held = witness;
        panic!("a panic that the test wants");
    })
    .unwrap();
    // What comes behind does not run, and says so.
    let behind = bad.fill(&mut lost, 1).and_then(|()| bad.synchronize());
    assert!(behind.is_err());
    assert!(
        dropped.load(Ordering::SeqCst),
        "what the function held is gone"
    );
    drop((lost, bad));
    let mut kept = good.allocate::<u32>(1024).unwrap();
    good.fill(&mut kept, 5).unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ran);
    good.call_host(move || flag.store(true, Ordering::SeqCst))
        .unwrap();
    assert_eq!(good.read(&kept).unwrap(), [5; 1024]);
    assert!(ran.load(Ordering::SeqCst));
    drop(kept);
    assert_eq!(device.memory_stats().live_bytes, 0);
    check(&runtime);
}

struct DropWitness(Arc<AtomicBool>);

impl Drop for DropWitness {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A waker that panics, once it has noted that it was called.
struct Panics(AtomicBool);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("a panic that the test wants");
    }
}

#[test]
fn a_waker_that_panics_takes_nothing_with_it() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("s").unwrap();
    let mut buffer = stream.allocate::<u32>(1024).unwrap();
    let mut source = stream.pinned::<u32>(1024).unwrap();
    source.as_mut_slice().fill(5);
    let gate = Gate::on(&stream);
    let sent = stream.copy_to_device(source, &mut buffer).unwrap();
    let mut sent = Box::pin(sent);
    let panics = Arc::new(Panics(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&panics));
    let polled = sent.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending(), "the gate is shut");
    gate.open();
    stream.synchronize().unwrap();
    // The future is polled by somebody else now, and the stream goes on.
    let source = block_on(sent).unwrap();
    assert!(panics.0.load(Ordering::SeqCst));
    let landed = block_on(stream.copy_to_host(&buffer, source).unwrap()).unwrap();
    assert!(landed.as_slice().iter().all(|word| *word == 5));
    check(&runtime);
}
