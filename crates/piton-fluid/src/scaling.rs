//! How far copies between ever more devices of one machine add up.
//!
//! All copies of a pattern run at once and for ever; what counts is what the slowest gets, times their number: a step of a
//! program ends with its last copy. Beside it stand what linear growth would be, each copy as fast as its nearest path lets
//! one that is alone, and the cut: what no plan exceeds, proven by the planner. A pattern that the cut limits is no failure of
//! the plan.

use std::sync::Arc;

use piton_topology::{
    BytesPerSec, CostModel, DeviceId, LinkId, Machine, PeerAccess, Residual, Router, StripeOptions,
    StripePlanner,
};

use crate::fairness::fair_rates;
use crate::flow::FlowSpec;
use crate::network::Network;
use crate::pattern::{Pattern, Summary};

/// Which routes copies take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The nearest path, as communication libraries take it.
    Nearest,
    /// The one route on which a large copy that is alone takes the least time.
    Widest,
    /// Several routes each, planned together.
    Striped,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Nearest, Self::Widest, Self::Striped];

    /// Its name in one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Widest => "widest",
            Self::Striped => "striped",
        }
    }
}

/// What a pattern of copies reaches among some devices, in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// How many of the machine's first devices.
    pub devices: u16,
    /// Who copies to whom.
    pub pattern: Pattern,
    /// For each policy, in the order of [`Policy::ALL`], all copies together if each gets what the slowest does.
    pub together: [u64; 3],
    /// For each policy, how evenly the copies share: Jain's index.
    pub fairness: [f64; 3],
    /// All copies together, if each got what its nearest path gives a copy that is alone.
    pub linear: u64,
    /// What no plan exceeds.
    pub cut: u64,
}

impl Scaled {
    /// What the plan over several routes reaches, as a share of linear growth.
    #[must_use]
    pub fn of_linear(&self) -> f64 {
        self.together[2] as f64 / self.linear.max(1) as f64
    }

    /// What the plan over several routes reaches, as a share of the smaller of linear growth and the cut.
    #[must_use]
    pub fn of_possible(&self) -> f64 {
        self.together[2] as f64 / self.linear.min(self.cut).max(1) as f64
    }
}

/// Bytes of a copy that takes the widest way and not the quickest.
const LARGE: u64 = 1 << 30;

/// How `patterns` grow with the number of devices of one machine. Counts of devices that the machine does not have
/// are left out, and so are patterns with a copy that has no route. Routes may lead over all devices of the machine,
/// also over those that copy nothing themselves. Links carry the rates that the machine gives them.
#[must_use]
pub fn scaling(machine: &Machine, patterns: &[Pattern], counts: &[u16]) -> Vec<Scaled> {
    let study = Study::new(machine);
    let devices = u16::try_from(machine.device_count()).unwrap_or(u16::MAX);
    let counts = counts.iter().filter(|count| **count <= devices);
    counts
        .flat_map(|count| {
            let scaled = |pattern: &Pattern| study.scaled(*pattern, *count);
            patterns.iter().filter_map(scaled).collect::<Vec<_>>()
        })
        .collect()
}

struct Study<'m> {
    machine: &'m Machine,
    network: Network,
    router: Router,
    planner: StripePlanner,
}

/// Copies, each with its parts: the links of a route and what was planned for it.
type Parts = Vec<Vec<(Arc<[LinkId]>, BytesPerSec)>>;

impl<'m> Study<'m> {
    fn new(machine: &'m Machine) -> Self {
        let costs = CostModel {
            host_bridge_sixths: 6,
            ..CostModel::default()
        };
        let options = StripeOptions {
            costs,
            ..StripeOptions::default()
        };
        let peers = PeerAccess::all();
        Self {
            machine,
            network: Network::new(machine),
            router: Router::with_costs(machine, &peers, costs),
            planner: StripePlanner::new(machine, peers, options),
        }
    }

    fn scaled(&self, pattern: Pattern, devices: u16) -> Option<Scaled> {
        let pairs = pattern.pairs(devices);
        if pairs.is_empty() {
            return None;
        }
        let (nearest, linear) = self.nearest(&pairs)?;
        let free = Residual::of(self.machine);
        let plan = self.planner.plan_together(&pairs, LARGE, &free).ok()?;
        let striped = plan.copies.iter().map(|copy| {
            let parts = copy.stripes.iter();
            let parts = parts.map(|part| (part.hops.clone(), part.rate));
            parts.collect()
        });
        let parts = [nearest, self.widest(&pairs)?, striped.collect()];
        let summaries = parts.map(|parts| self.rates(&pairs, &parts));
        let count = pairs.len() as u64;
        Some(Scaled {
            devices,
            pattern,
            together: summaries.map(|all| all.slowest.saturating_mul(count)),
            fairness: summaries.map(|all| all.fairness),
            linear,
            cut: plan.bound.get().saturating_mul(count),
        })
    }

    /// Each copy over its nearest path, and what all would carry alone.
    fn nearest(&self, pairs: &[(DeviceId, DeviceId)]) -> Option<(Parts, u64)> {
        let paths = self.machine.nearest_paths(self.machine.devices());
        let mut linear = 0_u64;
        let mut parts = Parts::new();
        for (from, to) in pairs {
            let path = paths.get(from.index(), to.index())?.as_ref()?;
            linear = linear.saturating_add(path.bottleneck.get());
            parts.push(vec![(Arc::from(&*path.links), path.bottleneck)]);
        }
        Some((parts, linear))
    }

    fn widest(&self, pairs: &[(DeviceId, DeviceId)]) -> Option<Parts> {
        let route = |(from, to): &(DeviceId, DeviceId)| {
            let route = self.router.route(*from, *to, LARGE).ok()?;
            Some(vec![(route.hops.clone(), route.bottleneck)])
        };
        pairs.iter().map(route).collect()
    }

    /// What each copy gets if all run for ever.
    fn rates(&self, pairs: &[(DeviceId, DeviceId)], parts: &Parts) -> Summary {
        let mut flows = Vec::new();
        let mut whose = Vec::new();
        for (copy, ((from, _), parts)) in pairs.iter().zip(parts).enumerate() {
            let Some(source) = self.machine.device_node(*from) else {
                continue;
            };
            for (hops, rate) in parts {
                let uses = self.network.uses(self.machine, source, hops);
                // Where parts share a link, each gets what was planned for it.
                let weight = u32::try_from(rate.get() / 100_000).unwrap_or(u32::MAX);
                flows.push(FlowSpec {
                    weight: weight.max(1),
                    ..FlowSpec::new(uses, 1)
                });
                whose.push(copy);
            }
        }
        let mut rates = vec![0_u64; pairs.len()];
        let fair = fair_rates(self.network.capacities(), &flows);
        for (copy, rate) in whose.into_iter().zip(fair) {
            rates[copy] = rates[copy].saturating_add(rate);
        }
        Summary::of(&rates)
    }
}
