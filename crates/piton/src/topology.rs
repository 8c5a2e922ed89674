//! The machine as the driver sees it, where nobody gave a model.

use crate::RuntimeError;
use piton_driver::{Device, DeviceId as Id, LinkClass};
use piton_topology::{
    BytesPerSec, CpuList, DeviceId, Link, LinkKind, Machine, MachineBuilder, Nanos, NodeId, NumaId,
    NvLinkVersion, PcieGeneration, PeerAccess, Provenance,
};
use std::sync::Arc;

/// A machine of what the driver says: each device in a slot of one host, and a link for each pair that the
/// driver says has one of its own.
pub(crate) fn of_devices(devices: &[Arc<dyn Device>]) -> Result<Machine, RuntimeError> {
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
