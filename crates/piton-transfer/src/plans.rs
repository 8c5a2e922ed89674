//! Which ways there are now, and which of them a copy takes.
//!
//! What the driver allows is narrowed by what has gone wrong: a pair of devices whose leg failed, hung or changed a
//! pattern is taken out of peer access, both ways, and router and planner are made anew. That takes as long as making
//! them, and happens once a pair at most; copies meanwhile use the old ones.
//!
//! A leg between two devices is trusted once a pattern has come over it unchanged, both ways.

mod quarantine;

use crate::{
    CopyWeight, TransferConfig, TransferError,
    book::{Book, Claim, Direction, Ticket, Use, Waiting},
    chunks::LARGEST_CHUNK_BYTES,
    incident::{Incident, Incidents},
    job::Job,
    now::{Now, Options, homes},
    way::{Share, Stop, Way},
};
use piton_driver::{DeviceId, Priority};
use piton_sync::{Mutex, atomic::AtomicBool};
use piton_topology::{
    BytesPerSec, Candidate, DeviceId as Place, LinkId, Machine, NumaId, PeerAccess, Residual,
    Route, RouteKind, Router, Stripe, StripePlan, Verdict,
};
use smallvec::{SmallVec, smallvec};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Bytes of an installment at least: fewer are not worth several ways.
const LEAST_INSTALLMENT: u64 = 4 << 20;
/// Installments begin at multiples of this many bytes.
const ALIGN: u64 = 256;

/// Lanes of a leg of a copy that goes one way and stops on it: one starts a chunk while the other carries one.
const LANES: u16 = 2;
/// Lanes of a leg at most that a copy has for what it weighs.
const MOST_LANES: u16 = LANES * CopyWeight::MOST.get();

/// The ways between the devices of a machine. `now` is a leaf lock; so is `book`, which may be held while
/// planning.
#[derive(Debug)]
pub(crate) struct Plans {
    machine: Machine,
    /// As the driver allows, whatever has gone wrong since.
    allowed: Router,
    now: Mutex<Arc<Now>>,
    book: Mutex<Book>,
    /// By `from * devices + to`.
    trusted: Vec<AtomicBool>,
    devices: usize,
    /// For the memory of a NUMA node the device whose page-locked memory is there.
    homes: BTreeMap<NumaId, DeviceId>,
    options: Options,
    /// Chunks that a lane holds at once.
    held: u64,
    incidents: Incidents,
}

/// What comes of a plan.
pub(crate) enum Plan {
    /// The parts, how many of the first bytes they are together, and what stands for what they take.
    Goes(Vec<Share>, u64, Ticket),
    /// More urgent copies, whose rounds these are, leave nothing of any way.
    Waits(BTreeSet<Ticket>),
}

impl Plans {
    /// The ways of `machine`, of whose devices the first `open` are there; over relays and several at once only where copies
    /// can be watched, with lanes that hold so many chunks, `held`.
    pub(crate) fn new(
        (machine, open): (&Machine, usize),
        peers: &PeerAccess,
        config: &TransferConfig,
        held: Option<u64>,
    ) -> Self {
        let can_watch = held.is_some();
        let devices = machine.device_count();
        let options = Options {
            relays: config.relays && can_watch,
            stripes: config.stripes && can_watch,
            costs: config.costs,
            engines: config.engines,
        };
        Self {
            allowed: Router::with_costs(machine, peers, config.costs),
            now: Mutex::new(Arc::new(Now::new(machine, peers.clone(), options))),
            book: Mutex::new(Book::new(machine)),
            trusted: (0..devices * devices)
                .map(|_| AtomicBool::new(!config.verifies_peers || !can_watch))
                .collect(),
            devices,
            homes: homes(machine, open),
            options,
            held: held.unwrap_or(u64::MAX),
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
        let predicted_ns = now.router.duration(route, bytes).get();
        Ok(self.whole(route, predicted_ns, bytes))
    }

    /// How a copy travels: by several ways at once where that is quicker, and then only as many of its first bytes as take
    /// an `installment`. `is_open` says whether a way may be taken, and whether beside others; `claim` is whose copy it is.
    pub(crate) fn several(
        &self,
        (from, to): (Place, Place),
        bytes: u64,
        installment: Duration,
        claim: &Claim,
        is_open: impl Fn(&Way, bool) -> bool,
    ) -> Result<Plan, TransferError> {
        let now = self.now();
        let one = self.best_of(&now.router, (from, to), bytes, |way| is_open(way, false))?;
        let own = self.directions(from, &one.way.links);
        let begun = self.begun(claim.class);
        let mut book = self.book.lock();
        let (left, is_behind) = book.left(claim, &begun, &own);
        let one = self.shared(one, &own, &left);
        let planned = |bytes: u64| -> Option<StripePlan> {
            let planner = now.planner.as_ref()?;
            let plan = planner.plan(from, to, bytes, &left).ok()?;
            let is_quicker = is_behind || plan.time.get() < one.predicted_ns;
            let mut parts = plan.stripes.iter();
            let are_open = parts.all(|part| is_open(&self.striped(part).way, true));
            // One road may be what no single route is: over two devices, or where more urgent copies are not.
            let is_other = is_behind || plan.time.get() < one.predicted_ns / 4 * 3;
            let is_worth_it = plan.stripes.len() > 1 || is_other;
            (is_worth_it && is_quicker && are_open).then_some(plan)
        };
        let Some(whole) = planned(bytes) else {
            let free = own.iter().map(|(link, node)| left.free(*link, *node).get());
            if is_behind && free.min() == Some(0) {
                return Ok(Plan::Waits(begun));
            }
            // Others see that it takes its way; and it may find more of them later.
            let one = self.weighed(one, claim.weight);
            let rate = BytesPerSec::new(rate(bytes, one.predicted_ns));
            let rate = self.options.costs.occupied(one.way.kind, rate);
            let uses = own.iter().map(|at| Use {
                at: *at,
                rate,
                is_own: true,
            });
            let uses = uses.collect();
            let first = if now.planner.is_some() || is_behind {
                first_bytes(bytes, one.predicted_ns, installment)
            } else {
                bytes
            };
            let room = self.room([(bytes, one.lanes, one.way.stops.len())], bytes);
            let first = first.min(room);
            let ticket = book.take(claim.clone(), uses);
            return Ok(Plan::Goes(vec![beginning(one, first)], first, ticket));
        };
        let parts = whole.stripes.iter();
        let parts = parts.map(|part| (part.bytes, part.lanes, part.stops.len()));
        let first = first_bytes(bytes, whole.time.get(), installment).min(self.room(parts, bytes));
        let (plan, bytes) = match planned(first).filter(|_| first < bytes) {
            Some(plan) => (plan, first),
            None => (whole, bytes),
        };
        let uses = plan.stripes.iter().flat_map(|stripe| {
            let rate = self.options.costs.occupied(stripe.kind, stripe.rate);
            let way = self.directions(from, &stripe.hops).into_iter();
            let own = &own;
            way.map(move |at| Use {
                at,
                rate,
                is_own: own.contains(&at),
            })
        });
        let ticket = book.take(claim.clone(), uses.collect());
        let parts = plan.stripes.iter();
        let shares = parts.map(|part| self.weighed(self.striped(part), claim.weight));
        Ok(Plan::Goes(shares.collect(), bytes, ticket))
    }

    /// How many of the first of `bytes` bytes lanes hold at once in chunks that are not too long, where these are the parts:
    /// their bytes, lanes and stops.
    fn room(&self, parts: impl IntoIterator<Item = (u64, u16, usize)>, bytes: u64) -> u64 {
        let fits = |(part, lanes, stops): (u64, u16, usize)| {
            if stops == 0 {
                return bytes;
            }
            let chunks = self.held.saturating_mul(lanes.into());
            let most = chunks.saturating_mul(LARGEST_CHUNK_BYTES);
            let fits = u128::from(bytes) * u128::from(most) / u128::from(part.max(1));
            u64::try_from(fits).unwrap_or(u64::MAX).min(bytes)
        };
        let least = parts.into_iter().map(fits).min().unwrap_or(bytes);
        least.next_multiple_of(ALIGN).min(bytes)
    }

    /// A copy over one way takes as much longer as less of its links `own` is `left` to it.
    fn shared(&self, one: Share, own: &[Direction], left: &Residual) -> Share {
        let least = |rates: &mut dyn Iterator<Item = u64>| rates.min().unwrap_or(1);
        let free = least(&mut own.iter().map(|(link, node)| left.free(*link, *node).get()));
        let whole = least(&mut own.iter().filter_map(|(link, node)| {
            let link = self.machine.link(*link)?;
            Some(link.bandwidth_from(*node).get())
        }));
        let part = u128::from(free.clamp(1, whole.max(1)));
        let longer = u128::from(one.predicted_ns) * u128::from(whole) / part;
        Share {
            predicted_ns: u64::try_from(longer).unwrap_or(u64::MAX),
            ..one
        }
    }

    /// Links divide evenly among commands, so a copy that weighs three has three times as many of them under way; but no more
    /// than a device has engines, each of which carries a lane.
    fn weighed(&self, share: Share, weight: CopyWeight) -> Share {
        let lanes = share.lanes.saturating_mul(weight.get());
        let engines = self.options.engines.map(|engines| engines.count);
        let most = engines.unwrap_or(MOST_LANES).max(share.lanes);
        Share {
            lanes: lanes.min(most),
            ..share
        }
    }

    /// The more urgent rounds that have begun.
    fn begun(&self, class: Priority) -> BTreeSet<Ticket> {
        // Streams are asked under no lock of ours.
        let urgent = self.book.lock().more_urgent(class);
        let begun = urgent
            .into_iter()
            .filter(|(_, start)| !matches!(start.query(), Ok(false)));
        begun.map(|(ticket, _)| ticket).collect()
    }

    /// The links on a way, each with the node it leads away from.
    fn directions(&self, from: Place, links: &[LinkId]) -> Vec<Direction> {
        let mut at = self.machine.device_node(from);
        let directions = links.iter().map_while(|link| {
            let node = at?;
            at = self
                .machine
                .link(*link)
                .and_then(|link| link.other_end(node));
            Some((*link, node))
        });
        directions.collect()
    }

    /// What a round took is free again.
    pub(crate) fn give_back(&self, ticket: Ticket) {
        self.book.lock().give_back(ticket);
    }

    /// A copy is to wait until one of these rounds is over. It comes back if all are.
    pub(crate) fn wait(&self, job: Box<Job>, behind: &BTreeSet<Ticket>) -> Result<(), Box<Job>> {
        self.book.lock().wait(job, behind)
    }

    /// How many copies wait.
    pub(crate) fn waiting(&self) -> usize {
        self.book.lock().waiting()
    }

    /// The copies that wait, which do not any more.
    pub(crate) fn wake(&self) -> Vec<Waiting> {
        self.book.lock().wake()
    }

    fn now(&self) -> Arc<Now> {
        Arc::clone(&self.now.lock())
    }

    /// The quickest way that is open.
    fn best_of(
        &self,
        router: &Router,
        (from, to): (Place, Place),
        bytes: u64,
        is_open: impl Fn(&Way) -> bool,
    ) -> Result<Share, TransferError> {
        let route = router.route(from, to, bytes)?;
        let best = self.whole(route, router.duration(route, bytes).get(), bytes);
        if is_open(&best.way) {
            return Ok(best);
        }
        let candidates = router.candidates(from, to, bytes)?;
        let open = candidates.iter().find_map(|candidate| match candidate {
            Candidate::Route {
                route,
                verdict: Verdict::Chosen { time } | Verdict::Slower { time, .. },
                ..
            } => Some(self.whole(route, time.get(), bytes)).filter(|share| is_open(&share.way)),
            _ => None,
        });
        let none = piton_topology::RouteError::NoRoute { from, to };
        open.ok_or(none.into())
    }

    fn whole(&self, route: &Route, predicted_ns: u64, bytes: u64) -> Share {
        let stops = match route.kind {
            RouteKind::Relay { device } => smallvec![Stop::Device(driver_id(device))],
            RouteKind::Staged { numa } => smallvec![self.host(numa)],
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
            lanes: if route.faster_half.is_some() && self.options.engines.is_none() {
                LANES
            } else {
                1
            },
        }
    }

    fn striped(&self, stripe: &Stripe) -> Share {
        let time = stripe
            .delay
            .saturating_add(stripe.rate.duration_of(stripe.bytes));
        let stops = stripe.stops.iter().map(|stop| match *stop {
            piton_topology::Stop::Device(device) => Stop::Device(driver_id(device)),
            piton_topology::Stop::Memory(numa) => self.host(numa),
        });
        Share {
            way: Way {
                kind: stripe.kind,
                links: stripe.hops.clone(),
                stops: stops.collect(),
            },
            offset: stripe.offset,
            bytes: stripe.bytes,
            predicted_ns: time.get(),
            lanes: stripe.lanes,
        }
    }

    /// Page-locked memory of a NUMA node. Plans name nodes that are near a device of the machine; where that one is not open
    /// any memory will do.
    fn host(&self, numa: NumaId) -> Stop {
        let home = self.homes.get(&numa).copied();
        Stop::Host(home.unwrap_or(DeviceId(0)))
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

pub(crate) fn driver_id(place: Place) -> DeviceId {
    DeviceId(u32::from(place.get()))
}

pub(crate) fn place(device: DeviceId) -> Option<Place> {
    u16::try_from(device.0).ok().map(Place::new)
}
