//! Pages of a simulated device that a device of another process maps too.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/passed.rs"]
mod passed;

use piton_driver::{DeviceId, Driver};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};

#[test]
fn a_device_of_another_process_maps_what_it_was_sent() {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    let device = Driver::open(&driver, DeviceId(0)).unwrap();
    let test = "a_device_of_another_process_maps_what_it_was_sent";
    passed::pages_pass_to_another_process_and_back(test, &*device);
}
