//! Routes and plans as they may be taken now.

use crate::plans::driver_id;
use piton_driver::DeviceId;
use piton_topology::{
    CopyEngines, CostModel, Machine, NumaId, PeerAccess, Router, StripeOptions, StripePlanner,
    Transit,
};
use std::collections::BTreeMap;

/// Routes as they may be taken now. Never changes.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) peers: PeerAccess,
    pub(crate) router: Router,
    pub(crate) planner: Option<StripePlanner>,
}

/// How plans are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) relays: bool,
    pub(crate) stripes: bool,
    pub(crate) costs: CostModel,
    pub(crate) engines: Option<CopyEngines>,
}

impl Now {
    pub(crate) fn new(machine: &Machine, peers: PeerAccess, options: Options) -> Self {
        let router = if options.relays {
            Router::with_relays(machine, &peers, options.costs)
        } else {
            Router::with_costs(machine, &peers, options.costs)
        };
        let usual = StripeOptions::default();
        let striping = StripeOptions {
            transit: if options.relays {
                Transit::Devices
            } else {
                Transit::HostOnly
            },
            by_commands: true,
            engines: options.engines,
            costs: CostModel {
                chunk_bytes: usual.costs.chunk_bytes,
                ..options.costs
            },
            ..usual
        };
        let planner = || StripePlanner::new(machine, peers.clone(), striping);
        Self {
            planner: options.stripes.then(planner),
            peers,
            router,
        }
    }
}

/// For each NUMA node that is the nearest of one of the first `open` devices the first such device.
pub(crate) fn homes(machine: &Machine, open: usize) -> BTreeMap<NumaId, DeviceId> {
    let mut homes = BTreeMap::new();
    for device in machine.device_ids().take(open) {
        if let Some(numa) = machine.nearest_numa(device) {
            homes.entry(numa).or_insert(driver_id(device));
        }
    }
    homes
}
