//! Plans one large copy over several routes, so that all parts end together.
//!
//! A copy between two devices can take every road between them at once: the link of their own, links over
//! other devices, the host's buses. How much all of them carry is a maximum flow over what nobody else
//! uses; the flow taken apart gives routes with a rate each. A part takes its route's launch and latency and then its
//! bytes over its rate, so the shares that end together are `rate × (time − latency)`.
//!
//! Roads that would be ready only when the others are done are left out, and so are the narrowest as long as all
//! that is left out is a few hundredths. A copy too small to gain gets one route.
//!
//! The plan says what the copy should do; reserving what it takes is the caller's ([`Residual`]).

mod decompose;
mod dinic;
mod residual;
mod share;
mod together;

use serde::Serialize;

use std::collections::HashSet;
use std::sync::Arc;

use crate::defaults;
use crate::error::RouteError;
use crate::id::{DeviceId, LinkId, NodeId};
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::path::Transit;
use crate::peer::PeerAccess;
use crate::quantity::{BytesPerSec, Nanos};
use crate::route::{CostModel, RouteKind, as_list};

use dinic::Arcs;
pub use residual::Residual;

/// Copy engines of a device, one of which each part of a copy keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEngines {
    /// How many a device has for copies to others; at least 1.
    pub count: u16,
    /// What one carries.
    pub rate: BytesPerSec,
}

/// How copies are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeOptions {
    /// Whether parts may go through other devices.
    pub transit: Transit,
    /// What a copy costs beside its time on the wire.
    pub costs: CostModel,
    /// Copies below this many bytes take one route.
    pub floor: u64,
    /// Parts but for one are multiples of this many bytes; a power of two.
    pub align: u64,
    /// Whether of several roads over the same devices only the widest counts: for whoever can say which devices a copy
    /// goes over, and not which links.
    pub one_road_a_leg: bool,
    /// Engines of each device; `None` if parts may be as many as there are routes.
    pub engines: Option<CopyEngines>,
}

impl Default for StripeOptions {
    fn default() -> Self {
        Self {
            transit: Transit::Devices,
            costs: CostModel {
                // A relay waits for a whole chunk, so chunks are short where there may be several relays.
                chunk_bytes: defaults::STAGING_CHUNK_BYTES / 4,
                ..CostModel::default()
            },
            floor: 4 << 20,
            align: 256,
            one_road_a_leg: false,
            engines: None,
        }
    }
}

/// One part of a copy, and the route it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stripe {
    /// What the route passes through; of several devices, the first.
    pub kind: RouteKind,
    /// Its links in order.
    #[serde(serialize_with = "as_list")]
    pub hops: Arc<[LinkId]>,
    /// The devices that forward it, in order.
    pub relays: Box<[DeviceId]>,
    /// The rate planned for it.
    pub rate: BytesPerSec,
    /// From submission until its first byte arrives: launches, latency, a chunk for each relay.
    pub delay: Nanos,
    /// Where in the copy its bytes begin.
    pub offset: u64,
    /// How many bytes it carries.
    pub bytes: u64,
}

/// How one copy travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StripePlan {
    /// Its parts, the widest first; together they are the copy.
    pub stripes: Vec<Stripe>,
    /// When the last of them ends, after submission, if nothing else comes.
    pub time: Nanos,
}

/// How copies that run at once travel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedPlan {
    /// For each copy its parts.
    pub copies: Vec<StripePlan>,
    /// What each copy gets, all its routes together, before routes too narrow to be worth it are left out.
    pub each: BytesPerSec,
    /// No plan gives each copy more than this.
    pub bound: BytesPerSec,
}

/// Plans copies on one machine. Answers take a few microseconds and no lock.
///
/// ```
/// use piton_topology::{DeviceId, LinkKind, Machine, PeerAccess, Residual, StripeOptions, StripePlanner};
///
/// let machine = Machine::mesh(4, LinkKind::Hccs, 1)?;
/// let planner = StripePlanner::new(&machine, PeerAccess::all(), StripeOptions::default());
/// let [a, b] = [0, 1].map(DeviceId::new);
/// let plan = planner.plan(a, b, 1 << 30, &Residual::of(&machine))?;
/// // Its own link, one over each of two others, and the host.
/// assert_eq!(plan.stripes.len(), 4);
/// assert_eq!(plan.stripes.iter().map(|part| part.bytes).sum::<u64>(), 1 << 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StripePlanner {
    arcs: Arcs,
    /// Time for the first byte to cross each link.
    latencies: Vec<Nanos>,
    kinds: Vec<NodeKind>,
    devices: Vec<NodeId>,
    peers: PeerAccess,
    options: StripeOptions,
}

impl StripePlanner {
    /// A planner for `machine`, whose devices may access each other as `peers` says.
    #[must_use]
    pub fn new(machine: &Machine, peers: PeerAccess, options: StripeOptions) -> Self {
        Self {
            arcs: Arcs::new(machine, options.transit),
            latencies: machine.links().iter().map(|link| link.latency).collect(),
            kinds: machine.nodes().iter().map(|node| node.kind).collect(),
            devices: machine.devices().to_vec(),
            peers,
            options,
        }
    }

    /// The most that all routes together carry from one device to another over what `residual` leaves.
    ///
    /// # Errors
    /// [`RouteError::UnknownDevice`].
    pub fn max_flow(
        &self,
        from: DeviceId,
        to: DeviceId,
        residual: &Residual,
    ) -> Result<BytesPerSec, RouteError> {
        let (source, sink) = (self.node(from)?, self.node(to)?);
        if source == sink {
            return Ok(self.options.costs.local);
        }
        let mut rates = residual.rates().to_vec();
        let flow = self.arcs.max_flow(&mut rates, source, sink, self.engines());
        Ok(BytesPerSec::new(flow))
    }

    /// How a copy of `bytes` should travel over what `residual` leaves.
    ///
    /// # Errors
    /// [`RouteError::UnknownDevice`]; [`RouteError::NoRoute`] if nothing that peer access allows has room:
    /// such a copy is staged.
    pub fn plan(
        &self,
        from: DeviceId,
        to: DeviceId,
        bytes: u64,
        residual: &Residual,
    ) -> Result<StripePlan, RouteError> {
        let (source, sink) = (self.node(from)?, self.node(to)?);
        if source == sink {
            return Ok(self.local(bytes));
        }
        let mut roads = self.roads(source, sink, residual);
        roads.retain(|road| self.is_allowed(from, to, road));
        roads.sort_by_key(|road| (std::cmp::Reverse(road.rate), road.delay));
        if self.options.one_road_a_leg {
            let mut seen = HashSet::new();
            roads.retain(|road| seen.insert(road.relays.clone()));
        }
        if let Some(engines) = self.options.engines {
            roads = one_engine_each(&roads, engines);
        }
        share::split(roads, bytes, &self.options, share::LEFT_OUT)
            .ok_or(RouteError::NoRoute { from, to })
    }

    /// How copies of `bytes` each that run at once should share what `residual` leaves, so that the slowest is as fast
    /// as can be, to within a few hundredths. Takes milliseconds. Peer access and engines are not looked at.
    ///
    /// # Errors
    /// [`RouteError::UnknownDevice`]; [`RouteError::NoRoute`] for a pair that has no route with room, or is a
    /// device and itself.
    pub fn plan_together(
        &self,
        pairs: &[(DeviceId, DeviceId)],
        bytes: u64,
        residual: &Residual,
    ) -> Result<SharedPlan, RouteError> {
        let mut ends = Vec::with_capacity(pairs.len());
        for &(from, to) in pairs {
            let both = (self.node(from)?, self.node(to)?);
            if from == to {
                return Err(RouteError::NoRoute { from, to });
            }
            ends.push(both);
        }
        let no_route = |number: usize| {
            let (from, to) = pairs[number];
            RouteError::NoRoute { from, to }
        };
        let shares = together::shares(&self.arcs, residual.rates(), &ends).map_err(no_route)?;
        let mut copies = Vec::with_capacity(pairs.len());
        for (number, paths) in shares.paths.iter().enumerate() {
            let routes = self.routes(ends[number].0, paths);
            // The plan itself is a few thousandths short: less of it may go.
            let plan = share::split(routes, bytes, &self.options, share::LEFT_OUT / 4);
            copies.push(plan.ok_or_else(|| no_route(number))?);
        }
        Ok(SharedPlan {
            copies,
            each: whole(shares.each),
            bound: whole(shares.bound),
        })
    }

    fn routes(&self, source: NodeId, paths: &[together::PathRate]) -> Vec<Stripe> {
        let route = |path: &together::PathRate| {
            let rate = whole(path.rate).get();
            self.stripe(self.arcs.flow_path(source, &path.directions, rate))
        };
        let mut routes: Vec<Stripe> = paths.iter().map(route).collect();
        routes.retain(|route| route.rate.get() > 0);
        routes.sort_by_key(|route| (std::cmp::Reverse(route.rate), route.delay));
        routes
    }

    /// The routes of the maximum flow, each with its rate.
    fn roads(&self, source: NodeId, sink: NodeId, residual: &Residual) -> Vec<Stripe> {
        let mut left = residual.rates().to_vec();
        self.arcs.max_flow(&mut left, source, sink, u64::MAX);
        let paths = decompose::paths(&self.arcs, residual.rates(), &left, source, sink);
        paths.into_iter().map(|path| self.stripe(path)).collect()
    }

    fn stripe(&self, path: decompose::FlowPath) -> Stripe {
        let kind = self.kind_of(&path.through);
        let rate = self
            .options
            .costs
            .through(kind, BytesPerSec::new(path.rate));
        let mut delay = self.options.costs.launch;
        let mut relays = Vec::new();
        for node in &path.through {
            let here = self.kinds[node.index()];
            if let NodeKind::Device(device) = here {
                relays.push(device);
                let chunk = rate.duration_of(self.options.costs.chunk_bytes);
                delay = delay.saturating_add(chunk);
            }
            delay = delay.saturating_add(defaults::transit_latency(here));
        }
        for link in &path.links {
            delay = delay.saturating_add(self.latencies[link.index()]);
        }
        Stripe {
            kind,
            hops: path.links.into(),
            relays: relays.into_boxed_slice(),
            rate,
            delay,
            offset: 0,
            bytes: 0,
        }
    }

    /// What a path passes through; of several devices the first.
    fn kind_of(&self, through: &[NodeId]) -> RouteKind {
        let first = through
            .iter()
            .find_map(|node| match self.kinds[node.index()] {
                NodeKind::Device(device) => Some(RouteKind::Relay { device }),
                _ => None,
            });
        let kinds = through.iter().map(|node| match self.kinds[node.index()] {
            NodeKind::HostBridge | NodeKind::Memory(_) => RouteKind::HostBridge,
            _ => RouteKind::Switch,
        });
        first.unwrap_or_else(|| kinds.max().unwrap_or(RouteKind::Direct))
    }

    /// Whether each device of the way may access the next one's memory.
    fn is_allowed(&self, from: DeviceId, to: DeviceId, road: &Stripe) -> bool {
        let mut at = from;
        road.relays.iter().chain([&to]).all(|&next| {
            let allowed = self.peers.allows(at, next);
            at = next;
            allowed
        })
    }

    fn local(&self, bytes: u64) -> StripePlan {
        let costs = &self.options.costs;
        let stripe = Stripe {
            kind: RouteKind::Local,
            hops: Arc::default(),
            relays: Box::default(),
            rate: costs.local,
            delay: costs.launch,
            offset: 0,
            bytes,
        };
        let time = costs.launch.saturating_add(costs.local.duration_of(bytes));
        StripePlan {
            stripes: vec![stripe],
            time,
        }
    }

    /// What all engines of a device carry.
    fn engines(&self) -> u64 {
        let all = |engines: CopyEngines| engines.rate.get().saturating_mul(engines.count.into());
        self.options.engines.map_or(u64::MAX, all)
    }

    fn node(&self, device: DeviceId) -> Result<NodeId, RouteError> {
        let devices = self.devices.len();
        let node = self.devices.get(device.index()).copied();
        node.ok_or(RouteError::UnknownDevice { device, devices })
    }
}

/// The whole bytes a second of a rate that is not below zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates, and a fraction of a byte is nothing"
)]
fn whole(rate: f64) -> BytesPerSec {
    BytesPerSec::new(rate as u64)
}

/// Gives each engine the road on which it carries most: a road wider than one engine keeps several busy.
fn one_engine_each(roads: &[Stripe], engines: CopyEngines) -> Vec<Stripe> {
    let mut left: Vec<BytesPerSec> = roads.iter().map(|road| road.rate).collect();
    let mut parts = Vec::new();
    for _ in 0..engines.count.max(1) {
        let carries = |road: &usize| (left[*road].min(engines.rate), std::cmp::Reverse(*road));
        let Some(best) = (0..roads.len()).max_by_key(carries) else {
            break;
        };
        let rate = left[best].min(engines.rate);
        if rate.get() == 0 {
            break;
        }
        left[best] = BytesPerSec::new(left[best].get() - rate.get());
        parts.push(Stripe {
            rate,
            ..roads[best].clone()
        });
    }
    parts
}
