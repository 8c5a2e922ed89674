//! The way in: a simulated machine as a driver.

use crate::{
    config::{SimConfig, SimError},
    device::SimDevice,
    fault::FaultPlan,
    machine::Machine,
    module::SimModule,
    presence::Presence,
};
use piton_driver::{Device, DeviceId, Driver, DriverError, ErrorKind, Operation};
use std::{collections::BTreeMap, sync::Arc};

/// A simulated machine. It stays in being while a handle to it, a device, a queue or work under way is left.
#[derive(Debug)]
pub struct SimDriver {
    machine: Arc<Machine>,
    _presence: Presence,
}

impl SimDriver {
    /// The machine that `config` describes.
    ///
    /// # Errors
    /// [`SimError`] says what in the configuration cannot be, or what the system refused.
    pub fn new(config: SimConfig) -> Result<Self, SimError> {
        config.validate()?;
        let machine = Arc::new(Machine::new(config)?);
        Ok(Self {
            _presence: Presence::new(&machine),
            machine,
        })
    }

    /// Whether time is virtual.
    pub fn is_virtual(&self) -> bool {
        self.machine.engine.is_virtual()
    }

    /// Makes a module's kernels loadable under its name, on every device; an earlier one of that name is
    /// replaced, and stays loaded where it is.
    pub fn register(&self, module: SimModule) {
        let name = Arc::clone(module.name());
        let replaced = self.machine.modules.lock().insert(name, module);
        drop(replaced);
    }

    /// The device, as what it is.
    pub fn device(&self, id: DeviceId) -> Option<SimDevice> {
        SimDevice::new(Arc::clone(&self.machine), id)
    }

    /// From now on this goes wrong; counts start again.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.machine.faults.set(plan);
    }

    /// How often the plan in force has made something fail.
    pub fn faults_fired(&self) -> u64 {
        self.machine.faults.fired()
    }

    /// Driver calls by kind since the plan in force was set. Commands of queues, and questions about them, are counted
    /// only under a plan in which something may go wrong.
    pub fn calls(&self) -> BTreeMap<Operation, u64> {
        self.machine.faults.calls()
    }

    /// Loses a device: its commands end as failed, its calls say so from now on.
    pub fn lose(&self, id: DeviceId) {
        if let Some(device) = self.machine.device(id) {
            device.lose();
        }
    }
}

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn device_count(&self) -> u32 {
        u32::try_from(self.machine.devices.len()).unwrap_or(u32::MAX)
    }

    fn open(&self, id: DeviceId) -> Result<Arc<dyn Device>, DriverError> {
        let (index, limit) = (u64::from(id.0), u64::from(self.device_count()));
        let unknown = DriverError::new(
            ErrorKind::InvalidIndex { index, limit },
            Operation::Open,
            id,
        );
        let device = self.device(id).ok_or(unknown)?;
        device.gate(Operation::Open)?;
        Ok(Arc::new(device))
    }
}
