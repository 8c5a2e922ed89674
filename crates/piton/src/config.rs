//! How a runtime is to be made.

use crate::{RuntimeError, simulated};
use piton_alloc::MemoryPoolConfig;
use piton_driver::Driver;
use piton_pinned::PinnedPoolConfig;
use piton_sanitizer::SanitizerConfig;
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_topology::Machine;
use piton_transfer::TransferConfig;
use std::{path::PathBuf, sync::Arc};

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
    /// The machine the devices sit in, device n of the driver being device n of the model. Without one, what the driver says
    /// of its devices is put together with what `/sys` says of the bus they are on.
    pub machine: Option<Machine>,
    /// Where the tree with `/sys` in it begins: `/`, or a captured one. `None` for the driver's word alone, which is the
    /// default for simulated devices: they are on no bus of this machine's.
    pub system_root: Option<PathBuf>,
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
        let sim = simulated::machine(machine, device)?;
        Ok(Self {
            machine: Some(machine.clone()),
            ..Self::on(Devices::Simulated(sim))
        })
    }

    /// These devices, everything else by default.
    pub fn on(devices: Devices) -> Self {
        let is_real = matches!(devices, Devices::Driver(_));
        Self {
            devices,
            memory: MemoryPoolConfig::default(),
            pinned: PinnedPoolConfig::default(),
            machine: None,
            system_root: is_real.then(|| PathBuf::from("/")),
            transfers: None,
            sanitizer: None,
        }
    }
}
