//! Why a copy between devices could not be carried out.

use piton_driver::{DeviceId, DriverError};
use piton_pinned::PinnedError;
use piton_stream::StreamError;
use piton_topology::RouteError;
use thiserror::Error;

/// Why a copy could not be carried out.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum TransferError {
    /// A device that is not of this runtime.
    #[error("{device} is not one of the runtime's {devices} devices")]
    UnknownDevice {
        /// The device named.
        device: DeviceId,
        /// How many there are.
        devices: u32,
    },
    /// The machine's model knows fewer devices than the runtime has.
    #[error("the topology has {modelled} devices, the runtime {devices}")]
    TopologyMismatch {
        /// Devices of the model.
        modelled: u32,
        /// Devices of the runtime.
        devices: u32,
    },
    /// A device whose id is not its place among the runtime's devices.
    #[error("{device} stands at place {place} of the runtime's devices")]
    MisplacedDevice {
        /// The device.
        device: DeviceId,
        /// Where it stands.
        place: u32,
    },
    /// A copy of no bytes.
    #[error("a copy of zero bytes")]
    ZeroBytes,
    /// No way leads from one device to the other.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A stream refused part of the copy.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// There is no page-locked memory to stage through.
    #[error(transparent)]
    Pinned(#[from] PinnedError),
    /// The driver refused a call.
    #[error(transparent)]
    Driver(#[from] DriverError),
}
