//! The runtime: devices with their pools, on one timeline.

use crate::{Device, Devices, RuntimeConfig, RuntimeError, topology};
use piton_buffer::DeviceContext;
use piton_driver::{DeviceId, Driver};
use piton_sanitizer::Sanitizer;
use piton_sim::{SimDriver, SimModule};
use piton_stream::{LaneDump, OnExpiry, Watchdog};
use piton_topology::{Machine, Router};
use piton_transfer::{Incident, Roads, RouteUse, TransferConfig};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

#[derive(Debug)]
struct Inner {
    driver: Arc<dyn Driver>,
    sim: Option<Arc<SimDriver>>,
    machine: Machine,
    contexts: Vec<Arc<DeviceContext>>,
    sanitizer: Option<Arc<Sanitizer>>,
}

/// Devices with their pools of memory, ordered by one timeline. A cheap handle; clones are the same runtime.
///
/// Buffers, streams and modules keep what they need of it alive: dropping the runtime first is fine.
#[derive(Clone, Debug)]
pub struct Runtime(Arc<Inner>);

impl Runtime {
    /// A runtime as `config` says. Opens every device of the driver; may take long.
    ///
    /// # Errors
    /// [`RuntimeError`] says which part of the configuration cannot be, or what a driver refused.
    pub fn new(config: RuntimeConfig) -> Result<Self, RuntimeError> {
        let (driver, sim) = open_driver(config.devices)?;
        let open = |id| driver.open(DeviceId(id));
        let devices = (0..driver.device_count())
            .map(open)
            .collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() {
            return Err(RuntimeError::NoDevices);
        }
        let machine = match config.machine {
            Some(machine) => machine,
            None => topology::discover(&devices, config.system_root.as_deref())?,
        };
        let is_real_sim = sim.as_ref().is_some_and(|sim| !sim.is_virtual());
        let usual = if is_real_sim {
            TransferConfig::one_way()
        } else {
            TransferConfig::default()
        };
        let mut transfers = config.transfers.unwrap_or(usual);
        // A wall clock says nothing of virtual time.
        transfers.oversees &= !sim.as_ref().is_some_and(|sim| sim.is_virtual());
        let roads = Roads {
            machine: &machine,
            peers: &topology::peer_access(&devices),
            config: transfers,
        };
        let sanitizer = config.sanitizer.map(Sanitizer::new).map(Arc::new);
        let (memory, pinned) = (&config.memory, &config.pinned);
        let contexts = DeviceContext::open(&devices, roads, memory, pinned, sanitizer.as_ref())?;
        Ok(Self(Arc::new(Inner {
            driver,
            sim,
            machine,
            contexts,
            sanitizer,
        })))
    }

    /// `count` simulated devices, everything by default.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn simulated(count: u32) -> Result<Self, RuntimeError> {
        Self::new(RuntimeConfig::simulated(count))
    }

    /// Makes the kernels of a module loadable on the simulated devices. A module of the same name that was loaded
    /// before stays what it is for whoever holds it; later loads get this one.
    ///
    /// # Errors
    /// [`NotSimulated`](RuntimeError::NotSimulated) on any other driver.
    pub fn register(&self, module: SimModule) -> Result<(), RuntimeError> {
        let Some(sim) = &self.0.sim else {
            let (module, driver) = (module.name().to_string(), self.0.driver.name().to_owned());
            return Err(RuntimeError::NotSimulated { module, driver });
        };
        let name = Arc::clone(module.name());
        sim.register(module);
        for device in self.devices() {
            device.forget_module(&name);
        }
        Ok(())
    }

    /// The device with this number, from 0.
    ///
    /// # Errors
    /// [`UnknownDevice`](RuntimeError::UnknownDevice).
    pub fn device(&self, number: u32) -> Result<Device, RuntimeError> {
        let context = self.0.contexts.get(number as usize);
        let (device, devices) = (DeviceId(number), self.device_count());
        context
            .map(|context| Device::new(Arc::clone(context)))
            .ok_or(RuntimeError::UnknownDevice { device, devices })
    }

    /// All devices.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = Device> + '_ {
        self.0
            .contexts
            .iter()
            .map(|context| Device::new(Arc::clone(context)))
    }

    /// How many devices there are.
    pub fn device_count(&self) -> u32 {
        u32::try_from(self.0.contexts.len()).unwrap_or(u32::MAX)
    }

    /// The machine the devices sit in.
    pub fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// The routes there are, whatever has gone wrong with some since.
    pub fn router(&self) -> &Router {
        // INVARIANT: `new` refuses drivers without devices.
        self.0.contexts[0].transfers().router()
    }

    /// What was copied between devices so far, by route.
    pub fn routes(&self) -> Vec<RouteUse> {
        self.0.contexts[0].transfers().routes()
    }

    /// What has gone wrong on the ways between devices, and which are not taken any more; the oldest first.
    pub fn incidents(&self) -> Vec<Incident> {
        self.0.contexts[0].transfers().incidents()
    }

    /// Ends copies between devices that hang at `now`, which then go on over another way; says how many streams of the
    /// engine's were. To be called now and then, as [`Watchdog::check`]; a copy's time counts from the first call at
    /// which it has begun. Does not block.
    pub fn check_copies(&self, now: Instant) -> usize {
        self.0.contexts[0].transfers().check(now)
    }

    /// What every stream with work or a handle left is at, whatever its device. Does not block for long. For people,
    /// and for watchdogs.
    pub fn dump_streams(&self) -> Vec<LaneDump> {
        self.0.contexts[0].dump_streams()
    }

    /// A watchdog over every stream: a command may stay at the front of its stream for `deadline`, or for as long as
    /// [its stream says](piton_stream::StreamOptions::command_deadline). [Ask](Watchdog::check) it now and then, or
    /// [let it run](Watchdog::spawn) on a thread of its own.
    pub fn watchdog(&self, deadline: Duration, on_expiry: OnExpiry) -> Watchdog {
        self.0.contexts[0].watchdog(deadline, on_expiry)
    }

    /// What finds races and uses of freed memory, if the configuration asked for it.
    pub fn sanitizer(&self) -> Option<&Arc<Sanitizer>> {
        self.0.sanitizer.as_ref()
    }

    /// The driver underneath.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.driver
    }

    /// The simulated machine underneath, if it is one: its faults, its counters.
    pub fn sim(&self) -> Option<&SimDriver> {
        self.0.sim.as_deref()
    }
}

type Opened = (Arc<dyn Driver>, Option<Arc<SimDriver>>);

fn open_driver(devices: Devices) -> Result<Opened, RuntimeError> {
    let sim = match devices {
        Devices::Driver(driver) => return Ok((driver, None)),
        Devices::Sim(sim) => sim,
        Devices::Simulated(config) => Arc::new(SimDriver::new(config)?),
    };
    Ok((Arc::clone(&sim) as Arc<dyn Driver>, Some(sim)))
}
