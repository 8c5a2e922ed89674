//! The machine as the driver and the operating system see it, where nobody gave a model.
//!
//! The driver knows which devices have links of their own and numbers the devices; `/sys` knows the bus, the bridges and the
//! memory. Where the driver says where each of its devices sits on the bus, and `/sys` has them there, the two are put together.
//! Else the driver's word is all there is, and each device sits in a slot of one host.

use crate::RuntimeError;
use piton_driver::{Device, DeviceId as Id, LinkClass};
use piton_topology::{
    BytesPerSec, CpuList, DeviceId, FabricEnd, FabricFact, Link, LinkKind, Machine, MachineBuilder,
    Nanos, NodeId, NumaId, NvLinkVersion, Origin, Partial, PciAddress, PcieGeneration, PeerAccess,
    Provenance, sysfs::SysfsTree,
};
use std::{path::Path, sync::Arc};

/// The machine that these devices sit in; `root` is where the tree with `/sys` in it begins, if there is one to read.
pub(crate) fn discover(
    devices: &[Arc<dyn Device>],
    root: Option<&Path>,
) -> Result<Machine, RuntimeError> {
    let with_system = root.and_then(|root| with_system(devices, root));
    with_system.map_or_else(|| of_devices(devices), Ok)
}

/// The driver's devices, in its order, where the operating system says they are. `None` unless it knows them all: half a
/// machine would be worse than one made up.
fn with_system(devices: &[Arc<dyn Device>], root: &Path) -> Option<Machine> {
    let addresses: Vec<PciAddress> = devices.iter().map(address).collect::<Option<_>>()?;
    let system = SysfsTree::read(root).ok()?;
    let driver = Partial {
        origin: Origin::Driver,
        tree: SysfsTree::default(),
        numbered: Vec::new(),
        fabric: own_links(devices, &addresses),
    };
    let machine = Machine::of_partials(&[driver, Partial::of_sysfs(system)]).ok()?;
    let ids = addresses.iter().map(|address| machine.device_at(*address));
    let ids: Vec<DeviceId> = ids.collect::<Option<_>>()?;
    let machine = machine.with_devices_in_order(&ids).ok()?;
    // Two devices at one address would leave a place to somebody else.
    let is_in_order =
        |(at, address): (u32, &PciAddress)| machine.device_at(*address) == place(Id(at));
    (0..).zip(&addresses).all(is_in_order).then_some(machine)
}

fn address(device: &Arc<dyn Device>) -> Option<PciAddress> {
    let said = device.info().pci?;
    PciAddress::new(said.domain, said.bus, said.device, said.function)
}

/// What the driver says of links between its devices.
fn own_links(devices: &[Arc<dyn Device>], addresses: &[PciAddress]) -> Vec<FabricFact> {
    let mut facts = Vec::new();
    for (to, address) in devices.iter().zip(addresses) {
        for (from, other) in devices.iter().zip(addresses) {
            if from.info().id >= to.info().id {
                break;
            }
            // The nodes are not looked at.
            let node = NodeId::new(0);
            if let Some(link) = own_link(to, from.info().id, node, node) {
                facts.push(FabricFact {
                    ends: [*other, *address].map(FabricEnd::At),
                    kind: link.kind,
                    lanes: link.lanes,
                    rates: Some([link.up, link.down]),
                    latency: Some(link.latency),
                });
            }
        }
    }
    facts
}

/// A machine of what the driver says: each device in a slot of one host, and a link for each pair that the
/// driver says has one of its own.
fn of_devices(devices: &[Arc<dyn Device>]) -> Result<Machine, RuntimeError> {
    let mut builder = MachineBuilder::new();
    let memory = builder.numa(NumaId::new(0), CpuList::default())?;
    let bridge = builder.host_bridge("host bridge 0")?;
    builder.join(bridge, memory, LinkKind::MemoryBus, 1)?;
    let mut nodes: Vec<(Id, NodeId)> = Vec::new();
    for device in devices {
        let id = device.info().id;
        let node = builder.device(format!("DEV{}", id.0))?;
        builder.join(node, bridge, LinkKind::Pcie(PcieGeneration::Gen4), 16)?;
        for (other, other_node) in &nodes {
            if let Some(link) = own_link(device, *other, *other_node, node) {
                builder.link(link)?;
            }
        }
        nodes.push((id, node));
    }
    Ok(builder.build()?)
}

/// The link of their own between a device and an earlier one, if the driver says there is one.
fn own_link(device: &Arc<dyn Device>, other: Id, a: NodeId, b: NodeId) -> Option<Link> {
    let said = device.peers()?.link(other)?;
    let is_own = matches!(
        said.class,
        LinkClass::Package | LinkClass::Link | LinkClass::LinkSwitch
    );
    let rate = said.bytes_per_second.filter(|_| is_own)?;
    // The driver says how fast, not whose: the kind is only the class it stands for.
    let mut link = Link::with_defaults(a, b, LinkKind::NvLink(NvLinkVersion::V3), 1);
    link.up = BytesPerSec::new(rate);
    link.down = BytesPerSec::new(rate);
    if let Some(latency) = said.latency_ns {
        link.latency = Nanos::new(latency);
        link.latency_provenance = Provenance::Declared;
    }
    link.provenance = Provenance::Declared;
    Some(link)
}

/// Which devices reach which, as the driver says.
pub(crate) fn peer_access(devices: &[Arc<dyn Device>]) -> PeerAccess {
    let mut access = PeerAccess::none();
    for device in devices {
        let Some(peers) = device.peers() else {
            continue;
        };
        let from = device.info().id;
        for to in devices
            .iter()
            .map(|other| other.info().id)
            .filter(|to| *to != from)
        {
            if let (Some(from), Some(to)) = (place(from), place(to)) {
                access.set(from, to, peers.can_access(Id(u32::from(to.get()))));
            }
        }
    }
    access
}

fn place(id: Id) -> Option<DeviceId> {
    u16::try_from(id.0).ok().map(DeviceId::new)
}
