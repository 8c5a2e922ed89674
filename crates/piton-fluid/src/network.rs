//! A machine's links as resources.

use piton_topology::{DeviceId, LinkId, Machine, NodeId};

use crate::flow::{ResourceId, Use};

/// Copy engines of each device, that every route of a copy takes one of at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engines {
    /// How many a device has.
    pub count: u32,
    /// What one carries, in bytes a second.
    pub rate: u64,
}

/// The resources of a machine: each direction of each link, then each device's copy engines.
///
/// Two directions do not disturb each other. Engines are one resource a device, as wide as all together;
/// that one route takes no more than one of them, [`Network::engine_limit`] says.
#[derive(Clone, Debug)]
pub struct Network {
    capacities: Vec<u64>,
    links: u32,
    engines: Option<Engines>,
}

impl Network {
    /// The links of `machine`, with as many copy engines as anybody wants.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let directions = machine.links().iter().flat_map(|link| [link.up, link.down]);
        Self {
            capacities: directions.map(|rate| rate.get()).collect(),
            links: u32::try_from(machine.links().len()).unwrap_or(u32::MAX),
            engines: None,
        }
    }

    /// The links of `machine`, and as many copy engines a device as `engines` says.
    #[must_use]
    pub fn with_engines(machine: &Machine, engines: Engines) -> Self {
        let mut network = Self::new(machine);
        let all = engines.rate.saturating_mul(engines.count.into());
        let devices = machine.device_count();
        network.capacities.extend(std::iter::repeat_n(all, devices));
        network.engines = Some(engines);
        network
    }

    /// Bytes a second of each resource.
    #[must_use]
    pub fn capacities(&self) -> &[u64] {
        &self.capacities
    }

    /// One direction of a link: away from `from`, which is one of its ends.
    #[must_use]
    pub fn direction(&self, machine: &Machine, link: LinkId, from: NodeId) -> ResourceId {
        let back = machine.link(link).is_some_and(|link| link.a != from);
        ResourceId(link.get() * 2 + u32::from(back))
    }

    /// What a copy takes that starts at `from` and passes over `links` in order.
    #[must_use]
    pub fn uses(&self, machine: &Machine, from: NodeId, links: &[LinkId]) -> Vec<Use> {
        let mut at = from;
        let uses = links.iter().map(|&id| {
            let resource = self.direction(machine, id, at);
            let link = machine.link(id);
            at = link.and_then(|link| link.other_end(at)).unwrap_or(at);
            Use::whole(resource)
        });
        uses.collect()
    }

    /// The engines of a device, if they are limited.
    #[must_use]
    pub fn engine(&self, device: DeviceId) -> Option<Use> {
        self.engines?;
        Some(Use::whole(ResourceId(
            self.links * 2 + u32::from(device.get()),
        )))
    }

    /// What one route can carry at most: one engine.
    #[must_use]
    pub fn engine_limit(&self) -> Option<Engines> {
        self.engines
    }
}
