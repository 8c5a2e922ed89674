//! A fork has none of the threads that run machines, and is told so. Alone in its program: other tests' threads would hold
//! locks of the system's and of the libraries' when it forks.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "support/forking.rs"]
mod forking;
mod support;

use forking::in_a_fork;
use piton_driver::{Device, ErrorKind, HostFunction, WaitOutcome};
use piton_sim::{ScheduleOrder, SimConfig, SimDriver, SimError};
use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use support::{accepted, config, fill, machine, queue, read};

/// Whether commands of this device run, a host function with them.
fn works(device: &Arc<dyn Device>) -> bool {
    let (queue, flag) = (queue(device), Arc::new(AtomicBool::new(false)));
    let memory = device.memory().allocate(1024).unwrap();
    accepted(fill(&queue, memory, 7, 1024));
    let raised = Arc::clone(&flag);
    let raise = move || raised.store(true, Ordering::Release);
    let mut function: Option<HostFunction> = Some(Box::new(raise));
    let calls = device.host_functions().unwrap();
    accepted(calls.call(&*queue, &mut function, Location::caller()));
    queue.wait(queue.submitted(), None) == Ok(WaitOutcome::Reached)
        && flag.load(Ordering::Acquire)
        && read(device, memory, 256) == [7; 256]
}

fn is_refused(config: SimConfig) -> bool {
    let is_forked =
        |error| matches!(error, SimError::Driver(error) if error.kind == ErrorKind::Forked);
    SimDriver::new(config).is_err_and(is_forked)
}

/// A machine in real time would have the parent's threads, which are not there.
#[test]
fn a_machine_made_in_a_fork_is_refused_in_real_time_and_works_in_virtual_time() {
    let real = |workers| SimConfig {
        workers,
        ..config(1)
    };
    let (_driver, device) = machine(real(None));
    assert!(works(&device));
    let holds_in_forks = || {
        let (_driver, device) = machine(config(1).in_virtual_time(1, ScheduleOrder::Seeded));
        is_refused(real(None)) && is_refused(real(Some(1))) && works(&device)
    };
    let in_a_child = || holds_in_forks() && in_a_fork(|| i32::from(holds_in_forks())) == 1;
    assert_eq!(in_a_fork(|| i32::from(in_a_child())), 1);
    let (_second, other) = machine(real(None));
    assert!(works(&device) && works(&other), "the parent is as it was");
}
