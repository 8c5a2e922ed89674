//! Machines whose handles are gone, and forks of the process that made them.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "commands on memory are unsafe")]

#[path = "support/forking.rs"]
mod forking;
mod support;

use forking::in_a_fork;

use piton_driver::{
    Command, Comparison, DeviceId, Driver, ErrorKind, MemoryWait, MemoryWord, PeerAddress,
    Position, QueueActivity, QueueOptions, SignalledBy, Signature, WaitOutcome,
};
use piton_sim::{KernelDefinition, ScheduleOrder, SimConfig, SimDriver, SimModule};
use std::{panic::Location, sync::Arc};
use support::{accepted, config, copy_to_peer, fill, machine, queue};

fn configs() -> Vec<SimConfig> {
    let real = |workers| SimConfig {
        workers: Some(workers),
        ..config(1)
    };
    let seeded = |seed| config(1).in_virtual_time(seed, ScheduleOrder::Seeded);
    vec![real(1), real(2), seeded(0), seeded(1)]
}

/// A host function that shows, by what it holds, whether it is still kept somewhere.
fn leave_a_trace(
    queue: &Arc<dyn piton_driver::Queue>,
    device: &Arc<dyn piton_driver::Device>,
) -> std::sync::Weak<()> {
    let token = Arc::new(());
    let kept = Arc::downgrade(&token);
    let mut function: Option<piton_driver::HostFunction> = Some(Box::new(move || drop(token)));
    let calls = device.host_functions().unwrap();
    accepted(calls.call(&**queue, &mut function, Location::caller()));
    kept
}

/// What shows whether the machine is still there: a kernel that it keeps holds it.
fn mark(driver: &SimDriver) -> std::sync::Weak<()> {
    let token = Arc::new(());
    let there = Arc::downgrade(&token);
    let kernel = KernelDefinition::new("mark", Signature::new([]), move |_| {
        let _held = &token;
        Ok(())
    });
    driver.register(SimModule::new("mark").with(kernel));
    there
}

fn wait_until_gone(kept: &std::sync::Weak<()>) {
    while kept.strong_count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_wait_for_a_value_that_nobody_can_write_any_more_goes_with_the_last_handle() {
    for config in configs() {
        let (driver, device) = machine(config);
        let queue = queue(&device);
        let memory = device.memory().allocate(1024).unwrap();
        accepted(fill(&queue, memory, 0, 1024));
        let wait = Command::WaitMemory(MemoryWait {
            at: memory,
            comparison: Comparison::Equal,
            value: MemoryWord::U32(1),
        });
        // SAFETY: the memory goes with the machine.
        accepted(unsafe { queue.submit(&wait, Location::caller()) });
        let kept = leave_a_trace(&queue, &device);
        let now = Some(std::time::Instant::now());
        let _ = queue.wait(queue.submitted(), now).unwrap();
        drop((queue, device, driver));
        wait_until_gone(&kept);
    }
}

#[test]
fn a_wait_for_a_semaphore_goes_with_its_last_handle() {
    for config in configs() {
        let (driver, device) = machine(config);
        let (queue, second) = (queue(&device), queue(&device));
        let semaphore = device
            .semaphores()
            .unwrap()
            .create(0, SignalledBy::Anyone)
            .unwrap();
        accepted(queue.wait_semaphore(&semaphore, 1));
        accepted(second.wait_for(&*queue, queue.submitted()));
        let kept = [
            leave_a_trace(&queue, &device),
            leave_a_trace(&second, &device),
        ];
        drop((driver, device, queue, second));
        drop(semaphore);
        kept.iter().for_each(wait_until_gone);
    }
}

#[test]
fn work_that_nobody_drives_in_virtual_time_is_dropped() {
    let (driver, device) = machine(config(1).in_virtual_time(0, ScheduleOrder::ByTime));
    let queue = queue(&device);
    let kept = leave_a_trace(&queue, &device);
    drop((driver, device, queue));
    assert_eq!(kept.strong_count(), 0);
}

#[test]
fn queues_that_wait_for_each_other_in_virtual_time_go_with_the_last_handle() {
    let orders = [ScheduleOrder::ByTime, ScheduleOrder::Seeded];
    for (order, seed) in orders
        .into_iter()
        .flat_map(|order| [(order, 0), (order, 1)])
    {
        // One hardware queue: some wait for the other's end, some for their turn on it.
        let mut config = config(1).in_virtual_time(seed, order);
        config.devices[0].hardware_queues = 1;
        let (driver, device) = machine(config);
        let queues = [queue(&device), queue(&device), queue(&device)];
        let memory = device.memory().allocate(1024).unwrap();
        for turn in 0..30 {
            let (mine, next) = (&queues[turn % 3], &queues[(turn + 1) % 3]);
            accepted(fill(mine, memory, 0, 1024));
            accepted(next.wait_for(&**mine, mine.submitted()));
        }
        let [first, second, third] = &queues;
        let kept = [first, second, third].map(|queue| leave_a_trace(queue, &device));
        let there = mark(&driver);
        let some = Position::new(5);
        assert_eq!(queues[0].wait(some, None), Ok(WaitOutcome::Reached));
        drop((driver, device, queues));
        let gone = |kept: &std::sync::Weak<()>| kept.strong_count() == 0;
        assert!(kept.iter().chain([&there]).all(gone));
    }
}

#[test]
fn a_wait_for_a_semaphore_that_another_queue_signals_goes_with_the_last_handle_in_virtual_time() {
    let (driver, device) = machine(config(1).in_virtual_time(0, ScheduleOrder::ByTime));
    let queues = [queue(&device), queue(&device), queue(&device)];
    let semaphores = device.semaphores().unwrap();
    let semaphore = semaphores.create(0, SignalledBy::Queues).unwrap();
    accepted(queues[0].wait_semaphore(&semaphore, 1));
    let memory = device.memory().allocate(1024).unwrap();
    while !matches!(queues[0].activity(), QueueActivity::Waiting(..)) {
        let filled = accepted(fill(&queues[2], memory, 0, 1024));
        assert_eq!(queues[2].wait(filled, None), Ok(WaitOutcome::Reached));
    }
    accepted(queues[1].signal_semaphore(&semaphore, 1));
    let there = mark(&driver);
    drop((driver, device, queues, semaphore));
    assert_eq!(there.strong_count(), 0);
}

#[test]
fn a_copy_that_waits_for_its_engine_goes_with_the_last_handle_in_virtual_time() {
    let mut config = config(2).in_virtual_time(0, ScheduleOrder::ByTime);
    config.devices[0].peer_engines = 1;
    let (driver, device) = machine(config);
    let other = driver.open(DeviceId(1)).unwrap();
    device.peers().unwrap().enable(DeviceId(1)).unwrap();
    let source = device.memory().allocate(1 << 20).unwrap();
    let target = PeerAddress {
        device: DeviceId(1),
        ptr: other.memory().allocate(1 << 20).unwrap(),
    };
    let queues = [(); 4].map(|()| queue(&device));
    for queue in queues.iter().cycle().take(16) {
        accepted(copy_to_peer(&device, queue, target, source, 1 << 20));
    }
    let first = queues[0].wait(Position::new(1), None);
    assert_eq!(first, Ok(WaitOutcome::Reached));
    let there = mark(&driver);
    drop((driver, device, other, queues));
    assert_eq!(there.strong_count(), 0);
}

#[test]
fn a_fork_is_told_that_the_device_stayed_behind() {
    let (_driver, device) = machine(SimConfig {
        workers: Some(1),
        ..config(1)
    });
    let queue = queue(&device);
    let memory = device.memory().allocate(1024).unwrap();
    let last = accepted(fill(&queue, memory, 1, 1024));
    let forked = |error: piton_driver::DriverError| error.kind == ErrorKind::Forked;
    let code = in_a_fork(|| {
        let answers = [
            fill(&queue, memory, 2, 1024).is_err_and(forked),
            queue.wait(last, None).is_err_and(forked),
            queue.flush().is_err_and(forked),
            queue.writer().is_none(),
            device.status().is_err_and(forked),
            device.memory().allocate(64).is_err_and(forked),
            device
                .queues()
                .create(&QueueOptions::default())
                .is_err_and(forked),
        ];
        i32::from(answers.iter().all(|answer| *answer))
    });
    assert_eq!(code, 1, "every call in the fork says so");
    assert_eq!(
        queue.wait(last, None),
        Ok(piton_driver::WaitOutcome::Reached)
    );
    accepted(fill(&queue, memory, 2, 1024));
}
