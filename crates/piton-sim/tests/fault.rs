//! A fault at every driver call of a short pipeline: each is a typed error, and nothing stays behind.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Admission, Device, DeviceId, DeviceRange, Driver, DriverError, ErrorKind, HostFunction,
    ModuleImage, PeerAddress, Position, Queue, QueueOptions, Semaphore, SignalledBy, WaitOutcome,
};
use piton_sim::{FaultPlan, MemoryCounters, ScheduleOrder, SimConfig, SimDriver, Trigger};
use std::panic::Location;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use support::{
    KIB, Pinned, config, copy_to_peer, fill, free, launch, map, module, release, transfer, unmap,
};

const PAGE: u64 = 64 * KIB;

/// What is to be undone, in reverse. Each may be refused once by the plan under test and is then tried again.
#[derive(Default)]
struct Held {
    queues: Vec<Arc<dyn Queue>>,
    /// What a queue may wait for that nobody signals any more.
    semaphore: Option<Arc<dyn Semaphore>>,
    undo: Vec<Box<dyn FnMut() -> Result<(), DriverError>>>,
}

impl Held {
    fn push(&mut self, undo: impl FnMut() -> Result<(), DriverError> + 'static) {
        self.undo.push(Box::new(undo));
    }

    fn queue(&mut self, device: &Arc<dyn Device>) -> Result<Arc<dyn Queue>, DriverError> {
        let queue = device.queues().create(&QueueOptions::default())?;
        self.queues.push(Arc::clone(&queue));
        Ok(queue)
    }

    fn give_back(self) {
        if let Some(semaphore) = self.semaphore.filter(|semaphore| semaphore.value() == 0) {
            retry(|| semaphore.signal(1));
        }
        for queue in &self.queues {
            let last = queue.submitted();
            retry(|| {
                queue
                    .wait(last, None)
                    .map(|outcome| assert_eq!(outcome, WaitOutcome::Reached))
            });
        }
        for mut undo in self.undo.into_iter().rev() {
            retry(&mut *undo);
        }
    }
}

/// Tries again what the plan made fail; a lost device refuses for ever, and takes what it holds with it.
fn retry(mut call: impl FnMut() -> Result<(), DriverError>) {
    match call() {
        Ok(()) => {}
        Err(error) if error.is_device_lost() => {}
        Err(error) => {
            assert!(matches!(error.kind, ErrorKind::Injected { .. }), "{error}");
            match call() {
                Err(error) if !error.is_device_lost() => panic!("refused twice: {error}"),
                _ => {}
            }
        }
    }
}

fn position(admission: Admission) -> Position {
    match admission {
        Admission::Accepted(position) => position,
        Admission::Full => panic!("a short pipeline fills no queue"),
    }
}

/// Memory of each kind, copies of each kind, a kernel, a host function, waits of each kind, a timestamp.
fn pipeline(driver: &SimDriver, held: &mut Held) -> Result<Vec<u32>, DriverError> {
    let device = driver.open(DeviceId(0))?;
    let other = driver.open(DeviceId(1))?;
    let kernel = device
        .kernels()
        .load(ModuleImage::Registered("test"))?
        .kernel("add")?;
    let (copies, compute) = (held.queue(&device)?, held.queue(&device)?);

    let plain = device.memory().allocate(PAGE)?;
    let owner = Arc::clone(&device);
    held.push(move || free(&owner, plain));
    let remote = other.memory().allocate(PAGE)?;
    let owner = Arc::clone(&other);
    held.push(move || free(&owner, remote));
    let mapped = map_pages(&device, held)?;
    let host = Arc::new(std::sync::Mutex::new(Pinned::try_new(&device, &[1; 256])?));
    let owner = Arc::clone(&host);
    held.push(move || owner.lock().unwrap().give_back());
    let host = host.lock().unwrap();

    let sent = position(transfer(&copies, &host, mapped.start, true)?);
    position(compute.wait_for(&*copies, sent)?);
    position(launch(&compute, &kernel, 1, mapped.start, 4)?);
    position(fill(&compute, plain, 9, PAGE)?);
    let calls = call_host(&device, &compute)?;
    let semaphores = device.semaphores().unwrap();
    let semaphore = semaphores.create(0, SignalledBy::Anyone)?;
    held.semaphore = Some(Arc::clone(&semaphore));
    position(compute.signal_semaphore(&semaphore, 1)?);
    position(copies.wait_semaphore(&semaphore, 1)?);
    let clock = device.timestamps().unwrap();
    let times = clock.create(1)?;
    position(compute.write_timestamp(&times, 0)?);
    device.peers().unwrap().enable(DeviceId(1))?;
    let there = PeerAddress {
        device: DeviceId(1),
        ptr: remote,
    };
    position(copy_to_peer(&device, &copies, there, mapped.start, 1024)?);
    let last = position(transfer(&copies, &host, mapped.start, false)?);
    copies.notify(last, std::task::Waker::noop())?;
    copies.flush()?;
    // A failed queue gives no signal, so its failure is looked at before anything waits for one.
    finish(&compute, compute.submitted())?;
    finish(&copies, last)?;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    device.memory().usage()?;
    Ok(host.words())
}

fn finish(queue: &Arc<dyn Queue>, last: Position) -> Result<(), DriverError> {
    assert_eq!(queue.wait(last, None)?, WaitOutcome::Reached);
    queue.failure().map_or(Ok(()), |failure| Err(failure.error))
}

fn map_pages(device: &Arc<dyn Device>, held: &mut Held) -> Result<DeviceRange, DriverError> {
    let pages = device.virtual_memory().unwrap();
    let range = pages.reserve(2 * PAGE)?;
    let owner = Arc::clone(device);
    held.push(move || release(&owner, range));
    let handle = pages.create(2 * PAGE)?;
    let owner = Arc::clone(device);
    held.push(move || owner.virtual_memory().unwrap().destroy(handle));
    map(device, range.start, handle)?;
    let owner = Arc::clone(device);
    held.push(move || unmap(&owner, range));
    Ok(range)
}

fn call_host(
    device: &Arc<dyn Device>,
    queue: &Arc<dyn Queue>,
) -> Result<Arc<AtomicU32>, DriverError> {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    let mut function: Option<HostFunction> = Some(Box::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let admission =
        device
            .host_functions()
            .unwrap()
            .call(&**queue, &mut function, Location::caller());
    assert_eq!(
        function.is_some(),
        admission.is_err(),
        "a refused function is left"
    );
    position(admission?);
    Ok(calls)
}

fn nothing_is_held(driver: &SimDriver, id: DeviceId) -> bool {
    let counters = driver.device(id).unwrap().memory_counters();
    let peak_held = counters.peak_held;
    counters
        == MemoryCounters {
            peak_held,
            ..MemoryCounters::default()
        }
}

/// Runs the pipeline with one fault at the n-th call, for every n until nothing fires; returns how many did.
fn walk(
    config: &SimConfig,
    trigger: impl Fn(u64) -> Trigger,
    after: impl Fn(&SimDriver, Result<Vec<u32>, DriverError>),
) -> u64 {
    for n in 1.. {
        let driver = SimDriver::new(config.clone()).unwrap();
        driver.register(module());
        driver.set_faults(FaultPlan::new().with(trigger(n)));
        let mut held = Held::default();
        let result = pipeline(&driver, &mut held);
        held.give_back();
        for id in [DeviceId(0), DeviceId(1)] {
            assert!(driver.device(id).unwrap().check(), "books after call {n}");
        }
        if driver.faults_fired() == 0 {
            assert_eq!(result, Ok(vec![5; 256]));
            return n - 1;
        }
        after(&driver, result);
    }
    unreachable!("a pipeline has an end")
}

fn each_way(test: impl Fn(&SimConfig)) {
    test(&config(2).in_virtual_time(3, ScheduleOrder::ByTime));
    test(&config(2).in_virtual_time(3, ScheduleOrder::Seeded));
    test(&SimConfig {
        workers: Some(2),
        ..config(2)
    });
}

#[test]
fn a_call_that_fails_leaves_nothing_behind() {
    each_way(|config| {
        let fired = walk(config, Trigger::Call, |driver, result| {
            // The faults of calls that give things back are met after the pipeline.
            if let Err(error) = result {
                assert!(matches!(error.kind, ErrorKind::Injected { .. }), "{error}");
            }
            assert!(nothing_is_held(driver, DeviceId(0)) && nothing_is_held(driver, DeviceId(1)));
        });
        assert!(fired > 35, "the pipeline makes {fired} calls");
    });
}

#[test]
fn a_device_lost_at_any_call_ends_everything() {
    each_way(|config| {
        walk(
            config,
            |n| Trigger::LoseDevice(DeviceId(0), n),
            |driver, result| {
                if let Err(error) = result {
                    let is_loss = error.is_device_lost()
                        || matches!(error.kind, ErrorKind::DependencyFailed { .. });
                    assert!(is_loss, "{error}");
                }
                assert!(
                    nothing_is_held(driver, DeviceId(1)),
                    "the other device works on"
                );
            },
        );
    });
}

#[test]
fn a_kernel_that_traps_fails_the_pipeline_and_leaves_nothing_behind() {
    each_way(|config| {
        let fired = walk(
            config,
            |n| Trigger::TrapKernel(n, 5),
            |driver, result| {
                assert!(result.is_err());
                assert!(
                    nothing_is_held(driver, DeviceId(0)) && nothing_is_held(driver, DeviceId(1))
                );
            },
        );
        assert_eq!(fired, 1, "the pipeline has one kernel");
    });
}

#[test]
fn a_cut_link_fails_the_copy_over_it() {
    each_way(|config| {
        let driver = SimDriver::new(config.clone()).unwrap();
        driver.register(module());
        driver.set_faults(FaultPlan::new().with(Trigger::CutLink(DeviceId(1), DeviceId(0))));
        let mut held = Held::default();
        let result = pipeline(&driver, &mut held);
        held.give_back();
        let (from, to) = (DeviceId(0), DeviceId(1));
        assert_eq!(result.unwrap_err().kind, ErrorKind::NotPeers { from, to });
        assert!(nothing_is_held(&driver, from) && nothing_is_held(&driver, to));
    });
}
