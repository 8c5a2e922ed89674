//! Semaphores of an OpenCL device that another process raises and waits for too.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/process.rs"]
mod child;
#[path = "../../piton-sim/tests/child/signalled.rs"]
#[expect(dead_code, reason = "OpenCL shares no pages")]
mod signalled;

use child::in_child;
use piton_driver::{DeviceId, Driver};

#[test]
fn queues_of_two_processes_take_turns() {
    let test = "queues_of_two_processes_take_turns";
    in_child(test, |driver| {
        let device = Driver::open(&driver, DeviceId(0)).unwrap();
        signalled::queues_of_two_processes_take_turns(test, &*device);
    });
}
