//! Work starts by itself, and a host thread that waits runs what nobody else comes for. On threads alone: in virtual
//! time nothing runs unless a host waits. Nobody looks for ever: whoever has looked so often that work must have come has
//! found a lost wake.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]
#![expect(unsafe_code, reason = "submits to queues directly")]

use piton_driver::{
    Admission, Command, Device, DeviceId, Driver, FillPattern, Position, QueueOptions,
};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_stream::{Semaphore, Stream, StreamOptions, Streams};
use piton_sync::{
    atomic::{AtomicU32, Ordering},
    thread,
};
use piton_timeline::Timeline;
use std::{hint, panic::Location, sync::Arc, time::Duration};

struct Bench {
    _driver: SimDriver,
    device: Arc<dyn Device>,
    streams: Streams,
}

/// Machines with one worker and two, which spin before they sleep or do not. All of them sleep: none has ever had anything to
/// do.
fn benches() -> impl Iterator<Item = Bench> {
    let none = Some(Duration::ZERO);
    let ways = [(1, None), (2, None), (1, none), (2, none)];
    ways.into_iter().map(|(workers, spin)| {
        let device = DeviceConfig {
            memory_bytes: 1 << 20,
            page_bytes: 64 << 10,
            ..DeviceConfig::default()
        };
        let driver = SimDriver::new(SimConfig {
            workers: Some(workers),
            spin,
            ..SimConfig::uniform(1, &device)
        });
        let driver = driver.unwrap();
        Bench {
            device: driver.open(DeviceId(0)).unwrap(),
            streams: Streams::new(Timeline::new()),
            _driver: driver,
        }
    })
}

impl Bench {
    fn stream(&self) -> Stream {
        let options = StreamOptions::default();
        self.streams.create(&self.device, options).unwrap()
    }
}

/// Looks before work counts as lost: about a second on a quiet machine, and longer where the processor is busy with others.
const LOOKS: u32 = 3_000_000;
/// Turns of a loop that take longer than a worker naps before it sleeps.
const LONG: u32 = 2_000_000;

/// Looks until it is so, and helps nobody; says whether it came to be.
fn comes(is_so: impl Fn() -> bool) -> bool {
    comes_within(LOOKS, is_so)
}

fn comes_within(looks: u32, is_so: impl Fn() -> bool) -> bool {
    (0..looks).any(|_| {
        hint::spin_loop();
        is_so() || {
            thread::yield_now();
            false
        }
    })
}

/// Looks at a word until it is there.
#[track_caller]
fn watch(flag: &AtomicU32, value: u32) {
    let is_there = comes(|| flag.load(Ordering::Acquire) == value);
    assert!(is_there, "nobody has come for what is ready");
}

fn raises(flag: &Arc<AtomicU32>) -> impl FnOnce() + Send + 'static {
    let flag = Arc::clone(flag);
    move || {
        flag.fetch_add(1, Ordering::AcqRel);
    }
}

/// Sooner or later after the last piece the workers nap, and sleep: the loop goes through all of it.
#[test]
fn work_that_nobody_waits_for_starts_by_itself() {
    for bench in benches() {
        let (stream, flag) = (bench.stream(), Arc::new(AtomicU32::new(0)));
        for turn in 1..200 {
            stream.call_host(raises(&flag)).unwrap();
            watch(&flag, turn);
            // The worker goes from spinning to naps meanwhile, a little further each time, and sometimes to sleep.
            let turns = if turn % 50 == 0 { LONG } else { turn * 200 };
            (0..turns).for_each(|_| hint::spin_loop());
        }
    }
}

#[test]
fn work_of_many_streams_that_nobody_waits_for_starts_by_itself() {
    for bench in benches() {
        let flag = Arc::new(AtomicU32::new(0));
        for turn in 1..50 {
            let streams: Vec<_> = (0..8).map(|_| bench.stream()).collect();
            for stream in &streams {
                stream.call_host(raises(&flag)).unwrap();
            }
            drop(streams);
            watch(&flag, turn * 8);
        }
    }
}

#[test]
fn what_a_writer_leaves_behind_starts_at_its_end() {
    for bench in benches() {
        let queue = bench.device.queues().create(&QueueOptions::default());
        let (queue, at) = (queue.unwrap(), bench.device.memory().allocate(64).unwrap());
        for count in [1, 3, 16, 17, 100] {
            let mut writer = queue.writer().unwrap();
            let mut last = Position::START;
            for _ in 0..count {
                let command = Command::Fill {
                    dst: at,
                    pattern: FillPattern::Byte(1),
                    bytes: 64,
                };
                // SAFETY: nothing else uses the memory, which lives as long as the machine.
                let taken = unsafe { writer.submit(&command, Location::caller()) };
                match taken.unwrap() {
                    Admission::Accepted(position) => last = position,
                    Admission::Full => panic!("a queue holds more"),
                }
            }
            drop(writer);
            assert!(comes(|| queue.completed() >= last), "it has not started");
        }
    }
}

/// What a signal of the host sets going runs though nobody waits for it.
#[test]
fn a_stalled_stream_goes_on_by_itself() {
    for bench in benches() {
        let (stream, flag) = (bench.stream(), Arc::new(AtomicU32::new(0)));
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        for turn in 1..100 {
            stream.wait_semaphore(&gate, u64::from(turn)).unwrap();
            stream.call_host(raises(&flag)).unwrap();
            assert_eq!(flag.load(Ordering::Acquire), turn - 1);
            gate.signal(u64::from(turn)).unwrap();
            watch(&flag, turn);
        }
    }
}

type Function = Box<dyn FnOnce() + Send>;

/// A function that hands the next stream one like itself and waits until that has returned.
fn nested(mut streams: Vec<Stream>, returned: Arc<AtomicU32>) -> Function {
    Box::new(move || {
        if let Some(next) = streams.pop() {
            let inner = nested(streams, Arc::clone(&returned));
            next.call_host(inner).unwrap();
            next.synchronize().unwrap();
        }
        returned.fetch_add(1, Ordering::AcqRel);
    })
}

/// One thread would do for functions that wait for nothing.
#[test]
fn functions_run_while_others_wait_for_them() {
    const DEPTH: u32 = 6;
    for bench in benches() {
        let returned = Arc::new(AtomicU32::new(0));
        let streams: Vec<_> = (1..DEPTH).map(|_| bench.stream()).collect();
        let first = bench.stream();
        first
            .call_host(nested(streams, Arc::clone(&returned)))
            .unwrap();
        watch(&returned, DEPTH);
    }
}

/// What it waits for need not be the device's to know.
#[test]
fn a_function_runs_while_another_looks_for_what_it_writes() {
    for bench in benches() {
        let (a, b) = (bench.stream(), bench.stream());
        let (flag, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (looked_at, told) = (Arc::clone(&flag), Arc::clone(&seen));
        a.call_host(move || {
            let has_come = comes_within(LOOKS / 3, || looked_at.load(Ordering::Acquire) == 1);
            told.store(1 + u32::from(has_come), Ordering::Release);
        })
        .unwrap();
        a.flush().unwrap();
        b.call_host(raises(&flag)).unwrap();
        b.flush().unwrap();
        assert!(comes(|| seen.load(Ordering::Acquire) > 0));
        assert_eq!(seen.load(Ordering::Acquire), 2, "it looked in vain");
    }
}

/// A machine with so many workers, each of which is in a kernel until the gate is opened.
struct Held {
    _driver: SimDriver,
    device: Arc<dyn Device>,
    streams: Streams,
    holding: Vec<Stream>,
    gate: Arc<AtomicU32>,
}

impl Held {
    fn new(workers: u32) -> Self {
        use piton_driver::{Grid, Launch, ModuleImage, Signature};
        use piton_sim::{KernelDefinition, SimModule};
        let device = DeviceConfig {
            memory_bytes: 1 << 20,
            page_bytes: 64 << 10,
            ..DeviceConfig::default()
        };
        let driver = SimDriver::new(SimConfig {
            workers: Some(workers),
            ..SimConfig::uniform(1, &device)
        });
        let driver = driver.unwrap();
        let (inside, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (entered, opened) = (Arc::clone(&inside), Arc::clone(&gate));
        // It lets go of its worker in the end: a host that does not help fails then, and does not hang.
        let hold = KernelDefinition::new("hold", Signature::new([]), move |_| {
            entered.fetch_add(1, Ordering::AcqRel);
            comes_within(LOOKS / 3, || opened.load(Ordering::Acquire) == 1);
            Ok(())
        });
        driver.register(SimModule::new("m").with(hold));
        let device = driver.open(DeviceId(0)).unwrap();
        let module = device.kernels().load(ModuleImage::Registered("m"));
        let kernel = module.unwrap().kernel("hold").unwrap();
        let streams = Streams::new(Timeline::new());
        let make = || streams.create(&device, StreamOptions::default()).unwrap();
        let holding: Vec<_> = (0..workers).map(|_| make()).collect();
        for stream in &holding {
            // SAFETY: the kernel names no memory.
            unsafe { stream.launch(Launch::new(&kernel, Grid::linear(1), &[])) }.unwrap();
            stream.flush().unwrap();
        }
        watch(&inside, workers);
        Self {
            _driver: driver,
            device,
            streams,
            holding,
            gate,
        }
    }

    /// A stream with so many commands.
    fn stream(&self, commands: usize) -> Stream {
        let options = StreamOptions::default();
        let own = self.streams.create(&self.device, options).unwrap();
        let at = self.device.memory().allocate(64).unwrap();
        for _ in 0..commands {
            // SAFETY: nothing else uses the memory, which lives as long as the machine.
            unsafe { own.fill(at, FillPattern::Byte(1), 64) }.unwrap();
        }
        own
    }

    fn open(self) {
        let is_held = self.holding.iter().all(|stream| stream.depth() == 1);
        assert!(is_held, "the host got through when a worker was free");
        self.gate.store(1, Ordering::Release);
        let over = || self.holding.iter().all(|stream| stream.depth() == 0);
        assert!(comes(over), "a worker is lost");
    }
}

/// Kernels hold every worker until the host has got through a stream of its own: it runs that itself.
#[test]
fn a_waiting_host_runs_what_the_workers_are_too_busy_for() {
    for workers in [1, 2] {
        let held = Held::new(workers);
        held.stream(50).synchronize().unwrap();
        held.open();
    }
}

/// The host runs the stream it waits for, wakes another by that, and has no more to do with it.
#[test]
fn what_a_helping_host_has_woken_runs_when_the_host_has_left() {
    for workers in [1, 2] {
        let held = Held::new(workers);
        let (own, other) = (held.stream(20), held.stream(0));
        other.wait(&own.record()).unwrap();
        let flag = Arc::new(AtomicU32::new(0));
        other.call_host(raises(&flag)).unwrap();
        own.synchronize().unwrap();
        held.open();
        watch(&flag, 1);
    }
}
