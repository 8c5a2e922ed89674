//! What a program hands over may panic when it is let go of: the device's threads outlive that, and its queues go on.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{
    Command, Device, DeviceId, Driver, FillPattern, GraphDescription, GraphNode, HostFunction,
    ModuleImage, NodeWork, Position, Queue, Signature, WaitOutcome,
};
use piton_sim::{KernelDefinition, ScheduleOrder, SimConfig, SimDriver, SimModule};
use std::{
    panic::{Location, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use support::{accepted, comes, config, ends, fill, queue};

/// Panics when it is dropped, without a message on the terminal, and counts that.
struct Bomb(Arc<AtomicU32>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        resume_unwind(Box::new(()));
    }
}

fn configs() -> Vec<SimConfig> {
    let mut config = config(1);
    config.devices[0].hardware_queues = 1;
    let real = |workers| SimConfig {
        workers: Some(workers),
        ..config.clone()
    };
    let seeded = |seed| config.clone().in_virtual_time(seed, ScheduleOrder::Seeded);
    vec![real(1), real(2), seeded(0), seeded(1)]
}

fn call(device: &Arc<dyn Device>, queue: &Arc<dyn Queue>, function: HostFunction) -> Position {
    let calls = device.host_functions().unwrap();
    accepted(calls.call(&**queue, &mut Some(function), Location::caller()))
}

/// Another queue, on the same hardware queue, runs.
#[track_caller]
fn others_run(config: &SimConfig, device: &Arc<dyn Device>) {
    let (other, memory) = (queue(device), device.memory().allocate(1024).unwrap());
    let last = accepted(fill(&other, memory, 1, 1024));
    ends(config, &other, last);
}

#[test]
fn a_skipped_host_function_may_panic_as_it_goes() {
    for config in configs() {
        let driver = SimDriver::new(config.clone()).unwrap();
        let device = driver.open(DeviceId(0)).unwrap();
        let (queue, bombs) = (queue(&device), Arc::new(AtomicU32::new(0)));
        call(&device, &queue, Box::new(|| resume_unwind(Box::new(()))));
        let bomb = Bomb(Arc::clone(&bombs));
        let last = call(&device, &queue, Box::new(move || drop(bomb)));
        ends(&config, &queue, last);
        assert_eq!(bombs.load(Ordering::Acquire), 1);
        others_run(&config, &device);
    }
}

/// A panic carries a value, whose destructor is the program's too.
#[test]
fn what_a_panic_carries_may_panic_as_it_goes() {
    for config in configs() {
        let driver = SimDriver::new(config.clone()).unwrap();
        let device = driver.open(DeviceId(0)).unwrap();
        let (queue, bombs) = (queue(&device), Arc::new(AtomicU32::new(0)));
        let bomb = Bomb(Arc::clone(&bombs));
        let last = call(
            &device,
            &queue,
            Box::new(move || resume_unwind(Box::new(bomb))),
        );
        ends(&config, &queue, last);
        assert_eq!(bombs.load(Ordering::Acquire), 1);
        others_run(&config, &device);
    }
}

#[test]
fn what_a_graph_keeps_may_panic_as_it_goes_with_the_last_replay() {
    for config in configs() {
        let driver = SimDriver::new(config.clone()).unwrap();
        let device = driver.open(DeviceId(0)).unwrap();
        let (queue, bombs) = (queue(&device), Arc::new(AtomicU32::new(0)));
        let memory = device.memory().allocate(1024).unwrap();
        let work = NodeWork::Fill {
            dst: memory,
            pattern: FillPattern::Byte(1),
            bytes: 1024,
        };
        let origin = Location::caller();
        let node = GraphNode {
            work,
            after: Vec::new(),
            origin,
        };
        let description = GraphDescription {
            nodes: vec![node],
            kept: vec![Arc::new(Bomb(Arc::clone(&bombs)))],
        };
        let graph = device.graphs().unwrap().instantiate(description).unwrap();
        // Held back until the host has let go of the graph: the replay has it alone then.
        let semaphores = device.semaphores().unwrap();
        let semaphore = semaphores
            .create(0, piton_driver::SignalledBy::Anyone)
            .unwrap();
        accepted(queue.wait_semaphore(&semaphore, 1));
        // SAFETY: the memory goes with the machine.
        let replay = unsafe { queue.submit(&Command::RunGraph { graph: &graph }, origin) };
        let last = accepted(replay);
        drop(graph);
        semaphore.signal(1).unwrap();
        ends(&config, &queue, last);
        assert_eq!(bombs.load(Ordering::Acquire), 1);
        others_run(&config, &device);
    }
}

/// Kernels go with the last that names them: a queue, and the machine behind it.
#[test]
fn a_kernel_may_panic_as_it_goes() {
    for config in configs() {
        let bombs = Arc::new(AtomicU32::new(0));
        let bomb = Bomb(Arc::clone(&bombs));
        let driver = SimDriver::new(config).unwrap();
        let run = move |_: &piton_sim::Block<'_>| {
            let _held = &bomb;
            Ok(())
        };
        let kernel = KernelDefinition::new("k", Signature::new([]), run);
        driver.register(SimModule::new("m").with(kernel));
        let device = driver.open(DeviceId(0)).unwrap();
        let module = device.kernels().load(ModuleImage::Registered("m")).unwrap();
        let kernel = module.kernel("k").unwrap();
        let queue = queue(&device);
        let launch = piton_driver::Launch::new(&kernel, piton_driver::Grid::linear(1), &[]);
        // SAFETY: the kernel names no memory.
        accepted(unsafe { queue.launch(&launch) });
        assert_eq!(
            queue.wait(queue.submitted(), None),
            Ok(WaitOutcome::Reached)
        );
        drop((kernel, module, queue, device, driver));
        // A worker may be the last to let go.
        assert!(comes(|| bombs.load(Ordering::Acquire) == 1));
    }
}
