//! Semaphores of a simulated device that another process raises and waits for too.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/signalled.rs"]
mod signalled;

use piton_driver::{Device, DeviceId, Driver, QueueOptions};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use std::sync::Arc;

fn device() -> Arc<dyn Device> {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    Driver::open(&driver, DeviceId(0)).unwrap()
}

#[test]
fn queues_of_two_processes_take_turns() {
    let test = "queues_of_two_processes_take_turns";
    signalled::queues_of_two_processes_take_turns(test, &*device());
}

#[test]
fn what_one_process_wrote_another_reads() {
    let test = "what_one_process_wrote_another_reads";
    signalled::what_one_process_wrote_another_reads(test, &*device());
}

/// A driver does not know that what it imports came from another driver of this process.
#[test]
fn queues_of_two_drivers_meet_at_a_semaphore() {
    let (first, second) = (device(), device());
    let own = first.semaphore_sharing().unwrap().create(0).unwrap();
    let exported = first.semaphore_sharing().unwrap().export(&*own).unwrap();
    let other = second
        .semaphore_sharing()
        .unwrap()
        .import(&exported)
        .unwrap();
    let queues = [&first, &second].map(|device| {
        let queue = device.queues().create(&QueueOptions::default());
        queue.unwrap()
    });
    let _accepted = queues[1].wait_semaphore(&other, 1).unwrap();
    let _accepted = queues[0].signal_semaphore(&own, 1).unwrap();
    for queue in queues {
        let _reached = queue.wait(queue.submitted(), None).unwrap();
        assert_eq!(queue.failure(), None);
    }
}
