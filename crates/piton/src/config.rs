//! How a runtime is to be made.

use crate::RuntimeError;
use piton_alloc::MemoryPoolConfig;
use piton_driver::{DeviceId, Driver, LinkClass};
use piton_pinned::PinnedPoolConfig;
use piton_sanitizer::SanitizerConfig;
use piton_sim::{DeviceConfig, LinkConfig, SimConfig, SimDriver};
use piton_topology::{BytesPerSec, Distance, Machine, Nanos, Transit};
use piton_transfer::TransferConfig;
use std::sync::Arc;

/// Where a runtime's devices come from.
#[derive(Clone, Debug)]
pub enum Devices {
    /// A simulated machine.
    Simulated(SimConfig),
    /// A simulated machine that exists already.
    Sim(Arc<SimDriver>),
    /// Any driver.
    Driver(Arc<dyn Driver>),
}

/// How a runtime is to be made: which devices, how its pools behave, what machine the devices sit in.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// Where the devices come from.
    pub devices: Devices,
    /// How each device's memory pool behaves.
    pub memory: MemoryPoolConfig,
    /// How each device's pool of page-locked memory behaves.
    pub pinned: PinnedPoolConfig,
    /// The machine the devices sit in, device n of the driver being device n of the model. Without one, a
    /// machine is made of what the driver says of its devices.
    pub machine: Option<Machine>,
    /// How copies between devices are carried out. Unless it is said, over several ways at once and over other devices
    /// where that is quicker; on simulated devices in real time one way at a time
    /// ([`TransferConfig::one_way`]), since all their links are this machine's memory.
    pub transfers: Option<TransferConfig>,
    /// Whether races between streams and uses of freed memory are looked for, and what is done about them. Off by
    /// default: it costs memory and a lock that all submissions share.
    pub sanitizer: Option<SanitizerConfig>,
}

impl RuntimeConfig {
    /// `count` equal simulated devices, all linked to each other.
    pub fn simulated(count: u32) -> Self {
        Self::on(Devices::Simulated(SimConfig::uniform(
            count,
            &DeviceConfig::default(),
        )))
    }

    /// Simulated devices like `device` in the machine that `machine` describes, over its links.
    ///
    /// # Errors
    /// [`TooManyDevices`](RuntimeError::TooManyDevices) where the machine has more than can be simulated.
    pub fn simulated_machine(
        machine: &Machine,
        device: &DeviceConfig,
    ) -> Result<Self, RuntimeError> {
        let sim = simulate(machine, device)?;
        Ok(Self {
            machine: Some(machine.clone()),
            ..Self::on(Devices::Simulated(sim))
        })
    }

    /// These devices, everything else by default.
    pub fn on(devices: Devices) -> Self {
        Self {
            devices,
            memory: MemoryPoolConfig::default(),
            pinned: PinnedPoolConfig::default(),
            machine: None,
            transfers: None,
            sanitizer: None,
        }
    }
}

/// The simulated machine that a model describes: a link for each pair of devices, as wide as the widest way
/// between them that passes no third device. Devices reach each other's memory as far as PCIe switches go, which
/// is what NCCL allows by default (`NCCL_P2P_LEVEL=PXB`).
fn simulate(machine: &Machine, device: &DeviceConfig) -> Result<SimConfig, RuntimeError> {
    let count = machine.device_count();
    let too_many = RuntimeError::TooManyDevices { count };
    let devices = u32::try_from(count).map_err(|_| too_many)?;
    let (distances, bandwidths) = (machine.distances(), machine.bandwidths(Transit::HostOnly));
    let latencies = machine.latencies(Transit::HostOnly);
    let mut config = SimConfig::uniform(devices, device);
    config.links.clear();
    for from in machine.device_ids() {
        for to in machine.device_ids().filter(|to| *to > from) {
            let (row, column) = (from.index(), to.index());
            let distance = distances
                .get(row, column)
                .copied()
                .unwrap_or(Distance::Unknown);
            let bandwidth = bandwidths.get(row, column).copied().flatten();
            config.links.push(LinkConfig {
                a: DeviceId(u32::from(from.get())),
                b: DeviceId(u32::from(to.get())),
                class: class(distance),
                bytes_per_second: bandwidth.map_or(UNKNOWN_BYTES_PER_SECOND, BytesPerSec::get),
                latency_ns: latencies
                    .get(row, column)
                    .copied()
                    .flatten()
                    .map_or(0, Nanos::get),
                allows_peer_access: distance <= Distance::Pxb,
            });
        }
    }
    Ok(config)
}

/// What a way of unknown width is taken for: PCIe 3.0 x16.
const UNKNOWN_BYTES_PER_SECOND: u64 = 12_000_000_000;

fn class(distance: Distance) -> LinkClass {
    match distance {
        Distance::Same => LinkClass::Local,
        Distance::Package => LinkClass::Package,
        Distance::Link => LinkClass::Link,
        Distance::LinkSwitch => LinkClass::LinkSwitch,
        Distance::Pix => LinkClass::Pix,
        Distance::Pxb => LinkClass::Pxb,
        Distance::Phb => LinkClass::Phb,
        Distance::Node => LinkClass::Node,
        Distance::Sys => LinkClass::Sys,
        _ => LinkClass::Unknown,
    }
}
