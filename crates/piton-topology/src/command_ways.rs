//! The way each copy command takes.
//!
//! A command names two places, not the links between them: which links it takes is the driver's affair. So of all
//! paths between two devices one counts, and so of those between a device and host memory. Whoever plans copies over several
//! routes, or simulates them, asks here which it is.

use std::sync::Arc;

use crate::candidate::Candidate;
use crate::id::{DeviceId, LinkId, NumaId};
use crate::machine::Machine;
use crate::path::Path;
use crate::peer::PeerAccess;
use crate::router::Router;
use crate::staging::Staging;

/// Bytes of a copy that takes the widest way and not the quickest.
const WIDE: u64 = 1 << 30;

/// The links that one command crosses, for each pair of places.
///
/// Memory grows with the square of the number of devices.
#[derive(Clone, Debug)]
pub struct CommandWays {
    devices: usize,
    /// By `from * devices + to`.
    between: Vec<Option<Arc<[LinkId]>>>,
    staging: Staging,
}

impl CommandWays {
    /// The ways of `machine`: the widest, through no third device.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let router = Router::new(machine, &PeerAccess::all());
        let ids = machine.device_ids();
        let pairs = ids.flat_map(|from| machine.device_ids().map(move |to| (from, to)));
        Self {
            devices: machine.device_count(),
            between: pairs.map(|(from, to)| widest(&router, from, to)).collect(),
            staging: Staging::new(machine),
        }
    }

    /// How many devices the machine has.
    #[must_use]
    pub const fn device_count(&self) -> usize {
        self.devices
    }

    /// From one device straight to another; `None` if nothing joins them, or they are one.
    #[must_use]
    pub fn between(&self, from: DeviceId, to: DeviceId) -> Option<&[LinkId]> {
        let is_known = from.index() < self.devices && to.index() < self.devices;
        let at = from.index() * self.devices + to.index();
        is_known.then(|| self.between[at].as_deref()).flatten()
    }

    /// From a device into the memory of a NUMA node.
    #[must_use]
    pub fn into_memory(&self, from: DeviceId, numa: NumaId) -> Option<&[LinkId]> {
        let memory = self.place(numa)?;
        links(self.staging.into.get(from.index())?.get(memory)?.as_ref())
    }

    /// Out of the memory of a NUMA node to a device.
    #[must_use]
    pub fn out_of_memory(&self, numa: NumaId, to: DeviceId) -> Option<&[LinkId]> {
        let memory = self.place(numa)?;
        links(self.staging.out_of.get(memory)?.get(to.index())?.as_ref())
    }

    /// The NUMA nodes that are the nearest to some device, each once: what page-locked memory near a device may be on.
    #[must_use]
    pub fn memories(&self) -> Vec<NumaId> {
        let numa = self.staging.numa.iter().enumerate();
        let is_near = |place: usize| self.staging.nearest.contains(&Some(place));
        numa.filter(|(place, _)| is_near(*place))
            .map(|(_, numa)| *numa)
            .collect()
    }

    /// The NUMA node that is the nearest to a device.
    #[must_use]
    pub fn nearest(&self, device: DeviceId) -> Option<NumaId> {
        let place = (*self.staging.nearest.get(device.index())?)?;
        self.staging.numa.get(place).copied()
    }

    fn place(&self, numa: NumaId) -> Option<usize> {
        self.staging.numa.iter().position(|known| *known == numa)
    }
}

fn widest(router: &Router, from: DeviceId, to: DeviceId) -> Option<Arc<[LinkId]>> {
    let candidates = router.candidates(from, to, WIDE).ok()?;
    candidates.iter().find_map(|candidate| match candidate {
        Candidate::Route { route, .. } if route.kind.needs_peer_access() => {
            Some(Arc::clone(&route.hops))
        }
        _ => None,
    })
}

fn links(path: Option<&Path>) -> Option<&[LinkId]> {
    path.map(|path| path.links.as_slice())
}
