//! Which ways there are now, and which of them a copy takes.
//!
//! What the driver allows is narrowed by what has gone wrong: a pair of devices whose leg failed, hung or changed a
//! pattern is taken out of peer access, both ways, and router and planner are made anew. That takes as long as making
//! them, and happens once a pair at most; copies meanwhile use the old ones.
//!
//! A leg between two devices is trusted once a pattern has come over it unchanged, both ways.

use crate::{
    TransferConfig, TransferError,
    incident::{Incident, Incidents, NamedLink, Reason},
    way::{Leg, Share, Way},
};
use piton_driver::DeviceId;
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use piton_topology::{
    BytesPerSec, Candidate, CostModel, DeviceId as Place, LinkId, Machine, PeerAccess, Residual,
    Route, RouteKind, Router, StripeOptions, StripePlan, StripePlanner, Transit, Verdict,
};
use smallvec::{SmallVec, smallvec};
use std::{sync::Arc, time::Duration};

/// Bytes of an installment at least: fewer are not worth several ways.
const LEAST_INSTALLMENT: u64 = 4 << 20;
/// Installments begin at multiples of this many bytes.
const ALIGN: u64 = 256;

/// Routes as they may be taken now. Never changes.
#[derive(Debug)]
struct Now {
    peers: PeerAccess,
    router: Router,
    planner: Option<StripePlanner>,
}

/// The ways between the devices of a machine. `now` is a leaf lock; so is `residual`, which may be held while
/// planning.
#[derive(Debug)]
pub(crate) struct Plans {
    machine: Machine,
    /// As the driver allows, whatever has gone wrong since.
    allowed: Router,
    now: Mutex<Arc<Now>>,
    residual: Mutex<Residual>,
    /// By `from * devices + to`.
    trusted: Vec<AtomicBool>,
    devices: usize,
    relays: bool,
    stripes: bool,
    incidents: Incidents,
}

/// What a plan takes of the links, to be given back when the copy is settled.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<(LinkId, piton_topology::NodeId, BytesPerSec)>);

impl Plans {
    /// The ways of `machine`; over relays and several at once only where `can_watch`.
    pub(crate) fn new(
        machine: &Machine,
        peers: &PeerAccess,
        config: &TransferConfig,
        can_watch: bool,
    ) -> Self {
        let devices = machine.device_count();
        let (relays, stripes) = (config.relays && can_watch, config.stripes && can_watch);
        Self {
            allowed: Router::new(machine, peers),
            now: Mutex::new(Arc::new(Now::new(machine, peers.clone(), relays, stripes))),
            residual: Mutex::new(Residual::of(machine)),
            trusted: (0..devices * devices)
                .map(|_| AtomicBool::new(!config.verifies_peers || !can_watch))
                .collect(),
            devices,
            relays,
            stripes,
            incidents: Incidents::default(),
            machine: machine.clone(),
        }
    }

    pub(crate) fn router(&self) -> &Router {
        &self.allowed
    }

    pub(crate) fn incidents(&self) -> Vec<Incident> {
        self.incidents.all()
    }

    /// The one way on which `bytes` take the least time.
    pub(crate) fn one(&self, from: Place, to: Place, bytes: u64) -> Result<Share, TransferError> {
        let now = self.now();
        let route = now.router.route(from, to, bytes)?;
        Ok(whole(route, now.router.duration(route, bytes).get(), bytes))
    }

    /// How a copy travels: by several ways at once where that is quicker, and then only as many of its first bytes as take
    /// an `installment`; the answer has how many. `is_open` says whether a way may be taken; what the plan takes of the
    /// links is put in `taken`.
    pub(crate) fn several(
        &self,
        (from, to): (Place, Place),
        bytes: u64,
        installment: Duration,
        taken: &mut Taken,
        is_open: impl Fn(&Way) -> bool,
    ) -> Result<(Vec<Share>, u64), TransferError> {
        let now = self.now();
        let one = best_of(&now.router, from, to, bytes, &is_open)?;
        let Some(planner) = &now.planner else {
            return Ok((vec![one], bytes));
        };
        let mut residual = self.residual.lock();
        let planned = |bytes: u64| -> Option<StripePlan> {
            let plan = planner.plan(from, to, bytes, &residual).ok()?;
            let is_quicker = plan.time.get() < one.predicted_ns;
            let are_open = plan.stripes.iter().all(|part| is_open(&striped(part).way));
            (plan.stripes.len() > 1 && is_quicker && are_open).then_some(plan)
        };
        let Some(whole) = planned(bytes) else {
            // Others see that it takes its way; and it may find more of them later.
            let rate = BytesPerSec::new(rate(bytes, one.predicted_ns));
            self.take(&mut residual, from, &one.way.links, rate, taken);
            let first = first_bytes(bytes, one.predicted_ns, installment);
            return Ok((vec![beginning(one, first)], first));
        };
        let first = first_bytes(bytes, whole.time.get(), installment);
        let (plan, bytes) = match planned(first).filter(|_| first < bytes) {
            Some(plan) => (plan, first),
            None => (whole, bytes),
        };
        for stripe in &plan.stripes {
            self.take(&mut residual, from, &stripe.hops, stripe.rate, taken);
        }
        Ok((plan.stripes.iter().map(striped).collect(), bytes))
    }

    /// Takes `rate` of each link on a way, and notes that.
    fn take(
        &self,
        residual: &mut Residual,
        from: Place,
        links: &[LinkId],
        rate: BytesPerSec,
        taken: &mut Taken,
    ) {
        let mut at = self.machine.device_node(from);
        for &link in links {
            let Some(node) = at else { break };
            residual.take(link, node, rate);
            taken.0.push((link, node, rate));
            at = self
                .machine
                .link(link)
                .and_then(|link| link.other_end(node));
        }
    }

    /// What a plan took is free again.
    pub(crate) fn give_back(&self, taken: Taken) {
        let mut residual = self.residual.lock();
        for (link, node, rate) in taken.0 {
            residual.give_back(link, node, rate);
        }
    }

    /// Whether bytes may be entrusted to a leg.
    pub(crate) fn is_trusted(&self, leg: Leg) -> bool {
        let Some((from, to)) = leg.pair() else {
            return true;
        };
        let at = from.0 as usize * self.devices + to.0 as usize;
        self.trusted
            .get(at)
            .is_some_and(|trusted| trusted.load(Ordering::Relaxed))
    }

    /// A pattern came over unchanged.
    pub(crate) fn trust(&self, from: DeviceId, to: DeviceId) {
        let at = from.0 as usize * self.devices + to.0 as usize;
        if let Some(trusted) = self.trusted.get(at) {
            trusted.store(true, Ordering::Relaxed);
        }
    }

    /// Something went wrong on a leg. Between two devices, no copy takes it from now on, either way; said once.
    pub(crate) fn give_up(&self, leg: Leg, reason: Reason) {
        let is_quarantined = leg.pair().is_some();
        if let Some((from, to)) = leg.pair()
            && !self.close(from, to)
        {
            return;
        }
        self.incidents.add(Incident {
            leg,
            links: self.links_of(leg),
            reason,
            is_quarantined,
        });
    }

    /// Takes a pair out of peer access; says whether it was in.
    fn close(&self, from: DeviceId, to: DeviceId) -> bool {
        let (Some(a), Some(b)) = (place(from), place(to)) else {
            return false;
        };
        // Made under no lock: of two that close at once, the second makes it again from what the first left.
        loop {
            let now = self.now();
            if !now.peers.allows(a, b) && !now.peers.allows(b, a) {
                return false;
            }
            let mut peers = now.peers.clone();
            peers.set(a, b, false);
            peers.set(b, a, false);
            let next = Arc::new(Now::new(&self.machine, peers, self.relays, self.stripes));
            let mut current = self.now.lock();
            if Arc::ptr_eq(&current, &now) {
                *current = next;
                return true;
            }
        }
    }

    fn now(&self) -> Arc<Now> {
        Arc::clone(&self.now.lock())
    }

    /// The links that the model says a leg crosses.
    fn links_of(&self, leg: Leg) -> Box<[NamedLink]> {
        let Some((from, to)) = leg.pair() else {
            return Box::default();
        };
        let (Some(from), Some(to)) = (place(from), place(to)) else {
            return Box::default();
        };
        let candidates = self.allowed.candidates(from, to, 1 << 20);
        let hops = candidates
            .iter()
            .flatten()
            .find_map(|candidate| match candidate {
                Candidate::Route { route, .. } if route.kind.needs_peer_access() => {
                    Some(&route.hops)
                }
                _ => None,
            });
        let named = hops.into_iter().flat_map(|hops| hops.iter());
        named
            .filter_map(|link| NamedLink::of(&self.machine, *link))
            .collect()
    }
}

impl Now {
    fn new(machine: &Machine, peers: PeerAccess, relays: bool, stripes: bool) -> Self {
        let router = if relays {
            Router::with_relays(machine, &peers, CostModel::default())
        } else {
            Router::new(machine, &peers)
        };
        let options = StripeOptions {
            transit: if relays {
                Transit::Devices
            } else {
                Transit::HostOnly
            },
            one_road_a_leg: true,
            ..StripeOptions::default()
        };
        Self {
            planner: stripes.then(|| StripePlanner::new(machine, peers.clone(), options)),
            peers,
            router,
        }
    }
}

/// The first bytes of a share.
fn beginning(share: Share, bytes: u64) -> Share {
    let nanos = u128::from(share.predicted_ns) * u128::from(bytes) / u128::from(share.bytes.max(1));
    Share {
        bytes,
        predicted_ns: u64::try_from(nanos).unwrap_or(u64::MAX),
        ..share
    }
}

/// Bytes a second of so many bytes in so long.
fn rate(bytes: u64, nanos: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// How many of the first of `bytes` bytes, which take `nanos`, take an installment; all if no more than half of one would be
/// left.
fn first_bytes(bytes: u64, nanos: u64, installment: Duration) -> u64 {
    let installment = installment.as_nanos().max(1);
    if u128::from(nanos) <= installment + installment / 2 {
        return bytes;
    }
    let first = u128::from(bytes) * installment / u128::from(nanos);
    let first = u64::try_from(first).unwrap_or(bytes);
    first
        .max(LEAST_INSTALLMENT)
        .next_multiple_of(ALIGN)
        .min(bytes)
}

/// The quickest way that is open.
fn best_of(
    router: &Router,
    from: Place,
    to: Place,
    bytes: u64,
    is_open: impl Fn(&Way) -> bool,
) -> Result<Share, TransferError> {
    let route = router.route(from, to, bytes)?;
    let best = whole(route, router.duration(route, bytes).get(), bytes);
    if is_open(&best.way) {
        return Ok(best);
    }
    let candidates = router.candidates(from, to, bytes)?;
    let open = candidates.iter().find_map(|candidate| match candidate {
        Candidate::Route {
            route,
            verdict: Verdict::Chosen { time } | Verdict::Slower { time, .. },
            ..
        } => Some(whole(route, time.get(), bytes)).filter(|share| is_open(&share.way)),
        _ => None,
    });
    let none = piton_topology::RouteError::NoRoute { from, to };
    open.ok_or(none.into())
}

fn whole(route: &Route, predicted_ns: u64, bytes: u64) -> Share {
    let stops = match route.kind {
        RouteKind::Relay { device } => smallvec![Some(driver_id(device))],
        RouteKind::Staged { .. } => smallvec![None],
        _ => SmallVec::new(),
    };
    Share {
        way: Way {
            kind: route.kind,
            links: route.hops.clone(),
            stops,
        },
        offset: 0,
        bytes,
        predicted_ns,
    }
}

fn striped(stripe: &piton_topology::Stripe) -> Share {
    let time = stripe
        .delay
        .saturating_add(stripe.rate.duration_of(stripe.bytes));
    Share {
        way: Way {
            kind: stripe.kind,
            links: stripe.hops.clone(),
            stops: stripe
                .relays
                .iter()
                .map(|relay| Some(driver_id(*relay)))
                .collect(),
        },
        offset: stripe.offset,
        bytes: stripe.bytes,
        predicted_ns: time.get(),
    }
}

fn driver_id(place: Place) -> DeviceId {
    DeviceId(u32::from(place.get()))
}

pub(crate) fn place(device: DeviceId) -> Option<Place> {
    u16::try_from(device.0).ok().map(Place::new)
}
