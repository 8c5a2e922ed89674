//! Copies that run at once where devices have few copy engines.
//!
//! What the engines of a device carry together is one more resource of the flow. Their number is none: a part keeps one engine of
//! its source busy, and one of each device that forwards it. So parts are chosen until engines are used up: first one for each
//! copy, and then always the widest of the copy that has least. A road wider than one engine keeps several busy. Then the flow is found anew
//! over what was chosen, which so takes what was left out.
//!
//! A device from which more copies set out than it has engines has a part for each: they take turns.

use super::{Ground, Market, PathRate, STEPS, Shares};
use crate::id::NodeId;
use crate::node::NodeKind;
use crate::stripe::CopyEngines;

/// For each node the place of what its engines carry, put behind `rates`, where that is less than its links do.
pub(super) fn limits(ground: Ground<'_>, rates: &mut Vec<u64>) -> Vec<Option<u32>> {
    let mut limits = vec![None; ground.arcs.nodes()];
    let Some(engines) = ground.engines else {
        return limits;
    };
    let all = engines.rate.get().saturating_mul(engines.count.into());
    for (limit, at) in limits.iter_mut().zip(0..) {
        let node = NodeId::new(at);
        if !matches!(ground.kinds[node.index()], NodeKind::Device(_)) {
            continue;
        }
        let arcs = ground.arcs.of(node).iter();
        let links = arcs.fold(0_u64, |sum, arc| sum.saturating_add(rates[arc.index()]));
        if all < links {
            *limit = u32::try_from(rates.len()).ok();
            rates.push(all);
        }
    }
    limits
}

/// The shares of copies whose parts have an engine each.
pub(super) fn share_out(
    ground: Ground<'_>,
    engines: CopyEngines,
    pairs: &[(NodeId, NodeId)],
    shares: Shares,
) -> Shares {
    let mut choice = Choice::new(ground, engines, pairs, &shares.paths);
    choice.one_each();
    while let Some(copy) = choice.least() {
        choice.take_next(copy);
    }
    choice.refilled(shares.bound)
}

/// A path that a copy may take.
struct Road<'a> {
    path: &'a PathRate,
    /// The devices that forward it.
    relays: Vec<NodeId>,
    /// How many engines it has of each device it sets out from.
    engines: u32,
}

struct Choice<'a> {
    ground: Ground<'a>,
    count: u32,
    /// What one engine carries.
    rate: f64,
    pairs: &'a [(NodeId, NodeId)],
    roads: Vec<Vec<Road<'a>>>,
    /// What each copy has; nothing more is to be had for one that is `done`.
    got: Vec<f64>,
    done: Vec<bool>,
    /// By node: how many engines are taken.
    taken: Vec<u32>,
}

impl<'a> Choice<'a> {
    fn new(
        ground: Ground<'a>,
        engines: CopyEngines,
        pairs: &'a [(NodeId, NodeId)],
        paths: &'a [Vec<PathRate>],
    ) -> Self {
        let mut taken = vec![0; ground.arcs.nodes()];
        // Each copy needs one of its source's.
        pairs.iter().for_each(|(from, _)| taken[from.index()] += 1);
        let road = |source: NodeId, path: &'a PathRate| Road {
            path,
            relays: ground.starts(source, &path.directions).split_off(1),
            engines: 0,
        };
        let roads = pairs.iter().zip(paths).map(|((from, _), paths)| {
            let flowing = paths.iter().filter(|path| path.rate > 0.0);
            flowing.map(|path| road(*from, path)).collect()
        });
        Self {
            ground,
            count: u32::from(engines.count.max(1)),
            rate: engines.rate.get() as f64,
            pairs,
            roads: roads.collect(),
            got: vec![0.0; pairs.len()],
            done: vec![false; pairs.len()],
            taken,
        }
    }

    /// What one more engine would carry of a road.
    fn worth(&self, road: &Road<'_>) -> f64 {
        let left = road.path.rate - self.rate * f64::from(road.engines);
        left.min(self.rate).max(0.0)
    }

    fn has_engines(&self, nodes: &[NodeId]) -> bool {
        nodes
            .iter()
            .all(|node| self.taken[node.index()] < self.count)
    }

    /// The road of a copy on which one more engine carries most; one whose relays have engines left before any other.
    fn best(&self, copy: usize) -> Option<(bool, usize)> {
        let roads = self.roads[copy].iter().enumerate();
        let worth = roads.map(|(at, road)| (self.has_engines(&road.relays), self.worth(road), at));
        let best = worth
            .filter(|(_, worth, _)| *worth > 0.0)
            .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(b.2.cmp(&a.2)));
        best.map(|(has_engines, _, at)| (has_engines, at))
    }

    /// A copy has one more engine for a road.
    fn take(&mut self, copy: usize, road: usize) {
        self.got[copy] += self.worth(&self.roads[copy][road]);
        let road = &mut self.roads[copy][road];
        road.engines += 1;
        let relays = road.relays.iter();
        relays.for_each(|node| self.taken[node.index()] += 1);
    }

    /// Each copy has one part, for which its source's engine is set aside.
    fn one_each(&mut self) {
        for copy in 0..self.pairs.len() {
            match self.best(copy) {
                Some((_, road)) => self.take(copy, road),
                None => self.done[copy] = true,
            }
        }
    }

    /// The copy that has least, of those that may get more.
    fn least(&self) -> Option<usize> {
        let open = (0..self.pairs.len()).filter(|copy| !self.done[*copy]);
        open.min_by(|a, b| self.got[*a].total_cmp(&self.got[*b]))
    }

    /// The widest road for which there are engines.
    fn take_next(&mut self, copy: usize) {
        let source = self.pairs[copy].0;
        match self.best(copy) {
            Some((true, road)) if self.has_engines(&[source]) => {
                self.taken[source.index()] += 1;
                self.take(copy, road);
            }
            _ => self.done[copy] = true,
        }
    }

    /// The flow over what was chosen, each road in as many parts as it has engines.
    fn refilled(self, bound: f64) -> Shares {
        let mut market = Market::new(self.ground, self.pairs.len());
        let mut parts: Vec<Vec<u32>> = Vec::new();
        for (copy, roads) in self.roads.iter().enumerate() {
            let chosen = roads.iter().filter(|road| road.engines > 0);
            let source = self.pairs[copy].0;
            let mut engines = Vec::new();
            for road in chosen {
                let most = self.rate * f64::from(road.engines);
                market.know_within(copy, source, &road.path.directions, most);
                engines.push(road.engines);
            }
            parts.push(engines);
        }
        let each = market.fill_known();
        let mut shares = market.shares(each, bound);
        for (paths, engines) in shares.paths.iter_mut().zip(parts) {
            let whole = std::mem::take(paths).into_iter().zip(engines);
            let parts = whole.flat_map(|(path, engines)| {
                let rate = path.rate / f64::from(engines);
                std::iter::repeat_n(PathRate { rate, ..path }, engines as usize)
            });
            *paths = parts.collect();
        }
        shares
    }
}

impl Market<'_> {
    /// A copy knows a path that carries so much at most.
    fn know_within(&mut self, copy: usize, source: NodeId, directions: &[u32], most: f64) {
        let mut taken = self.with_engines(source, directions);
        let rates = taken.iter().map(|at| self.rates[*at as usize] as f64);
        if most < rates.fold(f64::MAX, f64::min)
            && let Ok(at) = u32::try_from(self.rates.len())
        {
            self.rates.push(crate::stripe::whole(most).get().max(1));
            self.prices.push(1.0 / most.max(1.0));
            self.used.push(0.0);
            taken.push(at);
        }
        self.know(copy, &taken);
    }

    /// Sends over the paths that copies know; says what each copy gets.
    fn fill_known(&mut self) -> f64 {
        if self.paths.iter().all(Vec::is_empty) {
            return 0.0;
        }
        self.round(1.0);
        let unit = 1.0 / self.crowding();
        let mut each = 0.0;
        for (step, rounds) in STEPS.into_iter().take(3) {
            self.forget();
            self.step = step;
            (0..rounds).for_each(|_| self.round(unit));
            each = f64::from(rounds) * unit / self.crowding();
        }
        each
    }
}
