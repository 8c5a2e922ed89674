//! Flows that begin and end.
//!
//! What is left of a flow is kept in bytes times 10⁹, so that a rate in bytes a second takes whole units off
//! it each nanosecond: nothing is rounded. A flow ends at the first nanosecond by which nothing is left.
//!
//! Rates are worked out anew only for flows that share resources, directly or through others, with the one
//! that began, ended or changed.
//!
//! A flow that gets nothing because higher classes take all may [age](Fluid::with_ageing): each time it has waited that
//! long it moves up a class, and stays there.
//!
//! # Invariants
//! Flows under way have something left. `pending` are those whose delay is not over: they have rate zero. When
//! `stale` is empty, rates are max-min fair, and `waiting` are the flows under way that get nothing and can rise.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::FluidError;
use crate::fairness::{self, Demand};
use crate::flow::{Class, FlowId, FlowSpec, ResourceId, WHOLE};

const GIGA: u128 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Active {
    spec: FlowSpec,
    /// Bytes times 10⁹.
    left: u128,
    rate: u64,
    begins: u64,
    /// When it moves up a class, if it still gets nothing then.
    rises: Option<u64>,
}

/// What happens next; of two at one moment the first here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    End,
    Begin,
    Rise,
}

/// A flow that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub flow: FlowId,
    /// When, in nanoseconds of virtual time.
    pub at: u64,
}

/// Flows through resources, at one moment of virtual time.
///
/// ```
/// use piton_fluid::{FlowSpec, Fluid, ResourceId, Use};
///
/// let mut fluid = Fluid::new(vec![1_000_000_000]);
/// let through = [Use::whole(ResourceId(0))];
/// let short = fluid.start(FlowSpec::new(through, 1_000))?;
/// let long = fluid.start(FlowSpec::new(through, 3_000))?;
/// // Half of the link each, then all of it for the one that is left.
/// assert_eq!(fluid.next_ended()?.map(|ended| (ended.flow, ended.at)), Some((short, 2_000)));
/// assert_eq!(fluid.next_ended()?.map(|ended| (ended.flow, ended.at)), Some((long, 4_000)));
/// # Ok::<(), piton_fluid::FluidError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fluid {
    now: u64,
    capacities: Vec<u64>,
    flows: BTreeMap<FlowId, Active>,
    /// The flows that use a resource, those that are pending too.
    users: Vec<BTreeSet<FlowId>>,
    next: u64,
    /// Resources whose flows need new rates.
    stale: BTreeSet<ResourceId>,
    /// When the next pending flow begins, by flow.
    pending: BTreeSet<(u64, FlowId)>,
    /// After how many nanoseconds without a byte a flow moves up a class.
    ageing: Option<u64>,
    /// When flows that get nothing move up a class, by flow.
    waiting: BTreeSet<(u64, FlowId)>,
}

impl Fluid {
    /// Resources with these capacities, in bytes per second, without flows, at time zero.
    #[must_use]
    pub fn new(capacities: Vec<u64>) -> Self {
        Self {
            now: 0,
            users: vec![BTreeSet::new(); capacities.len()],
            capacities,
            flows: BTreeMap::new(),
            next: 0,
            stale: BTreeSet::new(),
            pending: BTreeSet::new(),
            ageing: None,
            waiting: BTreeSet::new(),
        }
    }

    /// Like [`new`](Self::new), but a flow that has got nothing for `nanos` nanoseconds (at least 1) moves up a
    /// class. So no flow waits forever for what higher classes use.
    #[must_use]
    pub fn with_ageing(capacities: Vec<u64>, nanos: u64) -> Self {
        Self {
            ageing: Some(nanos.max(1)),
            ..Self::new(capacities)
        }
    }

    /// The virtual time, in nanoseconds since the beginning.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The number of flows that are under way or about to begin.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Starts a flow. Its first byte flows after its delay.
    ///
    /// # Errors
    /// [`FluidError::NoBytes`], [`FluidError::NoWeight`], [`FluidError::NoResource`],
    /// [`FluidError::UnknownResource`].
    pub fn start(&mut self, spec: FlowSpec) -> Result<FlowId, FluidError> {
        self.check_spec(&spec)?;
        let id = FlowId(self.next);
        self.next += 1;
        let begins = self.now.saturating_add(spec.delay);
        for used in &spec.uses {
            self.users[used.resource.index()].insert(id);
        }
        if begins > self.now {
            self.pending.insert((begins, id));
        } else {
            self.stale
                .extend(spec.uses.iter().map(|used| used.resource));
        }
        let left = u128::from(spec.bytes) * GIGA;
        let active = Active {
            spec,
            left,
            rate: 0,
            begins,
            rises: None,
        };
        self.flows.insert(id, active);
        Ok(id)
    }

    /// Cancels a flow. Returns how many of its bytes had not passed, including a byte under way; 0 if it ends at this
    /// very moment.
    ///
    /// # Errors
    /// [`FluidError::UnknownFlow`].
    pub fn cancel(&mut self, flow: FlowId) -> Result<u64, FluidError> {
        let left = self.flow(flow)?.left;
        self.remove(flow);
        Ok(u64::try_from(left.div_ceil(GIGA)).unwrap_or(u64::MAX))
    }

    /// Sets the capacity of a resource from now on, in bytes per second. A link that died has zero.
    ///
    /// # Errors
    /// [`FluidError::UnknownResource`].
    pub fn set_capacity(&mut self, resource: ResourceId, capacity: u64) -> Result<(), FluidError> {
        self.check_resource(resource)?;
        self.capacities[resource.index()] = capacity;
        self.stale.insert(resource);
        Ok(())
    }

    /// Moves a flow to another class, from now on.
    ///
    /// # Errors
    /// [`FluidError::UnknownFlow`].
    pub fn set_class(&mut self, flow: FlowId, class: Class) -> Result<(), FluidError> {
        let unknown = FluidError::UnknownFlow { flow };
        let active = self.flows.get_mut(&flow).ok_or(unknown)?;
        active.spec.class = class;
        let uses = active.spec.uses.iter();
        self.stale.extend(uses.map(|used| used.resource));
        Ok(())
    }

    /// The class of a flow at this moment: the one it was given, or one that it has risen to.
    ///
    /// # Errors
    /// [`FluidError::UnknownFlow`].
    pub fn class(&self, flow: FlowId) -> Result<Class, FluidError> {
        Ok(self.flow(flow)?.spec.class)
    }

    /// The rate of a flow at this moment, in bytes per second. Zero before it begins.
    ///
    /// # Errors
    /// [`FluidError::UnknownFlow`].
    pub fn rate(&mut self, flow: FlowId) -> Result<u64, FluidError> {
        self.settle();
        Ok(self.flow(flow)?.rate)
    }

    /// The time, in nanoseconds, at which a flow ends, begins (if its delay is not over) or rises in class, if
    /// nothing happens to any other flow before. `None` if it has no rate and does not rise.
    ///
    /// # Errors
    /// [`FluidError::UnknownFlow`].
    pub fn next_change(&mut self, flow: FlowId) -> Result<Option<u64>, FluidError> {
        self.settle();
        let active = self.flow(flow)?;
        if self.pending.contains(&(active.begins, flow)) {
            return Ok(Some(active.begins));
        }
        Ok(self.end_of(active).or(active.rises))
    }

    /// What no flow takes of a resource at this moment, in bytes per second.
    ///
    /// # Errors
    /// [`FluidError::UnknownResource`].
    pub fn residual(&mut self, resource: ResourceId) -> Result<u64, FluidError> {
        self.check_resource(resource)?;
        self.settle();
        let taken = self.taken(resource).div_ceil(WHOLE.into());
        let taken = u64::try_from(taken).unwrap_or(u64::MAX);
        Ok(self.capacities[resource.index()].saturating_sub(taken))
    }

    /// Lets time pass until a flow ends, and returns it; of several that end together, the one with the lowest id.
    /// `None` if there are no flows.
    ///
    /// # Errors
    /// [`FluidError::Stalled`] if none will ever end as things are.
    pub fn next_ended(&mut self) -> Result<Option<Ended>, FluidError> {
        self.until(u64::MAX)
    }

    /// Like [`Fluid::next_ended`], but lets time pass only up to `time` (nanoseconds), where it returns `None`. A
    /// flow that ends exactly then has ended. Stalled flows stay, because they may go on later.
    pub fn ended_until(&mut self, time: u64) -> Option<Ended> {
        self.until(time).ok().flatten()
    }

    fn until(&mut self, time: u64) -> Result<Option<Ended>, FluidError> {
        loop {
            self.settle();
            let first = |what, when: Option<(u64, FlowId)>| when.map(|(at, flow)| (at, what, flow));
            let next = [
                first(Happens::End, self.first_end()),
                first(Happens::Begin, self.pending.first().copied()),
                first(Happens::Rise, self.waiting.first().copied()),
            ];
            let next = next.into_iter().flatten().min();
            let Some((at, what, flow)) = next.filter(|(at, ..)| *at <= time) else {
                if time == u64::MAX {
                    return self.stalled();
                }
                self.pass(time);
                return Ok(None);
            };
            self.pass(at);
            match what {
                Happens::End => {
                    self.remove(flow);
                    return Ok(Some(Ended { flow, at }));
                }
                Happens::Begin => self.begin(at, flow),
                Happens::Rise => self.rise(at, flow),
            }
        }
    }

    fn stalled(&self) -> Result<Option<Ended>, FluidError> {
        let flows = self.flows.len();
        match self.flows.first_key_value() {
            Some((&flow, _)) => Err(FluidError::Stalled { flows, flow }),
            None => Ok(None),
        }
    }

    /// When the first of the flows under way ends.
    fn first_end(&self) -> Option<(u64, FlowId)> {
        let end = |(id, active): (&FlowId, &Active)| Some((self.end_of(active)?, *id));
        self.flows.iter().filter_map(end).min()
    }

    /// When a flow ends at its present rate.
    fn end_of(&self, active: &Active) -> Option<u64> {
        let nanos = active.left.checked_div(active.rate.into())?;
        let whole = nanos * u128::from(active.rate) == active.left;
        let nanos = if whole { nanos } else { nanos + 1 };
        let at = u128::from(self.now) + nanos;
        u64::try_from(at).ok().filter(|at| *at < u64::MAX)
    }

    /// Lets time pass during which no rate changes.
    fn pass(&mut self, to: u64) {
        let nanos = to.saturating_sub(self.now);
        self.now = to;
        for active in self.flows.values_mut() {
            let passed = u128::from(active.rate) * u128::from(nanos);
            active.left = active.left.saturating_sub(passed);
        }
    }

    fn begin(&mut self, at: u64, flow: FlowId) {
        self.pending.remove(&(at, flow));
        if let Some(active) = self.flows.get(&flow) {
            let uses = active.spec.uses.iter();
            self.stale.extend(uses.map(|used| used.resource));
        }
    }

    fn rise(&mut self, at: u64, flow: FlowId) {
        self.waiting.remove(&(at, flow));
        if let Some(active) = self.flows.get_mut(&flow) {
            active.rises = None;
            active.spec.class = active.spec.class.raised();
            let uses = active.spec.uses.iter();
            self.stale.extend(uses.map(|used| used.resource));
        }
    }

    /// Notes whether a flow waits to rise. Its rate has just been worked out.
    fn note_waiting(&mut self, flow: FlowId) {
        let (Some(ageing), Some(active)) = (self.ageing, self.flows.get_mut(&flow)) else {
            return;
        };
        let waits = active.rate == 0 && active.spec.class != Class::High;
        match (waits, active.rises) {
            (true, None) => {
                let rises = self.now.saturating_add(ageing);
                active.rises = Some(rises);
                self.waiting.insert((rises, flow));
            }
            (false, Some(rises)) => {
                active.rises = None;
                self.waiting.remove(&(rises, flow));
            }
            _ => {}
        }
    }

    fn remove(&mut self, flow: FlowId) {
        let Some(active) = self.flows.remove(&flow) else {
            return;
        };
        self.pending.remove(&(active.begins, flow));
        if let Some(rises) = active.rises {
            self.waiting.remove(&(rises, flow));
        }
        for used in &active.spec.uses {
            self.users[used.resource.index()].remove(&flow);
            self.stale.insert(used.resource);
        }
    }

    /// Works rates out anew where they are stale.
    fn settle(&mut self) {
        if self.stale.is_empty() {
            return;
        }
        let flows = self.connected();
        self.stale.clear();
        let demands: Vec<Demand<'_>> = flows
            .iter()
            .filter_map(|flow| self.flows.get(flow))
            .map(|active| Demand::from(&active.spec))
            .collect();
        let rates = fairness::rates(&self.capacities, &demands);
        for (flow, rate) in flows.iter().zip(rates) {
            if let Some(active) = self.flows.get_mut(flow) {
                active.rate = rate;
            }
        }
        flows.into_iter().for_each(|flow| self.note_waiting(flow));
    }

    /// The flows under way that share resources, directly or through others, with a stale one.
    fn connected(&self) -> BTreeSet<FlowId> {
        let mut seen: BTreeSet<ResourceId> = self.stale.clone();
        let mut open: Vec<ResourceId> = seen.iter().copied().collect();
        let mut flows = BTreeSet::new();
        while let Some(resource) = open.pop() {
            for flow in &self.users[resource.index()] {
                let Some(active) = self.flows.get(flow) else {
                    continue;
                };
                if self.pending.contains(&(active.begins, *flow)) || !flows.insert(*flow) {
                    continue;
                }
                let uses = active.spec.uses.iter().map(|used| used.resource);
                open.extend(uses.filter(|resource| seen.insert(*resource)));
            }
        }
        flows
    }

    fn flow(&self, flow: FlowId) -> Result<&Active, FluidError> {
        self.flows
            .get(&flow)
            .ok_or(FluidError::UnknownFlow { flow })
    }

    /// Thousandths of bytes a second.
    fn taken(&self, resource: ResourceId) -> u128 {
        let users = self.users[resource.index()].iter();
        users
            .filter_map(|flow| self.flows.get(flow))
            .map(|active| {
                let uses = active.spec.uses.iter();
                let here = uses.filter(|used| used.resource == resource);
                let share: u128 = here.map(|used| u128::from(used.thousandths)).sum();
                u128::from(active.rate) * share
            })
            .sum()
    }

    fn check_resource(&self, resource: ResourceId) -> Result<(), FluidError> {
        if resource.index() < self.capacities.len() {
            return Ok(());
        }
        let resources = u32::try_from(self.capacities.len()).unwrap_or(u32::MAX);
        Err(FluidError::UnknownResource {
            resource,
            resources,
        })
    }

    fn check_spec(&self, spec: &FlowSpec) -> Result<(), FluidError> {
        if spec.bytes == 0 {
            return Err(FluidError::NoBytes);
        }
        if spec.weight == 0 || spec.uses.iter().any(|used| used.thousandths == 0) {
            return Err(FluidError::NoWeight);
        }
        if spec.uses.is_empty() {
            return Err(FluidError::NoResource);
        }
        spec.uses
            .iter()
            .try_for_each(|used| self.check_resource(used.resource))
    }

    /// Walks everything and asserts that no resource carries more than its capacity, and that no flow could have
    /// more: each uses a resource that is full except for what rounding left.
    ///
    /// # Panics
    /// If one of the two does not hold.
    pub fn check(&mut self) {
        self.settle();
        let resources = u32::try_from(self.capacities.len()).unwrap_or(u32::MAX);
        let free: Vec<u128> = (0..resources)
            .map(ResourceId)
            .map(|resource| {
                let capacity = u128::from(self.capacities[resource.index()]) * u128::from(WHOLE);
                let taken = self.taken(resource);
                assert!(
                    taken <= capacity,
                    "{resource} carries {taken} of {capacity}"
                );
                capacity - taken
            })
            .collect();
        for (id, active) in &self.flows {
            let is_pending = self.pending.contains(&(active.begins, *id));
            let is_full = |used: &crate::flow::Use| {
                let users = self.users[used.resource.index()].iter();
                let users = users.filter_map(|flow| self.flows.get(flow));
                let rounding: u128 = users
                    .flat_map(|user| user.spec.uses.iter())
                    .filter(|other| other.resource == used.resource)
                    .map(|other| u128::from(other.thousandths))
                    .sum();
                free[used.resource.index()] <= rounding
            };
            let full = active.spec.uses.iter().any(is_full);
            assert!(
                full || is_pending,
                "{id} could have more than {}",
                active.rate
            );
        }
    }
}
