//! The machine that stands behind a library.

use crate::kernels;
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use std::sync::Arc;

/// How many devices there are.
pub const DEVICES: u32 = 2;

/// Simulated devices of this name, which know the suite's kernels and the demonstration's. Nothing where the system has not what they need.
pub fn machine(name: &str) -> Option<Arc<SimDriver>> {
    let device = DeviceConfig {
        name: name.to_owned(),
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        poison: Some(0xa5),
        ..DeviceConfig::default()
    };
    let driver = SimDriver::new(SimConfig::uniform(DEVICES, &device)).ok()?;
    driver.register(kernels::module());
    driver.register(piton_training::simulated::module());
    Some(Arc::new(driver))
}
