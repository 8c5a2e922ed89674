//! What is modelled of each pair of devices beside what copies between simulated ones reach.

use piton::{
    Devices, Runtime, RuntimeConfig, TransferConfig,
    sim::{DeviceConfig, ScheduleOrder},
};
use piton_topology::{Calibration, Machine};

use crate::command::Failure;

/// Bytes of a large copy. Virtual time is exact: no more are needed.
const COPY_BYTES: u64 = 4 << 20;

/// Pairs that are printed; more fill screens.
const MAX_PRINTED: usize = 64;

/// What copies between simulated devices of `machine` reach.
pub(super) fn calibration(machine: &Machine) -> Result<Calibration, Failure> {
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    let mut config = RuntimeConfig::simulated_machine(machine, &device).map_err(Failure::result)?;
    if let Devices::Simulated(sim) = config.devices {
        config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    }
    config.transfers = Some(TransferConfig::measuring());
    let runtime = Runtime::new(config).map_err(Failure::result)?;
    runtime.calibrate(COPY_BYTES).map_err(Failure::result)
}

pub(super) fn text(machine: &Machine, measured: &Calibration) -> String {
    let compared = measured.compare(machine);
    let mut text =
        "modelled against measured, one copy at a time between simulated devices:".to_owned();
    for line in compared.iter().take(MAX_PRINTED) {
        text.push_str(&format!("\n  {line}"));
    }
    if compared.len() > MAX_PRINTED {
        let more = compared.len() - MAX_PRINTED;
        text.push_str(&format!("\n  ({more} more; --json has all)"));
    }
    text
}
