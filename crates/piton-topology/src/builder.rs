//! Builds a [`Machine`]: adds parts, then checks them all at once.
//!
//! Ids are handed out in the order of adding. Nothing is checked until [`MachineBuilder::build`]
//! except the counts, which must fit the ids.

use std::collections::HashMap;

use crate::adjacency::Adjacency;
use crate::cpu_list::CpuList;
use crate::error::{BuildError, Warning};
use crate::id::{DeviceId, LinkId, NodeId, NumaId};
use crate::link::{Link, LinkKind};
use crate::machine::Machine;
use crate::node::{Node, NodeKind, NumaNode};
use crate::pci::{PciAddress, PciIdentity};

/// The most nodes a machine may have.
pub const MAX_NODES: usize = 1 << 15;
/// The most links a machine may have.
pub const MAX_LINKS: usize = 1 << 20;
/// The most devices a machine may have: matrices are dense.
pub const MAX_DEVICES: usize = 1 << 10;
/// The most NUMA nodes a machine may have.
pub const MAX_NUMA_NODES: usize = 1 << 10;
/// The most bytes a name may have.
pub const MAX_NAME_BYTES: usize = 128;

/// Collects the parts of a machine. See [`Machine`] for an example.
#[derive(Clone, Debug, Default)]
pub struct MachineBuilder {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) devices: Vec<NodeId>,
    pub(crate) numa: Vec<NumaNode>,
    pub(crate) warnings: Vec<Warning>,
}

impl MachineBuilder {
    /// A machine with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a device; the first one is device 0.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`] or [`BuildError::TooManyNodes`].
    pub fn device(&mut self, name: impl Into<String>) -> Result<NodeId, BuildError> {
        let limit = MAX_DEVICES;
        let id = u16::try_from(self.devices.len())
            .ok()
            .filter(|id| usize::from(*id) < limit)
            .ok_or(BuildError::TooManyDevices { limit })?;
        let node = self.node(name.into(), NodeKind::Device(DeviceId::new(id)))?;
        self.devices.push(node);
        Ok(node)
    }

    /// Adds a NUMA node: its memory and its processors.
    ///
    /// # Errors
    /// [`BuildError::TooManyNumaNodes`] or [`BuildError::TooManyNodes`].
    pub fn numa(&mut self, id: NumaId, cpus: CpuList) -> Result<NodeId, BuildError> {
        let limit = MAX_NUMA_NODES;
        if self.numa.len() >= limit {
            return Err(BuildError::TooManyNumaNodes { limit });
        }
        let node = self.node(format!("NUMA{}", id.get()), NodeKind::Memory(id))?;
        self.numa.push(NumaNode { id, node, cpus });
        Ok(node)
    }

    /// Adds a PCIe switch.
    ///
    /// # Errors
    /// [`BuildError::TooManyNodes`].
    pub fn switch(&mut self, name: impl Into<String>) -> Result<NodeId, BuildError> {
        self.node(name.into(), NodeKind::Switch)
    }

    /// Adds a PCIe host bridge.
    ///
    /// # Errors
    /// [`BuildError::TooManyNodes`].
    pub fn host_bridge(&mut self, name: impl Into<String>) -> Result<NodeId, BuildError> {
        self.node(name.into(), NodeKind::HostBridge)
    }

    /// Adds a switch of a device fabric.
    ///
    /// # Errors
    /// [`BuildError::TooManyNodes`].
    pub fn link_switch(&mut self, name: impl Into<String>) -> Result<NodeId, BuildError> {
        self.node(name.into(), NodeKind::LinkSwitch)
    }

    /// Adds a network controller.
    ///
    /// # Errors
    /// [`BuildError::TooManyNodes`].
    pub fn nic(&mut self, name: impl Into<String>) -> Result<NodeId, BuildError> {
        self.node(name.into(), NodeKind::Nic)
    }

    /// Says where a node sits on the PCI bus and what it is. Does nothing for a node not added here.
    pub fn pci(&mut self, node: NodeId, address: PciAddress, identity: Option<PciIdentity>) {
        if let Some(node) = self.nodes.get_mut(node.index()) {
            node.pci = Some(address);
            node.identity = identity;
        }
    }

    /// Adds a link as it is.
    ///
    /// # Errors
    /// [`BuildError::TooManyLinks`].
    pub fn link(&mut self, link: Link) -> Result<(), BuildError> {
        let limit = MAX_LINKS;
        if self.links.len() >= limit {
            return Err(BuildError::TooManyLinks { limit });
        }
        self.links.push(link);
        Ok(())
    }

    /// Adds a link with the rates of the table of defaults.
    ///
    /// # Errors
    /// [`BuildError::TooManyLinks`].
    pub fn join(
        &mut self,
        a: NodeId,
        b: NodeId,
        kind: LinkKind,
        lanes: u16,
    ) -> Result<(), BuildError> {
        self.link(Link::with_defaults(a, b, kind, lanes))
    }

    /// Drops every link that `keep` refuses. The links that stay are renumbered.
    pub fn retain_links(&mut self, mut keep: impl FnMut(LinkId, &Link) -> bool) {
        let mut ids = (0..).map(LinkId::new);
        self.links
            .retain(|link| ids.next().is_some_and(|id| keep(id, link)));
    }

    /// Numbers the devices anew: `order[n]` becomes device `n`. `order` names each device once.
    pub(crate) fn order_devices(&mut self, order: &[DeviceId]) {
        let nodes = order
            .iter()
            .filter_map(|old| self.devices.get(old.index()).copied());
        self.devices = nodes.collect();
        for (number, node) in (0..).map(DeviceId::new).zip(&self.devices) {
            self.nodes[node.index()].kind = NodeKind::Device(number);
        }
    }

    /// Notes something odd, to be found in [`Machine::warnings`].
    pub fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Checks everything and makes the machine. Links from a node to itself are dropped with a warning.
    ///
    /// # Errors
    /// The first contradiction found; see [`BuildError`].
    pub fn build(mut self) -> Result<Machine, BuildError> {
        self.check_counts()?;
        self.check_names()?;
        self.check_devices()?;
        self.check_numa()?;
        for (position, link) in self.links.iter().enumerate() {
            check_link(position, link, self.nodes.len())?;
        }
        self.drop_self_links();
        let adjacency = Adjacency::new(self.nodes.len(), &self.links);
        Ok(Machine::from_checked_parts(self, adjacency))
    }

    fn node(&mut self, name: String, kind: NodeKind) -> Result<NodeId, BuildError> {
        let limit = MAX_NODES;
        let id = u16::try_from(self.nodes.len())
            .ok()
            .filter(|id| usize::from(*id) < limit)
            .ok_or(BuildError::TooManyNodes { limit })?;
        self.nodes.push(Node {
            name,
            kind,
            pci: None,
            identity: None,
        });
        Ok(NodeId::new(id))
    }

    /// Parts that came from a file did not pass through the methods above.
    fn check_counts(&self) -> Result<(), BuildError> {
        if self.nodes.len() > MAX_NODES {
            return Err(BuildError::TooManyNodes { limit: MAX_NODES });
        }
        if self.links.len() > MAX_LINKS {
            return Err(BuildError::TooManyLinks { limit: MAX_LINKS });
        }
        if self.devices.len() > MAX_DEVICES {
            return Err(BuildError::TooManyDevices { limit: MAX_DEVICES });
        }
        if self.numa.len() > MAX_NUMA_NODES {
            return Err(BuildError::TooManyNumaNodes {
                limit: MAX_NUMA_NODES,
            });
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), BuildError> {
        let mut names: HashMap<&str, NodeId> = HashMap::new();
        let mut addresses: HashMap<PciAddress, NodeId> = HashMap::new();
        for (id, node) in (0..).map(NodeId::new).zip(&self.nodes) {
            let bytes = node.name.len();
            if bytes == 0 || bytes > MAX_NAME_BYTES {
                let limit = MAX_NAME_BYTES;
                return Err(BuildError::NameLength {
                    node: id,
                    bytes,
                    limit,
                });
            }
            if node.name.chars().any(char::is_control) {
                return Err(BuildError::NameControl { node: id });
            }
            if let Some(first) = names.insert(&node.name, id) {
                return Err(BuildError::DuplicateName { first, second: id });
            }
            if let Some(first) = node.pci.and_then(|pci| addresses.insert(pci, id)) {
                return Err(BuildError::DuplicateAddress { first, second: id });
            }
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<(), BuildError> {
        for (device, &listed) in (0..).map(DeviceId::new).zip(&self.devices) {
            let node = self.nodes.get(listed.index());
            if node.map(|node| node.kind) != Some(NodeKind::Device(device)) {
                return Err(BuildError::DeviceMismatch { device, listed });
            }
        }
        let is_device = |node: &&Node| matches!(node.kind, NodeKind::Device(_));
        let found = self.nodes.iter().filter(is_device).count();
        let listed = self.devices.len();
        if listed != found {
            return Err(BuildError::DeviceCount { listed, found });
        }
        Ok(())
    }

    fn check_numa(&self) -> Result<(), BuildError> {
        let mut seen = HashMap::new();
        for entry in &self.numa {
            let (numa, listed) = (entry.id, entry.node);
            let node = self.nodes.get(listed.index());
            if node.map(|node| node.kind) != Some(NodeKind::Memory(numa)) {
                return Err(BuildError::NumaMismatch { numa, listed });
            }
            if seen.insert(numa, listed).is_some() {
                return Err(BuildError::DuplicateNuma { numa });
            }
        }
        let is_memory = |node: &&Node| matches!(node.kind, NodeKind::Memory(_));
        let found = self.nodes.iter().filter(is_memory).count();
        let listed = self.numa.len();
        if listed != found {
            return Err(BuildError::NumaCount { listed, found });
        }
        Ok(())
    }

    fn drop_self_links(&mut self) {
        let warnings = &mut self.warnings;
        self.links.retain(|link| {
            if link.a == link.b {
                warnings.push(Warning::SelfLink { node: link.a });
            }
            link.a != link.b
        });
    }
}

fn check_link(position: usize, link: &Link, nodes: usize) -> Result<(), BuildError> {
    // The count was checked first, so the position fits.
    let id = LinkId::new(u32::try_from(position).unwrap_or(u32::MAX));
    let &Link { a, b, .. } = link;
    for node in [a, b] {
        if node.index() >= nodes {
            return Err(BuildError::UnknownNode {
                link: id,
                node,
                nodes,
            });
        }
    }
    // Cloud templates hold links of width zero from a device to itself: dropped, not refused.
    if a == b {
        return Ok(());
    }
    if link.lanes == 0 {
        return Err(BuildError::NoLanes { link: id, a, b });
    }
    let (up, down) = (link.up.get(), link.down.get());
    if up == 0 || down == 0 {
        return Err(BuildError::NoBandwidth {
            link: id,
            a,
            b,
            up,
            down,
        });
    }
    Ok(())
}
