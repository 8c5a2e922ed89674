//! What can go wrong when a runtime is made and used.

use piton_buffer::BufferError;
use piton_driver::{DeviceId, DriverError};
use piton_sim::SimError;
use piton_topology::BuildError;
use thiserror::Error;

/// Why a runtime could not be made, or something of it not be found.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The simulated machine cannot be.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The driver refused a call.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The model of the machine cannot be made.
    #[error(transparent)]
    Topology(#[from] BuildError),
    /// A pool cannot be configured so, copies cannot be set up, or work on buffers and streams was refused or
    /// failed.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The driver has no device at all.
    #[error("the driver has no devices")]
    NoDevices,
    /// A model of a machine with more devices than can be simulated.
    #[error("{count} devices are more than the {limit} that a simulated machine can have")]
    TooManyDevices {
        /// How many the model has.
        count: usize,
        /// How many there can be.
        limit: u32,
    },
    /// The runtime has no such device.
    #[error("{device} is not one of the runtime's {devices} devices")]
    UnknownDevice {
        /// The device asked for.
        device: DeviceId,
        /// How many there are.
        devices: u32,
    },
    /// No module of that name is registered, or it could not be loaded.
    #[error("module `{module}` could not be loaded on {device}")]
    Module {
        /// Its name.
        module: String,
        /// Where it was to be loaded.
        device: DeviceId,
        /// What the driver said.
        source: DriverError,
    },
    /// The module has no kernel of that name.
    #[error("module `{module}` has no kernel `{kernel}` on {device}")]
    Kernel {
        /// The module.
        module: String,
        /// The kernel asked for.
        kernel: String,
        /// The device.
        device: DeviceId,
        /// What the driver said.
        source: DriverError,
    },
    /// A module of simulated kernels for a runtime whose devices are not simulated.
    #[error("module `{module}` holds simulated kernels, and the driver is `{driver}`")]
    NotSimulated {
        /// The module.
        module: String,
        /// The runtime's driver.
        driver: String,
    },
}
