//! Plans copies that run at once, each over several routes, so that the slowest is as fast as can be.
//!
//! That is a concurrent flow. It is found by prices: each direction of a link has one, all copies send a little
//! over their cheapest paths, what they used gets dearer, and again. What was sent over all rounds, scaled
//! until it fits, is the plan. The prices prove how far it is from the best: no plan gives each copy more than all
//! capacity at its price over what one unit of every copy pays. It ends when the two are close.
//!
//! Prices are floating point, but only added and multiplied, always in the same order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::dinic::{Arc, Arcs};
use crate::id::NodeId;

/// How much dearer a direction gets when a round fills it.
const STEP: f64 = 0.03;
/// How close to the bound is close enough.
const CLOSE: f64 = 0.99;
/// After so many rounds what was sent is forgotten: prices were far from right.
const FORGET: [u32; 3] = [30, 120, 500];
/// When to stop in any case.
const MAX_ROUNDS: u32 = 2_000;

/// A path as its directions, and what flows over it.
pub(super) type PathRates = BTreeMap<Vec<u32>, f64>;

/// What copies that run at once get.
pub(super) struct Shares {
    /// For each copy its paths and their rates.
    pub(super) paths: Vec<PathRates>,
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
    let mut market = Market {
        arcs,
        rates,
        prices: rates
            .iter()
            .map(|rate| 1.0 / (*rate).max(1) as f64)
            .collect(),
        used: vec![0.0; rates.len()],
        paths: vec![PathRates::new(); pairs.len()],
    };
    // The first round says how much to send in each: what the cheapest paths carry.
    market.round(&by_source, 1.0)?;
    let unit = 1.0 / market.crowding();
    market.forget();
    let (mut rounds, mut since, mut bound) = (0, 0, f64::MAX);
    loop {
        let paid = market.round(&by_source, unit)?;
        rounds += 1;
        since += 1;
        bound = bound.min(market.worth() / paid);
        let crowding = market.crowding();
        let each = f64::from(since) * unit / crowding;
        if each >= CLOSE * bound || rounds >= MAX_ROUNDS {
            let mut paths = market.paths;
            let all = paths.iter_mut().flat_map(BTreeMap::values_mut);
            all.for_each(|rate| *rate /= crowding);
            return Ok(Shares { paths, each, bound });
        }
        if FORGET.contains(&rounds) {
            market.forget();
            since = 0;
        }
    }
}

struct Market<'a> {
    arcs: &'a Arcs,
    rates: &'a [u64],
    prices: Vec<f64>,
    /// What was sent over each direction in all rounds.
    used: Vec<f64>,
    paths: Vec<PathRates>,
}

impl Market<'_> {
    /// Sends `unit` of each copy over its cheapest path; the answer is what one byte of every copy pays.
    fn round(&mut self, by_source: &BySource, unit: f64) -> Result<f64, usize> {
        let mut paid = 0.0;
        for (source, sinks) in by_source {
            let (prices, came_by) = self.cheapest(*source);
            for (copy, sink) in sinks {
                let price = prices[sink.index()];
                if price == f64::MAX {
                    return Err(*copy);
                }
                paid += price;
                let mut left = unit - self.send(*copy, path(&came_by, *sink), unit);
                // What a narrow path cannot take in one round goes over the next cheapest.
                while left > 0.0 {
                    let (_, came_by) = self.cheapest(*source);
                    left -= self.send(*copy, path(&came_by, *sink), left);
                }
            }
        }
        Ok(paid)
    }

    /// Sends as much of `wanted` over a path as it carries; the answer is how much that was.
    fn send(&mut self, copy: usize, path: Vec<u32>, wanted: f64) -> f64 {
        let rates = path
            .iter()
            .map(|&direction| self.rates[direction as usize] as f64);
        let unit = rates.fold(wanted, f64::min);
        for &direction in &path {
            let at = direction as usize;
            self.used[at] += unit;
            self.prices[at] *= 1.0 + STEP * unit / self.rates[at] as f64;
        }
        *self.paths[copy].entry(path).or_insert(0.0) += unit;
        unit
    }

    /// The price of reaching each node, and the arc and node it was reached by.
    fn cheapest(&self, source: NodeId) -> (Vec<f64>, Vec<Option<(Arc, NodeId)>>) {
        let mut prices = vec![f64::MAX; self.arcs.nodes()];
        let mut came_by = vec![None; self.arcs.nodes()];
        prices[source.index()] = 0.0;
        // Prices are above zero, so their bits sort as they do.
        let mut queue = BinaryHeap::from([Reverse((0_u64, source))]);
        while let Some(Reverse((bits, node))) = queue.pop() {
            let price = f64::from_bits(bits);
            if price > prices[node.index()] || node != source && !self.arcs.is_passable(node) {
                continue;
            }
            for arc in self.arcs.of(node) {
                let next = price + self.prices[arc.index()];
                if self.rates[arc.index()] > 0 && next < prices[arc.to.index()] {
                    prices[arc.to.index()] = next;
                    came_by[arc.to.index()] = Some((*arc, node));
                    queue.push(Reverse((next.to_bits(), arc.to)));
                }
            }
        }
        (prices, came_by)
    }

    /// Forgets what was sent, and keeps the prices.
    fn forget(&mut self) {
        self.used.fill(0.0);
        self.paths.iter_mut().for_each(PathRates::clear);
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

fn path(came_by: &[Option<(Arc, NodeId)>], sink: NodeId) -> Vec<u32> {
    let mut path = Vec::new();
    let mut at = sink;
    while let Some((arc, from)) = came_by[at.index()] {
        path.push(arc.direction);
        at = from;
    }
    path.reverse();
    path
}
