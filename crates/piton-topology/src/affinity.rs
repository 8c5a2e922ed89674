//! Which NUMA node is near a device.
//!
//! Near is by latency. A device whose host bridge may belong to several NUMA nodes has no affinity,
//! but still has a nearest node to stage through: any of the candidates will do, so the first is taken.

use crate::id::{DeviceId, NodeId, NumaId};
use crate::machine::Machine;
use crate::path::{Medium, Path, Paths, Transit};

impl Machine {
    /// The NUMA node a device belongs to, or `None` if it is as near to several or reaches none.
    #[must_use]
    pub fn numa_affinity(&self, device: DeviceId) -> Option<NumaId> {
        self.affinity_of_node(self.device_node(device)?)
    }

    /// As [`Machine::numa_affinity`], for any node: network controllers have one too.
    #[must_use]
    pub fn affinity_of_node(&self, node: NodeId) -> Option<NumaId> {
        match *self.nearest_numa_nodes(node) {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The NUMA node to stage a device's copies through: the nearest, the first of several as near.
    #[must_use]
    pub fn nearest_numa(&self, device: DeviceId) -> Option<NumaId> {
        let node = self.device_node(device)?;
        self.nearest_numa_nodes(node).first().copied()
    }

    /// All NUMA nodes with the least latency from `node`, in the machine's order.
    #[must_use]
    pub fn nearest_numa_nodes(&self, node: NodeId) -> Vec<NumaId> {
        if self.node(node).is_none() {
            return Vec::new();
        }
        let memories: Vec<NodeId> = self.numa().iter().map(|numa| numa.node).collect();
        let paths = Paths::new(self, node, Medium::Any, Transit::HostOnly).quickest(&memories);
        let latency = |path: &Option<Path>| path.as_ref().map(|path| path.latency);
        let Some(least) = paths.iter().filter_map(latency).min() else {
            return Vec::new();
        };
        let nearest = self.numa().iter().zip(&paths);
        nearest
            .filter(|(_, path)| latency(path) == Some(least))
            .map(|(numa, _)| numa.id)
            .collect()
    }
}
