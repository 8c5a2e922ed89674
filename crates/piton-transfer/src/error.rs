//! Why a copy between devices could not be carried out.

use piton_driver::{DeviceId, DriverError};
use piton_pinned::PinnedError;
use piton_stream::StreamError;
use piton_topology::RouteError;
use std::time::Duration;
use thiserror::Error;

/// Why a copy could not be carried out.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum TransferError {
    /// A device that does not belong to this runtime.
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
    /// A range that ends past the last address there is.
    #[error("{bytes} bytes end past the last address")]
    PastTheEnd {
        /// Bytes of the range.
        bytes: u64,
    },
    /// A copy in a capture that takes more than one command: its bytes stop on the way, and what carries them on
    /// cannot be part of a graph.
    #[error("a copy from {from} to {to} stops on the way and cannot be captured")]
    NotInCapture {
        /// Where from.
        from: DeviceId,
        /// Where to.
        to: DeviceId,
    },
    /// Copies between other devices already use as much of a device's memory as they may.
    #[error("copies that stop on {device} have {lent} bytes of it; {bytes} more exceed {limit}")]
    RelayBudget {
        /// The device.
        device: DeviceId,
        /// Bytes they have.
        lent: u64,
        /// Bytes wanted.
        bytes: u64,
        /// The most they may have.
        limit: u64,
    },
    /// More places of a part are to be compared than one submission to a queue holds.
    #[error("{given} places of a part to compare; at most {most} may be")]
    Places {
        /// What was asked for.
        given: u32,
        /// The most there is, on the device whose queues hold least.
        most: u32,
    },
    /// A least deadline so short that every copy would be overdue before anybody looks.
    #[error("a least deadline of {given:?}; it may be {least:?} or more")]
    LeastDeadline {
        /// What was asked for.
        given: Duration,
        /// The shortest there is.
        least: Duration,
    },
    /// A weight that no copy may have.
    #[error("a copy that weighs {weight}; it may be 1 to {most}")]
    Weight {
        /// What was asked for.
        weight: u16,
        /// The most there is.
        most: u16,
    },
    /// The copy failed on every way there was.
    #[error("a copy from {from} to {to} was given up after {rounds} tries")]
    GivenUp {
        /// Where from.
        from: DeviceId,
        /// Where to.
        to: DeviceId,
        /// How often it was tried.
        rounds: u32,
    },
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
