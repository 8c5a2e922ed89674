//! Queues that a host thread holds, to carry out itself what it submits.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{
    Device, Grid, Kernel, Launch, ModuleImage, Position, Queue, Semaphore, SignalledBy, Signature,
};
use piton_sim::{KernelDefinition, ScheduleOrder, SimDriver, SimModule};
use std::{
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};
use support::{accepted, comes, config, machine, queue};

/// A device, and the threads that have run its one kernel.
struct Bench {
    driver: SimDriver,
    device: Arc<dyn Device>,
    kernel: Arc<dyn Kernel>,
    ran_on: Arc<Mutex<Vec<ThreadId>>>,
}

impl Bench {
    fn new() -> Self {
        let (driver, device) = machine(config(1));
        let ran_on = Arc::new(Mutex::new(Vec::new()));
        let ran = Arc::clone(&ran_on);
        let kernel = KernelDefinition::new("whose", Signature::new([]), move |_| {
            ran.lock().unwrap().push(thread::current().id());
            Ok(())
        });
        driver.register(SimModule::new("threads").with(kernel));
        let module = device.kernels().load(ModuleImage::Registered("threads"));
        let kernel = module.unwrap().kernel("whose").unwrap();
        Self {
            driver,
            device,
            kernel,
            ran_on,
        }
    }

    fn launch(&self, queue: &Arc<dyn Queue>) -> Position {
        let launch = Launch::new(&self.kernel, Grid::linear(1), &[]);
        // SAFETY: it names no memory.
        accepted(unsafe { queue.launch(&launch) })
    }

    fn gate(&self, queue: &Arc<dyn Queue>) -> Arc<dyn Semaphore> {
        let semaphores = self.device.semaphores().unwrap();
        let gate = semaphores.create(0, SignalledBy::Anyone).unwrap();
        accepted(queue.wait_semaphore(&gate, 1));
        gate
    }
}

/// It ends, though nobody waits for it.
#[track_caller]
fn ends(queue: &Arc<dyn Queue>, position: Position) {
    assert!(comes(|| queue.completed() >= position));
}

#[test]
fn the_holder_carries_out_what_it_submits() {
    let bench = Bench::new();
    let queue = queue(&bench.device);
    for _ in 0..100 {
        let hold = queue.hold().unwrap();
        let position = bench.launch(&queue);
        hold.help(position);
        assert_eq!(queue.completed(), position);
    }
    let here = thread::current().id();
    assert_eq!(*bench.ran_on.lock().unwrap(), vec![here; 100]);
}

#[test]
fn what_was_submitted_starts_when_the_hold_is_dropped() {
    let bench = Bench::new();
    let queue = queue(&bench.device);
    let hold = queue.hold().unwrap();
    let position = bench.launch(&queue);
    assert_eq!(queue.completed(), Position::START);
    drop(hold);
    ends(&queue, position);
    // And one that nothing was submitted under leaves the queue as it was.
    assert!(comes(|| queue.hold().is_some()));
    let position = bench.launch(&queue);
    ends(&queue, position);
}

#[test]
fn helping_ends_where_something_has_to_be_waited_for() {
    let bench = Bench::new();
    let queue = queue(&bench.device);
    let hold = queue.hold().unwrap();
    let gate = bench.gate(&queue);
    let position = bench.launch(&queue);
    hold.help(position);
    assert_eq!(queue.completed(), Position::START);
    assert!(queue.hold().is_none(), "it has work");
    gate.signal(1).unwrap();
    ends(&queue, position);
}

#[test]
fn a_helper_stops_at_its_own_and_what_others_submitted_starts() {
    let bench = Bench::new();
    let queue = queue(&bench.device);
    let hold = queue.hold().unwrap();
    let own = bench.launch(&queue);
    let others: Vec<Position> = (0..40).map(|_| bench.launch(&queue)).collect();
    hold.help(own);
    assert!(queue.completed() >= own);
    ends(&queue, *others.last().unwrap());
}

#[test]
fn what_is_busy_held_lost_or_in_virtual_time_is_not_held() {
    let bench = Bench::new();
    let queue = queue(&bench.device);
    let hold = queue.hold().unwrap();
    assert!(queue.hold().is_none(), "held");
    drop(hold);
    let gate = bench.gate(&queue);
    assert!(queue.hold().is_none(), "busy");
    gate.signal(1).unwrap();
    ends(&queue, queue.submitted());
    bench.driver.lose(bench.device.info().id);
    assert!(queue.hold().is_none(), "lost");
    let config = config(1).in_virtual_time(1, ScheduleOrder::ByTime);
    let (_driver, device) = machine(config);
    assert!(support::queue(&device).hold().is_none());
}
