//! Plans whose parts are what commands carry, and what few copy engines leave of any plan.

use super::carried::{Asked, Carried, Commands};
use super::decompose::FlowPath;
use super::fill::leave_out;
use super::{CopyEngines, Residual, Stop, Stripe, StripePlanner, fair, share};
use crate::id::{DeviceId, NodeId};
use crate::quantity::{BytesPerSec, Nanos};
use crate::route::RouteKind;

impl StripePlanner {
    /// What commands carry of such paths.
    pub(super) fn carried(
        &self,
        commands: &Commands,
        (from, to): (DeviceId, DeviceId),
        source: NodeId,
        (residual, bytes): (&Residual, u64),
        paths: &[FlowPath],
    ) -> Vec<Stripe> {
        let asked = Asked {
            from,
            to,
            source,
            peers: &self.peers,
            arcs: &self.arcs,
            kinds: &self.kinds,
            free: residual.rates(),
        };
        let mut roads = commands.carry(&asked, paths);
        let limit = match self.options.engines {
            Some(engines) => {
                roads = one_engine_each(&roads, |road| &mut road.rate, engines);
                engines.rate.get()
            }
            None => {
                leave_out(&mut roads, residual.rates(), share::LEFT_OUT);
                fair::give_lanes(&mut roads, residual.rates());
                u64::MAX
            }
        };
        fair::share(&mut roads, residual.rates(), limit);
        roads.retain(|road| road.rate > 0);
        let all: u64 = roads.iter().map(|road| road.rate).sum();
        let time = BytesPerSec::new(all).duration_of(bytes);
        let parts = roads
            .into_iter()
            .map(|road| self.by_command(source, road, time));
        parts.collect()
    }

    /// A part of a copy that takes about `time`.
    fn by_command(&self, source: NodeId, road: Carried, time: Nanos) -> Stripe {
        let path = self.arcs.flow_path(source, &road.directions, road.rate);
        let staged = road.stops.iter().find_map(|stop| match stop {
            Stop::Memory(numa) => Some(RouteKind::Staged { numa: *numa }),
            Stop::Device(_) => None,
        });
        let kind = match self.kind_of(&path.through) {
            relay @ RouteKind::Relay { .. } => relay,
            kind => staged.unwrap_or(kind),
        };
        let mut stripe = Stripe {
            lanes: road.lanes,
            ..self.stopping(kind, path, road.stops.into())
        };
        if self.options.engines.is_some() {
            let between = self.options.costs.between;
            stripe.delay =
                stripe
                    .delay
                    .saturating_add(one_by_one(time, between, stripe.stops.len()));
        }
        stripe
    }
}

/// What the chunks of a part add to its bytes over its rate where one engine carries them one by one.
///
/// Each stop waits for a chunk, and each chunk for what is `between` two copies: of chunks that take `t` a copy that takes `time`
/// has `time / t`. Both together are least where `t` is the root of `time * between / stops`, as who cuts them is to choose
/// it, and then twice the root of `time * between * stops`.
fn one_by_one(time: Nanos, between: Nanos, stops: usize) -> Nanos {
    let product = u128::from(time.get()).saturating_mul(u128::from(between.get()));
    let root = product.saturating_mul(stops as u128).isqrt();
    Nanos::new(u64::try_from(2 * root).unwrap_or(u64::MAX))
}

/// Gives each engine the road on which it carries most: a road wider than one engine keeps several busy.
pub(super) fn one_engine_each<R: Clone>(
    roads: &[R],
    rate: impl Fn(&mut R) -> &mut u64,
    engines: CopyEngines,
) -> Vec<R> {
    let mut left = roads.to_vec();
    let mut parts = Vec::new();
    let engine = engines.rate.get();
    for _ in 0..engines.count.max(1) {
        let mut carried: Vec<u64> = left
            .iter_mut()
            .map(|road| (*rate(road)).min(engine))
            .collect();
        let carries = |road: &usize| (carried[*road], std::cmp::Reverse(*road));
        let Some(best) = (0..roads.len()).max_by_key(carries) else {
            break;
        };
        let carried = std::mem::take(&mut carried[best]);
        if carried == 0 {
            break;
        }
        *rate(&mut left[best]) -= carried;
        let mut part = roads[best].clone();
        *rate(&mut part) = carried;
        parts.push(part);
    }
    parts
}
