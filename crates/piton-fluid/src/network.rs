//! A machine's links as resources.

use piton_topology::{DeviceId, LinkId, Machine, NodeId};

use crate::flow::{ResourceId, Use};

/// The copy engines of each device. Every route of a copy takes one of them at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engines {
    /// How many each device has.
    pub count: u32,
    /// What one engine carries, in bytes per second.
    pub rate: u64,
}

/// The resources of a machine: each direction of each link, then each device's copy engines.
///
/// The two directions of a link do not share capacity. The engines of a device are one resource, as wide as all of
/// them together; [`Network::engine_limit`] says what a single route can take of it.
#[derive(Clone, Debug)]
pub struct Network {
    capacities: Vec<u64>,
    links: u32,
    engines: Option<Engines>,
}

impl Network {
    /// The links of `machine`, with any number of copy engines.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let directions = machine.links().iter().flat_map(|link| [link.up, link.down]);
        Self {
            capacities: directions.map(|rate| rate.get()).collect(),
            links: u32::try_from(machine.links().len()).unwrap_or(u32::MAX),
            engines: None,
        }
    }

    /// The links of `machine`, and as many copy engines per device as `engines` says.
    #[must_use]
    pub fn with_engines(machine: &Machine, engines: Engines) -> Self {
        let mut network = Self::new(machine);
        let all = engines.rate.saturating_mul(engines.count.into());
        let devices = machine.device_count();
        network.capacities.extend(std::iter::repeat_n(all, devices));
        network.engines = Some(engines);
        network
    }

    /// The capacity of each resource, in bytes per second.
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

    /// What a copy uses that starts at `from` and passes over `links` in order.
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

    /// The limit of a single route: one engine. `None` where engines are not limited.
    #[must_use]
    pub fn engine_limit(&self) -> Option<Engines> {
        self.engines
    }
}
