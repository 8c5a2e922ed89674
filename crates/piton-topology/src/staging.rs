//! The ways into and out of host memory, searched once and put together for each pair.

use crate::id::{DeviceId, NodeId, NumaId};
use crate::machine::Machine;
use crate::path::{Medium, Path, Paths, Transit};
use crate::route::{Route, RouteKind};

/// Where memory is, and how each device reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    /// The NUMA nodes, in the machine's order.
    pub(crate) numa: Vec<NumaId>,
    /// Position in `numa` of the node nearest to each device.
    pub(crate) nearest: Vec<Option<usize>>,
    /// From each device into each NUMA node.
    pub(crate) into: Vec<Vec<Option<Path>>>,
    /// Out of each NUMA node to each device.
    pub(crate) out_of: Vec<Vec<Option<Path>>>,
}

impl Staging {
    pub(crate) fn new(machine: &Machine) -> Self {
        let memories: Vec<NodeId> = machine.numa().iter().map(|numa| numa.node).collect();
        let widest = |from: NodeId, to: &[NodeId]| {
            Paths::new(machine, from, Medium::Any, Transit::HostOnly).widest(to)
        };
        let nearest = |device| {
            let near = machine.nearest_numa(device)?;
            machine.numa().iter().position(|numa| numa.id == near)
        };
        Self {
            numa: machine.numa().iter().map(|numa| numa.id).collect(),
            nearest: machine.device_ids().map(nearest).collect(),
            into: machine
                .devices()
                .iter()
                .map(|device| widest(*device, &memories))
                .collect(),
            out_of: memories
                .iter()
                .map(|memory| widest(*memory, machine.devices()))
                .collect(),
        }
    }

    /// The routes through the memory near the source, and through the one near the destination.
    pub(crate) fn routes(&self, from: DeviceId, to: DeviceId) -> Vec<Route> {
        let near = [self.nearest[from.index()], self.nearest[to.index()]];
        near.into_iter()
            .flatten()
            .filter_map(|memory| self.route(from, to, memory))
            .collect()
    }

    fn route(&self, from: DeviceId, to: DeviceId, memory: usize) -> Option<Route> {
        let into = self.into[from.index()][memory].as_ref()?;
        let out = self.out_of[memory][to.index()].as_ref()?;
        Some(Route {
            kind: RouteKind::Staged {
                numa: self.numa[memory],
            },
            hops: into.links.iter().chain(&out.links).copied().collect(),
            bottleneck: into.bottleneck.min(out.bottleneck),
            latency: into.latency.saturating_add(out.latency),
            faster_half: Some(into.bottleneck.max(out.bottleneck)),
        })
    }
}
