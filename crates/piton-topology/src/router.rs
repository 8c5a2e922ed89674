//! Chooses how a copy travels.
//!
//! For each ordered pair of devices the routes worth considering are found once: over the device
//! fabric and over the host's buses, the widest and the quickest of each; and staged through the memory
//! of the NUMA node near the source, and of the one near the destination. A copy then takes the one
//! with the least time for its size, so a small copy takes the quick road and a large one the wide road.
//! Routes between devices that may not access each other are kept, to say what is lost, and never taken.
//!
//! On request routes over another device are among them ([`Router::with_relays`]); whoever asks must know how
//! to carry such a copy out. A path through a host bridge counts for less than its links.
//!
//! The choice looks at one copy on an idle machine. Several routes for one copy, and what other copies
//! leave: [`StripePlanner`](crate::StripePlanner).

use std::sync::Arc;

use crate::candidate::{Candidate, Missing, Verdict};
use crate::error::RouteError;
use crate::id::{DeviceId, LinkId, NodeId};
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::path::{Medium, Path, Paths, Transit};
use crate::peer::PeerAccess;
use crate::quantity::Nanos;
use crate::relay::Relays;
use crate::route::{CostModel, Route, RouteKind};
use crate::staging::Staging;

/// The routes of one ordered pair of devices.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Local, fabric and bus routes, then staged ones.
    routes: Vec<Route>,
    missing: Vec<Missing>,
    peer_access: bool,
}

/// Routes of every ordered pair of devices, found once; answers take no search.
///
/// Memory grows with the square of the number of devices (about 500 bytes a pair).
///
/// ```
/// use piton_topology::{DeviceId, LinkKind, Machine, PeerAccess, Router, RouteKind};
///
/// let machine = Machine::linked_pairs(4, LinkKind::Hccs, 2)?;
/// let router = Router::new(&machine, &PeerAccess::all());
/// let [a, b, c] = [0, 1, 2].map(DeviceId::new);
/// assert_eq!(router.route(a, b, 1 << 20)?.kind, RouteKind::Direct);
/// assert_eq!(router.route(a, c, 1 << 20)?.kind, RouteKind::HostBridge);
/// for candidate in router.candidates(a, c, 1 << 20)? {
///     println!("{candidate}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Router {
    devices: usize,
    costs: CostModel,
    /// The pair (from, to) is at `from * devices + to`.
    pairs: Vec<Pair>,
}

impl Router {
    /// Finds the routes of `machine`, with the default [`CostModel`].
    #[must_use]
    pub fn new(machine: &Machine, peers: &PeerAccess) -> Self {
        Self::with_costs(machine, peers, CostModel::default())
    }

    /// Finds the routes of `machine`, with the given cost model.
    #[must_use]
    pub fn with_costs(machine: &Machine, peers: &PeerAccess, costs: CostModel) -> Self {
        Self::search(machine, peers, costs, None)
    }

    /// Like [`Router::with_costs`], with routes over one other device as well.
    #[must_use]
    pub fn with_relays(machine: &Machine, peers: &PeerAccess, costs: CostModel) -> Self {
        Self::search(machine, peers, costs, Some(&Relays::new(machine)))
    }

    fn search(
        machine: &Machine,
        peers: &PeerAccess,
        costs: CostModel,
        relays: Option<&Relays>,
    ) -> Self {
        let staging = Staging::new(machine);
        let mut pairs = Vec::with_capacity(machine.device_count().saturating_pow(2));
        for from in machine.device_ids() {
            let mut row: Vec<Pair> = vec![Pair::default(); machine.device_count()];
            add_peer_routes(machine, from, &mut row);
            for (to, pair) in machine.device_ids().zip(&mut row) {
                pair.peer_access = peers.allows(from, to);
                if from == to {
                    *pair = local_pair(&costs);
                } else {
                    let relayed = relays.map(|relays| relays.routes(from, to, peers));
                    relayed
                        .into_iter()
                        .flatten()
                        .for_each(|route| pair.add(route));
                    pair.add_staged(&staging, from, to);
                }
            }
            pairs.append(&mut row);
        }
        Self {
            devices: machine.device_count(),
            costs,
            pairs,
        }
    }

    /// The route on which a copy of `bytes` bytes from `from` to `to` takes the least time. Does not block or search.
    ///
    /// # Errors
    /// [`RouteError::UnknownDevice`], or [`RouteError::NoRoute`] if nothing usable joins the two.
    pub fn route(&self, from: DeviceId, to: DeviceId, bytes: u64) -> Result<&Route, RouteError> {
        let pair = self.pair(from, to)?;
        self.best(pair, bytes)
            .map(|(route, _)| route)
            .ok_or(RouteError::NoRoute { from, to })
    }

    /// Every route that was considered for this copy, with the verdict: the chosen one first, then the usable ones by
    /// time, then the others.
    ///
    /// # Errors
    /// [`RouteError::UnknownDevice`]. A pair that nothing joins is not an error here; the answer says so.
    pub fn candidates(
        &self,
        from: DeviceId,
        to: DeviceId,
        bytes: u64,
    ) -> Result<Vec<Candidate<'_>>, RouteError> {
        let pair = self.pair(from, to)?;
        let best = self.best(pair, bytes);
        let mut judged: Vec<(&Route, Verdict)> = pair
            .routes
            .iter()
            .map(|route| (route, self.judge(pair, route, best, bytes)))
            .collect();
        judged.sort_by_key(|(_, verdict)| rank(*verdict));
        let routes = judged.into_iter().map(|(route, verdict)| Candidate::Route {
            from,
            to,
            bytes,
            route,
            verdict,
        });
        let missing = pair.missing.iter();
        let missing = missing.map(|&what| Candidate::Missing { from, to, what });
        Ok(routes.chain(missing).collect())
    }

    /// How long a copy of `bytes` bytes takes on `route` when nothing else uses it.
    #[must_use]
    pub fn duration(&self, route: &Route, bytes: u64) -> Nanos {
        route.duration(bytes, &self.costs)
    }

    /// How many devices the router knows.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.devices
    }

    fn pair(&self, from: DeviceId, to: DeviceId) -> Result<&Pair, RouteError> {
        let devices = self.devices;
        for device in [from, to] {
            if device.index() >= devices {
                return Err(RouteError::UnknownDevice { device, devices });
            }
        }
        Ok(&self.pairs[from.index() * devices + to.index()])
    }

    /// The first of the quickest usable routes.
    fn best<'r>(&self, pair: &'r Pair, bytes: u64) -> Option<(&'r Route, Nanos)> {
        pair.routes
            .iter()
            .filter(|route| pair.is_usable(route))
            .map(|route| (route, self.duration(route, bytes)))
            .min_by_key(|(_, time)| *time)
    }

    fn judge(
        &self,
        pair: &Pair,
        route: &Route,
        best: Option<(&Route, Nanos)>,
        bytes: u64,
    ) -> Verdict {
        let time = self.duration(route, bytes);
        match best {
            _ if !pair.is_usable(route) => Verdict::NoPeerAccess { time },
            Some((chosen, least)) if !core::ptr::eq(chosen, route) => Verdict::Slower {
                time,
                later_by: time.saturating_sub(least),
            },
            _ => Verdict::Chosen { time },
        }
    }
}

impl Pair {
    fn is_usable(&self, route: &Route) -> bool {
        self.peer_access || !route.kind.needs_peer_access()
    }

    /// Adds the route through the memory near the source and, if another, near the destination.
    fn add_staged(&mut self, staging: &Staging, from: DeviceId, to: DeviceId) {
        let routes = staging.routes(from, to);
        if routes.is_empty() {
            self.missing.push(Missing::HostMemory);
        }
        for route in routes {
            self.add(route);
        }
    }

    fn add(&mut self, route: Route) {
        let known = |other: &Route| other.hops == route.hops && other.kind == route.kind;
        if !self.routes.iter().any(known) {
            self.routes.push(route);
        }
    }
}

fn rank(verdict: Verdict) -> (u8, Nanos) {
    match verdict {
        Verdict::Chosen { time } => (0, time),
        Verdict::Slower { time, .. } => (1, time),
        Verdict::NoPeerAccess { time } => (2, time),
    }
}

fn local_pair(costs: &CostModel) -> Pair {
    Pair {
        routes: vec![Route {
            kind: RouteKind::Local,
            hops: Arc::default(),
            bottleneck: costs.local,
            latency: Nanos::ZERO,
            faster_half: None,
        }],
        missing: Vec::new(),
        peer_access: true,
    }
}

/// Adds to each pair of `row` the widest and the quickest route of each medium.
fn add_peer_routes(machine: &Machine, from: DeviceId, row: &mut [Pair]) {
    let devices = machine.devices();
    let source = devices[from.index()];
    let media = [
        (Medium::Fabric, Some(Missing::Fabric)),
        (Medium::Host, Some(Missing::HostBus)),
        // A processor on the device fabric: the way lies over both.
        (Medium::Any, None),
    ];
    for (medium, missing) in media {
        let paths = Paths::new(machine, source, medium, Transit::HostOnly);
        let widest = paths.widest(devices);
        let quickest = paths.quickest(devices);
        for ((pair, widest), quickest) in row.iter_mut().zip(widest).zip(quickest) {
            if widest.is_none() {
                pair.missing.extend(missing);
            }
            for path in [widest, quickest].into_iter().flatten() {
                pair.add(peer_route(machine, source, path));
            }
        }
    }
}

fn peer_route(machine: &Machine, source: NodeId, path: Path) -> Route {
    let kind = kind_of(machine, source, &path.links);
    Route {
        kind,
        hops: path.links.into(),
        bottleneck: path.bottleneck,
        latency: path.latency,
        faster_half: None,
    }
}

/// The farthest kind of node that the path passes through.
pub(crate) fn kind_of(machine: &Machine, source: NodeId, links: &[LinkId]) -> RouteKind {
    let mut kind = RouteKind::Direct;
    let mut at = source;
    for link in links.iter().filter_map(|id| machine.link(*id)) {
        if at != source {
            kind = kind.max(match machine.kind(at) {
                NodeKind::HostBridge | NodeKind::Memory(_) => RouteKind::HostBridge,
                _ => RouteKind::Switch,
            });
        }
        at = link.other_end(at).unwrap_or(at);
    }
    kind
}
