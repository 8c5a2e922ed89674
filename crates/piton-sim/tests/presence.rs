//! Machines whose handles are gone, and forks of the process that made them.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "commands on memory are unsafe")]

#[path = "support/forking.rs"]
mod forking;
mod support;

use forking::in_a_fork;

use piton_driver::{
    Command, Comparison, ErrorKind, MemoryWait, MemoryWord, QueueOptions, SignalledBy,
};
use piton_sim::{ScheduleOrder, SimConfig};
use std::{panic::Location, sync::Arc};
use support::{accepted, config, fill, machine, queue};

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
