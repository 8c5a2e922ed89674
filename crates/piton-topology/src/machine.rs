//! The model itself: nodes, links between them, and which nodes are devices or NUMA nodes.

use crate::adjacency::Adjacency;
use crate::builder::MachineBuilder;
use crate::error::Warning;
use crate::id::{DeviceId, LinkId, NodeId, NumaId};
use crate::link::Link;
use crate::node::{Node, NodeKind, NumaNode};
use crate::pci::PciAddress;

/// A machine: a graph of devices, switches, bridges and memory, checked once and never changed.
///
/// ```
/// use piton_topology::{CpuList, LinkKind, MachineBuilder, NumaId, PcieGeneration};
///
/// let mut builder = MachineBuilder::new();
/// let memory = builder.numa(NumaId::new(0), "0-7".parse().unwrap_or_default())?;
/// let bridge = builder.host_bridge("0000:00")?;
/// builder.join(bridge, memory, LinkKind::MemoryBus, 1)?;
/// for name in ["GPU0", "GPU1"] {
///     let device = builder.device(name)?;
///     builder.join(device, bridge, LinkKind::Pcie(PcieGeneration::Gen4), 16)?;
/// }
/// let machine = builder.build()?;
/// assert_eq!(machine.device_count(), 2);
/// # Ok::<(), piton_topology::BuildError>(())
/// ```
///
/// # Invariants
/// Established by [`MachineBuilder::build`]: every link joins two different existing nodes and has
/// lanes and a rate above zero each way; `devices[d]` is a node of kind `Device(d)` and no other node
/// is; the same holds for NUMA nodes; names and PCI addresses are unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    nodes: Vec<Node>,
    links: Vec<Link>,
    devices: Vec<NodeId>,
    numa: Vec<NumaNode>,
    warnings: Vec<Warning>,
    adjacency: Adjacency,
}

impl Machine {
    /// INVARIANT: `parts` passed every check of [`MachineBuilder::build`].
    pub(crate) fn from_checked_parts(parts: MachineBuilder, adjacency: Adjacency) -> Self {
        Self {
            nodes: parts.nodes,
            links: parts.links,
            devices: parts.devices,
            numa: parts.numa,
            warnings: parts.warnings,
            adjacency,
        }
    }

    /// Every node, by id.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Every link, by id.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node of each device, by device id.
    #[must_use]
    pub fn devices(&self) -> &[NodeId] {
        &self.devices
    }

    /// The NUMA nodes, in the order they were added.
    #[must_use]
    pub fn numa(&self) -> &[NumaNode] {
        &self.numa
    }

    /// What was odd about the machine and how it was put right.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// How many devices there are.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The ids of all devices.
    pub fn device_ids(&self) -> impl ExactSizeIterator<Item = DeviceId> + use<> {
        // At most MAX_DEVICES, so nothing is cut off.
        (0..u16::try_from(self.devices.len()).unwrap_or(u16::MAX)).map(DeviceId::new)
    }

    /// The ids of all nodes.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..u16::try_from(self.nodes.len()).unwrap_or(u16::MAX)).map(NodeId::new)
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// The link with this id.
    #[must_use]
    pub fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id.index())
    }

    /// The node of a device.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<&Node> {
        self.device_node(id).and_then(|node| self.node(node))
    }

    /// The id of a device's node.
    #[must_use]
    pub fn device_node(&self, id: DeviceId) -> Option<NodeId> {
        self.devices.get(id.index()).copied()
    }

    /// The device at a PCI address, to match what a driver reports.
    #[must_use]
    pub fn device_at(&self, address: PciAddress) -> Option<DeviceId> {
        let at_address =
            |device: &DeviceId| self.device(*device).and_then(|node| node.pci) == Some(address);
        self.device_ids().find(at_address)
    }

    /// The NUMA node with the operating system's number `id`.
    #[must_use]
    pub fn numa_node(&self, id: NumaId) -> Option<&NumaNode> {
        self.numa.iter().find(|entry| entry.id == id)
    }

    /// Devices in order, then network controllers in order: the rows people expect of a matrix.
    #[must_use]
    pub fn endpoints(&self) -> Vec<NodeId> {
        let nics = self.node_ids().filter(|id| self.kind(*id) == NodeKind::Nic);
        self.devices.iter().copied().chain(nics).collect()
    }

    /// The links of a node, each with the node at its other end. Empty for an unknown node.
    #[must_use]
    pub fn neighbours(&self, node: NodeId) -> &[(LinkId, NodeId)] {
        self.adjacency.of(node)
    }

    /// The kind of a node that is known to exist.
    pub(crate) fn kind(&self, node: NodeId) -> NodeKind {
        self.nodes[node.index()].kind
    }

    /// The parts, to change them and build again: for another rate, or a link less.
    #[must_use]
    pub fn to_builder(&self) -> MachineBuilder {
        MachineBuilder {
            nodes: self.nodes.clone(),
            links: self.links.clone(),
            devices: self.devices.clone(),
            numa: self.numa.clone(),
            warnings: self.warnings.clone(),
        }
    }
}
