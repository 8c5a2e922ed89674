//! Other devices' memory: who reaches whom, over what, and copies between two devices.

use crate::{DeviceId, DevicePtr, DriverError};

/// What connects two devices, nearest first, in the words of the field.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// The same device.
    Local,
    /// Dies of one package: SIO, the inner xGMI of a die pair.
    Package,
    /// A link of their own: NVLink, HCCS, xGMI.
    Link,
    /// Links through a switch of such links: NVSwitch, HCCS switch.
    LinkSwitch,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches under one host bridge.
    Pxb,
    /// A host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// The link between NUMA nodes.
    Sys,
    /// The driver does not say.
    Unknown,
}

/// What a driver says of the way from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLink {
    /// What connects them.
    pub class: LinkClass,
    /// Bytes a second one way, where the driver says.
    pub bytes_per_second: Option<u64>,
    /// Nanoseconds from start to first byte, where the driver says.
    pub latency_ns: Option<u64>,
}

/// An address and the device it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// Whose memory.
    pub device: DeviceId,
    /// Where in it.
    pub ptr: DevicePtr,
}

/// A device's way to others of the same driver. Copies are [`Command::CopyPeer`](crate::Command::CopyPeer).
pub trait Peers: Send + Sync {
    /// What lies between this device and `peer`, or `None` where the driver knows no such device.
    fn link(&self, peer: DeviceId) -> Option<PeerLink>;

    /// Whether this device could reach `peer`'s memory directly. Need not be symmetric.
    fn can_access(&self, peer: DeviceId) -> bool;

    /// Lets this device's kernels and copy engines reach `peer`'s memory. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`NotPeers`](crate::ErrorKind::NotPeers) where it could not.
    fn enable(&self, peer: DeviceId) -> Result<(), DriverError>;
}
