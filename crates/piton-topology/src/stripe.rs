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

mod by_command;
mod carried;
mod decompose;
mod dinic;
mod fair;
mod fill;
mod options;
mod plan;
mod residual;
mod share;
mod together;

use std::sync::Arc;

use crate::defaults;
use crate::error::RouteError;
use crate::id::{DeviceId, NodeId};
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::peer::PeerAccess;
use crate::quantity::{BytesPerSec, Nanos};
use crate::route::RouteKind;

use by_command::one_engine_each;
use carried::Commands;
use decompose::FlowPath;
use dinic::Arcs;
pub use options::{CopyEngines, StripeOptions};
pub use plan::{SharedPlan, Stop, Stripe, StripePlan};
pub use residual::Residual;

/// Plans copies on one machine. An answer takes a few microseconds and no lock.
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
    /// Where parts are to be what commands carry.
    commands: Option<Commands>,
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
            commands: options.by_commands.then(|| Commands::new(machine)),
            options,
        }
    }

    /// The most that all routes together carry from one device to another over the free rates in `residual`.
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

    /// How a copy of `bytes` bytes should travel over the free rates in `residual`.
    ///
    /// # Errors
    /// [`RouteError::UnknownDevice`]; [`RouteError::NoRoute`] if no route that peer access allows has room. Stage
    /// such a copy.
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
        let paths = self.paths(source, sink, residual);
        let (mut roads, left_out) = match &self.commands {
            // Which roads are not worth it has been seen to.
            Some(commands) => (
                self.carried(commands, (from, to), source, (residual, bytes), &paths),
                0,
            ),
            None => (self.flowing((from, to), paths), share::LEFT_OUT),
        };
        roads.sort_by_key(|road| (std::cmp::Reverse(road.rate), road.delay));
        share::split(roads, bytes, &self.options, left_out).ok_or(RouteError::NoRoute { from, to })
    }

    /// How copies of `bytes` bytes each that run at once should share the free rates in `residual`, so that the
    /// slowest is as fast as possible, to within a few hundredths. Takes milliseconds.
    ///
    /// No part goes from one device to the next where peer access is refused. Where devices have few copy engines, no
    /// more parts start from a device, or are forwarded by it, than it has engines, unless more copies than that start
    /// there. The slowest copy may then be slower than the best plan's, because engines are given out one by one.
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
        let ground = together::Ground {
            arcs: &self.arcs,
            kinds: &self.kinds,
            peers: &self.peers,
            engines: self.options.engines,
            rates: residual.rates(),
        };
        let shares = together::shares(ground, &ends).map_err(no_route)?;
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

    /// The paths of the maximum flow, each with its rate.
    fn paths(&self, source: NodeId, sink: NodeId, residual: &Residual) -> Vec<FlowPath> {
        let mut left = residual.rates().to_vec();
        self.arcs.max_flow(&mut left, source, sink, u64::MAX);
        decompose::paths(&self.arcs, residual.rates(), &left, source, sink)
    }

    /// Paths of a flow as parts, those that peer access allows and engines are left for.
    fn flowing(&self, (from, to): (DeviceId, DeviceId), paths: Vec<FlowPath>) -> Vec<Stripe> {
        let mut roads: Vec<Stripe> = paths.into_iter().map(|path| self.stripe(path)).collect();
        roads.retain(|road| self.is_allowed(from, to, road));
        roads.sort_by_key(|road| (std::cmp::Reverse(road.rate), road.delay));
        let Some(engines) = self.options.engines else {
            return roads;
        };
        let mut roads: Vec<(u64, Stripe)> = roads
            .into_iter()
            .map(|road| (road.rate.get(), road))
            .collect();
        roads = one_engine_each(&roads, |road| &mut road.0, engines);
        let parts = roads.into_iter().map(|(rate, road)| Stripe {
            rate: BytesPerSec::new(rate),
            ..road
        });
        parts.collect()
    }

    /// A part that takes a path, and stops in each device on it.
    fn stripe(&self, path: FlowPath) -> Stripe {
        let kind = self.kind_of(&path.through);
        let devices = path.through.iter().filter_map(|node| self.device(*node));
        let stops = devices.map(Stop::Device).collect();
        self.stopping(kind, path, stops)
    }

    fn stopping(&self, kind: RouteKind, path: FlowPath, stops: Box<[Stop]>) -> Stripe {
        let costs = &self.options.costs;
        let rate = costs.through(kind, BytesPerSec::new(path.rate));
        let mut delay = costs.launch;
        for _ in &stops {
            delay = delay.saturating_add(self.chunk_time(&stops, rate));
        }
        for node in &path.through {
            delay = delay.saturating_add(defaults::transit_latency(self.kinds[node.index()]));
        }
        for link in &path.links {
            delay = delay.saturating_add(self.latencies[link.index()]);
        }
        Stripe {
            kind,
            hops: path.links.into(),
            relays: path
                .through
                .iter()
                .filter_map(|node| self.device(*node))
                .collect(),
            stops,
            lanes: 1,
            rate,
            delay,
            offset: 0,
            bytes: 0,
        }
    }

    /// What the first chunk of a part that stops there takes: the next leg waits for it.
    fn chunk_time(&self, stops: &[Stop], rate: BytesPerSec) -> Nanos {
        let least = rate.duration_of(self.options.costs.chunk_bytes);
        if self.commands.is_none() {
            return least;
        }
        // Where an engine has a part to itself, what chunks take is counted with the rest.
        if self.options.engines.is_some() {
            return Nanos::new(0);
        }
        let is_host = stops.iter().any(|stop| matches!(stop, Stop::Memory(_)));
        least.max(if is_host {
            defaults::HOST_CHUNK_TIME
        } else {
            defaults::CHUNK_TIME
        })
    }

    fn device(&self, node: NodeId) -> Option<DeviceId> {
        match self.kinds[node.index()] {
            NodeKind::Device(device) => Some(device),
            _ => None,
        }
    }

    /// What a path passes through; of several devices the first.
    fn kind_of(&self, through: &[NodeId]) -> RouteKind {
        if let Some(device) = through.iter().find_map(|node| self.device(*node)) {
            return RouteKind::Relay { device };
        }
        let kinds = through.iter().map(|node| match self.kinds[node.index()] {
            NodeKind::HostBridge | NodeKind::Memory(_) => RouteKind::HostBridge,
            _ => RouteKind::Switch,
        });
        kinds.max().unwrap_or(RouteKind::Direct)
    }

    /// Whether each device of the way may access the next one's memory; into host memory every one may.
    fn is_allowed(&self, from: DeviceId, to: DeviceId, road: &Stripe) -> bool {
        let mut at = Stop::Device(from);
        let stops = road.stops.iter().copied();
        stops.chain([Stop::Device(to)]).all(|next| {
            let allowed = match (at, next) {
                (Stop::Device(from), Stop::Device(to)) => self.peers.allows(from, to),
                _ => true,
            };
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
            stops: Box::default(),
            lanes: 1,
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
