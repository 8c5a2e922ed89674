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
//! Prices are floating point, but only added and multiplied, always in the same order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::decompose;
use super::dinic::{Arc, Arcs};
use crate::id::NodeId;

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
pub(super) struct PathRate {
    pub(super) directions: Box<[u32]>,
    pub(super) rate: f64,
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
pub(super) fn shares(
    arcs: &Arcs,
    rates: &[u64],
    pairs: &[(NodeId, NodeId)],
) -> Result<Shares, usize> {
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
    let mut market = Market::new(arcs, rates, pairs.len());
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
    arcs: &'a Arcs,
    rates: &'a [u64],
    prices: Vec<f64>,
    /// How much dearer a direction gets when a round fills it.
    step: f64,
    /// What was sent over each direction in all rounds.
    used: Vec<f64>,
    /// The paths that each copy knows, and what it sent over them.
    paths: Vec<Vec<PathRate>>,
}

impl<'a> Market<'a> {
    fn new(arcs: &'a Arcs, rates: &'a [u64], copies: usize) -> Self {
        let prices = rates.iter().map(|rate| 1.0 / (*rate).max(1) as f64);
        Self {
            arcs,
            rates,
            prices: prices.collect(),
            step: STEPS[0].0,
            used: vec![0.0; rates.len()],
            paths: (0..copies).map(|_| Vec::new()).collect(),
        }
    }

    /// Each copy knows the paths of its maximum flow.
    fn know_flows(&mut self, pairs: &[(NodeId, NodeId)]) {
        for (copy, (source, sink)) in pairs.iter().enumerate() {
            let mut left = self.rates.to_vec();
            self.arcs.max_flow(&mut left, *source, *sink, u64::MAX);
            for path in decompose::paths(self.arcs, self.rates, &left, *source, *sink) {
                let directions = self.arcs.directions(*source, &path.links);
                self.know(copy, &directions);
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
                let price = found.prices[sink.index()];
                if price == f64::MAX {
                    return Err(*copy);
                }
                paid += price;
                let known = self.know(*copy, &found.path(*sink));
                let mut left = unit - self.send(*copy, known, unit);
                // What a narrow path cannot take in one round goes over the next cheapest.
                while left > 0.0 {
                    let found = self.cheapest(*source, 1, |node| node == *sink);
                    let known = self.know(*copy, &found.path(*sink));
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

    /// The price of reaching nodes, until all of so many `wanted` ones are reached.
    fn cheapest(&self, source: NodeId, wanted: usize, is_wanted: impl Fn(NodeId) -> bool) -> Found {
        let mut found = Found {
            prices: vec![f64::MAX; self.arcs.nodes()],
            came_by: vec![None; self.arcs.nodes()],
        };
        found.prices[source.index()] = 0.0;
        let mut left = wanted;
        // Prices are above zero, so their bits sort as they do.
        let mut queue = BinaryHeap::from([Reverse((0_u64, source))]);
        while let Some(Reverse((bits, node))) = queue.pop() {
            let price = f64::from_bits(bits);
            if price > found.prices[node.index()] {
                continue;
            }
            left -= usize::from(is_wanted(node));
            if left == 0 {
                break;
            }
            if node != source && !self.arcs.is_passable(node) {
                continue;
            }
            for arc in self.arcs.of(node) {
                let next = price + self.prices[arc.index()];
                if self.rates[arc.index()] > 0 && next < found.prices[arc.to.index()] {
                    found.prices[arc.to.index()] = next;
                    found.came_by[arc.to.index()] = Some((*arc, node));
                    queue.push(Reverse((next.to_bits(), arc.to)));
                }
            }
        }
        found
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
        let all = paths.iter_mut().flatten();
        all.for_each(|path| path.rate /= crowding);
        Shares { paths, each, bound }
    }

    /// How many times over the fullest direction was used.
    fn crowding(&self) -> f64 {
        let used = self.used.iter().zip(self.rates);
        used.filter(|(_, rate)| **rate > 0)
            .map(|(used, rate)| used / *rate as f64)
            .fold(f64::MIN_POSITIVE, f64::max)
    }

    /// All capacity at its price.
    fn worth(&self) -> f64 {
        let priced = self.prices.iter().zip(self.rates);
        priced.map(|(price, rate)| price * *rate as f64).sum()
    }
}

/// What a search found: for each node its price, and the arc and node it was reached by.
struct Found {
    prices: Vec<f64>,
    came_by: Vec<Option<(Arc, NodeId)>>,
}

impl Found {
    fn path(&self, sink: NodeId) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = sink;
        while let Some((arc, from)) = self.came_by[at.index()] {
            path.push(arc.direction);
            at = from;
        }
        path.reverse();
        path
    }
}
