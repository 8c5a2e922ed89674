//! Queues of two processes that order each other, through the stand-in, each of which has devices of its own.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../piton-sim/tests/child/signalled.rs"]
#[expect(dead_code, reason = "Ascend shares no pages")]
mod signalled;

use piton_ascend::{AscendConfig, AscendDriver};
use piton_driver::{DeviceId, Driver};
use piton_fakeascend::library;

#[test]
fn queues_of_two_processes_take_turns() {
    let driver = AscendDriver::open(AscendConfig {
        library: Some(library::stand_in().unwrap()),
        ..AscendConfig::default()
    });
    let device = Driver::open(&driver.unwrap(), DeviceId(0)).unwrap();
    let test = "queues_of_two_processes_take_turns";
    signalled::queues_of_two_processes_take_turns(test, &*device);
}
