//! Plans copies that run at once, each over several routes, so that the slowest is as fast as can be.
//!
//! That is a concurrent flow. It is found by prices: each direction of a link has one, all copies send a little
//! over their cheapest paths, what they used gets dearer, and again. What was sent over all rounds, scaled
//! until it fits, is the plan. The prices prove how far it is from the best: no plan gives each copy more than all
//! capacity at its price over what one unit of every copy pays. It ends when the two are close.
//!
//! Searching for the cheapest path is what takes time, and soon no new ones are found. So a copy begins with the paths of
//! its own maximum flow, most rounds choose among the paths that it knows, and only every [`SEARCH_EVERY`]th searches, as
//! the first ones all do; a search is also what proves something.
//!
//! Paths whose devices may not access each other's memory are none. What the engines of a device carry together has a price as a
//! direction has, where it is less than the device's links carry; and where a device has no more engines than parts set
//! out from it, some parts go and the others take what those leave (`engines`).
//!
//! Prices are floating point, but only added and multiplied, always in the same order.

mod engines;
mod search;

use std::collections::BTreeMap;

use super::CopyEngines;
use super::decompose;
use super::dinic::Arcs;
use crate::id::NodeId;
use crate::node::NodeKind;
use crate::peer::PeerAccess;
use search::Found;

/// How much dearer a direction gets when a round fills it, and for how many rounds. Large steps find about the right
/// prices soon; with a step of a hundredth they swing by as much, and so does what they prove. What was sent before the
/// last change is forgotten: prices were far from right.
const STEPS: [(f64, u32); 5] = [
    (0.3, 48),
    (0.1, 240),
    (0.03, 1_200),
    (0.01, 2_400),
    (0.004, 4_800),
];
/// How many rounds lie between two that search.
const SEARCH_EVERY: u32 = 24;
/// How many rounds search after each change of step.
const FIRST_SEARCHES: u32 = 4;
/// How close to the bound is close enough.
const CLOSE: f64 = 0.99;

/// A path as its directions, and what flows over it.
#[derive(Clone)]
pub(super) struct PathRate {
    pub(super) directions: Box<[u32]>,
    pub(super) rate: f64,
}

/// What copies go over, and what holds of them.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) arcs: &'a Arcs,
    pub(super) kinds: &'a [NodeKind],
    pub(super) peers: &'a PeerAccess,
    pub(super) engines: Option<CopyEngines>,
    /// By direction.
    pub(super) rates: &'a [u64],
}

/// What copies that run at once get.
pub(super) struct Shares {
    /// For each copy its paths and their rates.
    pub(super) paths: Vec<Vec<PathRate>>,
    /// What each copy gets.
    pub(super) each: f64,
    /// What no plan can give each of them more of.
    pub(super) bound: f64,
}

/// The copies by source: who goes to which sink.
type BySource = BTreeMap<NodeId, Vec<(usize, NodeId)>>;

/// What each of `pairs` gets; the number of one that has no path with room is the error.
pub(super) fn shares(ground: Ground<'_>, pairs: &[(NodeId, NodeId)]) -> Result<Shares, usize> {
    let shares = flows(ground, pairs)?;
    Ok(match ground.engines {
        Some(engines) => engines::share_out(ground, engines, pairs, shares),
        None => shares,
    })
}

/// What each of `pairs` gets of links and of what engines carry together.
fn flows(ground: Ground<'_>, pairs: &[(NodeId, NodeId)]) -> Result<Shares, usize> {
    if pairs.is_empty() {
        return Ok(Shares {
            paths: Vec::new(),
            each: 0.0,
            bound: 0.0,
        });
    }
    let mut by_source = BySource::new();
    for (number, (from, to)) in pairs.iter().enumerate() {
        by_source.entry(*from).or_default().push((number, *to));
    }
    let mut market = Market::new(ground, pairs.len());
    // The first round says how much to send in each: what the cheapest paths carry.
    market.searched_round(&by_source, 1.0)?;
    let unit = 1.0 / market.crowding();
    market.know_flows(pairs);
    let (mut each, mut bound) = (0.0, f64::MAX);
    for (step, rounds) in STEPS {
        market.forget();
        market.step = step;
        for round in 1..=rounds {
            if round % SEARCH_EVERY != 0 && round > FIRST_SEARCHES {
                market.round(unit);
                continue;
            }
            let paid = market.searched_round(&by_source, unit)?;
            bound = bound.min(market.worth() / paid);
            each = f64::from(round) * unit / market.crowding();
            if each >= CLOSE * bound {
                return Ok(market.shares(each, bound));
            }
        }
    }
    Ok(market.shares(each, bound))
}

struct Market<'a> {
    ground: Ground<'a>,
    /// What there is of each direction, and behind them of what devices' engines carry.
    rates: Vec<u64>,
    /// The place of what a node's engines carry among the rates, where it is less than its links carry.
    engines: Vec<Option<u32>>,
    /// Whether any device may not access another.
    is_refused: bool,
    prices: Vec<f64>,
    /// How much dearer a direction gets when a round fills it.
    step: f64,
    /// What was sent over each direction in all rounds.
    used: Vec<f64>,
    /// The paths that each copy knows, and what it sent over them.
    paths: Vec<Vec<PathRate>>,
}

impl<'a> Market<'a> {
    fn new(ground: Ground<'a>, copies: usize) -> Self {
        let mut rates = ground.rates.to_vec();
        let engines = engines::limits(ground, &mut rates);
        let prices = rates.iter().map(|rate| 1.0 / (*rate).max(1) as f64);
        Self {
            ground,
            is_refused: ground.refuses_any(),
            prices: prices.collect(),
            step: STEPS[0].0,
            used: vec![0.0; rates.len()],
            paths: (0..copies).map(|_| Vec::new()).collect(),
            rates,
            engines,
        }
    }

    /// Each copy knows the paths of its maximum flow.
    fn know_flows(&mut self, pairs: &[(NodeId, NodeId)]) {
        for (copy, (source, sink)) in pairs.iter().enumerate() {
            let Ground { arcs, rates, .. } = self.ground;
            let mut left = rates.to_vec();
            arcs.max_flow(&mut left, *source, *sink, u64::MAX);
            for path in decompose::paths(arcs, rates, &left, *source, *sink) {
                let ends = (*source, *sink);
                if self.ground.allows(ends, &path.through) {
                    let directions = arcs.directions(*source, &path.links);
                    let taken = self.with_engines(*source, &directions);
                    self.know(copy, &taken);
                }
            }
        }
    }

    /// Sends `unit` of each copy over the cheapest paths there are; the answer is what one byte of every copy pays.
    fn searched_round(&mut self, by_source: &BySource, unit: f64) -> Result<f64, usize> {
        let mut paid = 0.0;
        for (source, sinks) in by_source {
            let found = self.cheapest(*source, sinks.len(), |node| {
                sinks.iter().any(|(_, sink)| *sink == node)
            });
            for (copy, sink) in sinks {
                paid += found.price(*sink).ok_or(*copy)?;
                let known = self.know_found(*copy, (*source, *sink), &found);
                let mut left = unit - self.send(*copy, known, unit);
                // What a narrow path cannot take in one round goes over the next cheapest.
                while left > 0.0 {
                    let found = self.cheapest(*source, 1, |node| node == *sink);
                    let known = self.know_found(*copy, (*source, *sink), &found);
                    left -= self.send(*copy, known, left);
                }
            }
        }
        Ok(paid)
    }

    /// Sends `unit` of each copy over the cheapest paths that it knows.
    fn round(&mut self, unit: f64) {
        for copy in 0..self.paths.len() {
            let mut left = unit;
            while left > 0.0 {
                let Some(cheapest) = self.cheapest_known(copy) else {
                    break;
                };
                left -= self.send(copy, cheapest, left);
            }
        }
    }

    fn cheapest_known(&self, copy: usize) -> Option<usize> {
        let price = |path: &PathRate| -> f64 {
            let directions = path.directions.iter();
            directions.map(|at| self.prices[*at as usize]).sum()
        };
        let prices = self.paths[copy].iter().map(price).enumerate();
        let cheapest = prices.min_by(|(_, a), (_, b)| a.total_cmp(b));
        cheapest.map(|(path, _)| path)
    }

    /// The number of the path that was found to a sink among those that a copy knows.
    fn know_found(
        &mut self,
        copy: usize,
        (source, sink): (NodeId, NodeId),
        found: &Found,
    ) -> usize {
        let taken = self.with_engines(source, &found.path(sink));
        self.know(copy, &taken)
    }

    /// The number of a path among those that a copy knows.
    fn know(&mut self, copy: usize, path: &[u32]) -> usize {
        let known = &mut self.paths[copy];
        let place = known.iter().position(|other| *other.directions == *path);
        place.unwrap_or_else(|| {
            known.push(PathRate {
                directions: path.into(),
                rate: 0.0,
            });
            known.len() - 1
        })
    }

    /// Sends as much of `wanted` over a path as it carries; the answer is how much that was.
    fn send(&mut self, copy: usize, path: usize, wanted: f64) -> f64 {
        let path = &mut self.paths[copy][path];
        let rates = path.directions.iter().map(|at| self.rates[*at as usize]);
        let unit = rates.fold(wanted, |least, rate| least.min(rate as f64));
        for &direction in &path.directions {
            let at = direction as usize;
            self.used[at] += unit;
            self.prices[at] *= 1.0 + self.step * unit / self.rates[at] as f64;
        }
        path.rate += unit;
        unit
    }

    /// What a path from `source` takes: its directions, and of the engines of each device it sets out from.
    fn with_engines(&self, source: NodeId, directions: &[u32]) -> Vec<u32> {
        let starts = self.ground.starts(source, directions).into_iter();
        let engines = starts.filter_map(|node| self.engines[node.index()]);
        directions.iter().copied().chain(engines).collect()
    }

    /// Forgets what was sent, and keeps the prices and the paths.
    fn forget(&mut self) {
        self.used.fill(0.0);
        let paths = self.paths.iter_mut().flatten();
        paths.for_each(|path| path.rate = 0.0);
    }

    /// What was sent, scaled until it fits.
    fn shares(self, each: f64, bound: f64) -> Shares {
        let crowding = self.crowding();
        let mut paths = self.paths;
        let directions = self.ground.rates.len();
        for path in paths.iter_mut().flatten() {
            path.rate /= crowding;
            // Engines are no part of the way.
            let way = path.directions.iter().copied();
            path.directions = way.filter(|at| (*at as usize) < directions).collect();
        }
        Shares { paths, each, bound }
    }

    /// How many times over the fullest direction was used.
    fn crowding(&self) -> f64 {
        let used = self.used.iter().zip(&self.rates);
        used.filter(|(_, rate)| **rate > 0)
            .map(|(used, rate)| used / *rate as f64)
            .fold(f64::MIN_POSITIVE, f64::max)
    }

    /// All capacity at its price.
    fn worth(&self) -> f64 {
        let priced = self.prices.iter().zip(&self.rates);
        priced.map(|(price, rate)| price * *rate as f64).sum()
    }
}
