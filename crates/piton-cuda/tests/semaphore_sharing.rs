//! Queues of two processes that order each other, through the stand-in, each of which has devices of its own.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../piton-sim/tests/child/signalled.rs"]
mod signalled;

use piton_cuda::{CudaConfig, CudaDriver};
use piton_driver::{Device, DeviceId, Driver};
use piton_fakecuda::library;
use std::sync::Arc;

fn device() -> Arc<dyn Device> {
    let driver = CudaDriver::open(CudaConfig {
        library: Some(library::stand_in().unwrap()),
        ..CudaConfig::default()
    });
    Driver::open(&driver.unwrap(), DeviceId(0)).unwrap()
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
