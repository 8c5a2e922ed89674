//! Max-min fair rates, by progressive filling.
//!
//! All flows grow together, each in step with its weight, until a resource is full; the flows through it stop
//! there and the others go on. It ends when each flow has a full resource to blame. Classes do this one after
//! the other on what is left.

use crate::flow::{Class, FlowSpec, Use, WHOLE};

/// What filling needs to know of a flow.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) uses: &'a [Use],
    pub(crate) class: Class,
    pub(crate) weight: u32,
}

impl<'a> From<&'a FlowSpec> for Demand<'a> {
    fn from(spec: &'a FlowSpec) -> Self {
        Self {
            uses: &spec.uses,
            class: spec.class,
            weight: spec.weight,
        }
    }
}

/// The rate of each of `flows`, in bytes per second, if all run at once and forever. `capacities` are in bytes per
/// second, by resource. Rates are rounded down by less than one byte per second for each unit of weight. Resources
/// that do not exist carry nothing.
#[must_use]
pub fn fair_rates(capacities: &[u64], flows: &[FlowSpec]) -> Vec<u64> {
    let demands: Vec<Demand<'_>> = flows.iter().map(Demand::from).collect();
    rates(capacities, &demands)
}

pub(crate) fn rates(capacities: &[u64], flows: &[Demand<'_>]) -> Vec<u64> {
    let mut filling = Filling {
        flows,
        rates: vec![0; flows.len()],
        // A thousandth of a byte a second is the unit: uses are counted in thousandths.
        left: capacities
            .iter()
            .map(|capacity| u128::from(*capacity) * u128::from(WHOLE))
            .collect(),
        load: vec![0; capacities.len()],
        users: vec![Vec::new(); capacities.len()],
        settled: vec![false; flows.len()],
    };
    for class in Class::ALL {
        filling.fill(class);
    }
    filling.rates
}

struct Filling<'a> {
    flows: &'a [Demand<'a>],
    rates: Vec<u64>,
    /// What is left of each resource.
    left: Vec<u128>,
    /// Sum of weight times use of the flows that still grow, by resource.
    load: Vec<u128>,
    /// The flows of this class through each resource.
    users: Vec<Vec<usize>>,
    settled: Vec<bool>,
}

impl Filling<'_> {
    fn fill(&mut self, class: Class) {
        self.users.iter_mut().for_each(Vec::clear);
        self.load.fill(0);
        let mut growing = 0_usize;
        for (number, flow) in self.flows.iter().enumerate() {
            if flow.class != class {
                continue;
            }
            if flow
                .uses
                .iter()
                .any(|used| used.resource.index() >= self.left.len())
            {
                self.settled[number] = true;
                continue;
            }
            growing += 1;
            for used in flow.uses {
                self.load[used.resource.index()] += weight_of(flow, used);
                self.users[used.resource.index()].push(number);
            }
        }
        while growing > 0 {
            let Some(full) = self.first_full() else {
                return;
            };
            let (left, load) = (self.left[full], self.load[full]);
            for number in std::mem::take(&mut self.users[full]) {
                if !self.settled[number] {
                    self.settle(number, left, load);
                    growing -= 1;
                }
            }
        }
    }

    /// The resource that is full first; the lower id of several.
    fn first_full(&self) -> Option<usize> {
        let growing = (0..self.left.len()).filter(|resource| self.load[*resource] > 0);
        growing.min_by(|a, b| {
            // left/load compared without dividing.
            let (a, b) = (*a, *b);
            fraction_order(self.left[a], self.load[a], self.left[b], self.load[b])
        })
    }

    fn settle(&mut self, number: usize, left: u128, load: u128) {
        let flow = self.flows[number];
        let rate = left.saturating_mul(flow.weight.into()) / load.max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.rates[number] = rate;
        self.settled[number] = true;
        for used in flow.uses {
            let resource = used.resource.index();
            let taken = u128::from(rate) * u128::from(used.thousandths);
            self.left[resource] = self.left[resource].saturating_sub(taken);
            self.load[resource] = self.load[resource].saturating_sub(weight_of(&flow, used));
        }
    }
}

fn weight_of(flow: &Demand<'_>, used: &Use) -> u128 {
    u128::from(flow.weight) * u128::from(used.thousandths)
}

/// How `a / b` compares to `c / d`. Capacities are at most 2^64 thousand, so their whole parts are compared
/// first and the rests are small.
fn fraction_order(a: u128, b: u128, c: u128, d: u128) -> core::cmp::Ordering {
    let whole = (a / b).cmp(&(c / d));
    whole.then_with(|| {
        let (left, right) = ((a % b).checked_mul(d), (c % d).checked_mul(b));
        left.zip(right)
            .map_or(core::cmp::Ordering::Equal, |(left, right)| left.cmp(&right))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::ResourceId;

    fn flow(resources: &[u32]) -> FlowSpec {
        let uses: Vec<Use> = resources
            .iter()
            .map(|id| Use::whole(ResourceId(*id)))
            .collect();
        FlowSpec::new(uses, 1)
    }

    #[test]
    fn flows_share_what_is_narrow_and_take_the_rest_elsewhere() {
        let flows = [flow(&[0, 1]), flow(&[0]), flow(&[1])];
        assert_eq!(fair_rates(&[10, 100], &flows), [5, 5, 95]);
    }

    #[test]
    fn a_weight_is_a_share_and_a_class_comes_first() {
        let mut flows = [flow(&[0]), flow(&[0]), flow(&[0])];
        flows[1].weight = 3;
        assert_eq!(fair_rates(&[100], &flows), [20, 60, 20]);
        flows[0].class = Class::High;
        assert_eq!(fair_rates(&[100], &flows), [100, 0, 0]);
    }

    #[test]
    fn a_use_that_costs_more_leaves_less() {
        let mut flows = [flow(&[0]), flow(&[0])];
        let mut dear = flows[1].uses.clone();
        dear[0].thousandths = 3 * WHOLE;
        flows[1].uses = dear;
        assert_eq!(fair_rates(&[100], &flows), [25, 25]);
    }

    #[test]
    fn a_resource_that_does_not_exist_carries_nothing() {
        assert_eq!(fair_rates(&[100], &[flow(&[7]), flow(&[0])]), [0, 100]);
    }
}
