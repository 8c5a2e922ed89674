//! Nodes: the things links join.
//!
//! Host bridge and memory are nodes of their own. That tells `PHB` (one host bridge) from `NODE` (two
//! host bridges of one NUMA node), and lets the memory that staged copies pass through have a
//! bandwidth like any other part of a path.

use serde::{Deserialize, Serialize};

use crate::cpu_list::CpuList;
use crate::id::{DeviceId, NodeId, NumaId};
use crate::pci::{PciAddress, PciIdentity};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A computing device: source and destination of copies, never passed through unless asked for.
    Device(DeviceId),
    /// The memory and processors of one NUMA node.
    Memory(NumaId),
    /// A PCIe switch: its upstream and downstream ports together.
    Switch,
    /// A PCIe host bridge (root complex) with its root ports.
    HostBridge,
    /// A switch of a device fabric: NVSwitch, HCCS switch.
    LinkSwitch,
    /// A network controller.
    Nic,
}

impl NodeKind {
    /// Whether copies start and end here rather than pass through.
    #[must_use]
    pub const fn is_endpoint(self) -> bool {
        matches!(self, Self::Device(_) | Self::Nic)
    }
}

/// A node of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What a person calls it: `GPU0`, `mlx5_0`, a bus address. Unique in its machine.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its PCI address; the upstream port's for a switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<PciAddress>,
    /// Its PCI vendor, device and class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PciIdentity>,
}

/// A NUMA node: the processors and the memory near them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// The operating system's number.
    pub id: NumaId,
    /// Its node in the machine.
    pub node: NodeId,
    /// Its processors; empty if unknown or if it has memory only.
    #[serde(default)]
    pub cpus: CpuList,
}
