//! Random programs over lanes, and beside the timeline the plain model that says what it should answer.
//!
//! The model numbers lanes by *tenant*: the n-th lane ever registered is tenant n, whatever slot it got. Each
//! submission of a tenant has a full vector clock, closed transitively, that is never forgotten.

#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::{Lane, LaneId, Progress, Timeline, Timepoint, WaitNeed};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

/// Tenant to how many of its submissions.
pub(crate) type Vector = BTreeMap<usize, u64>;

/// A place in the order of work, in the model's words: after the n-th submission of a tenant.
pub(crate) type Place = (usize, u64);

/// Who counts a lane's submissions and completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its owner, both.
    Bare,
    /// A source the completions.
    Completions,
    /// A source both; the owner announces its submissions when it drops the lane.
    Both,
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Bare), Just(Kind::Completions), Just(Kind::Both)]
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Register(Kind),
    Drop(usize),
    Submit(usize, u64),
    Complete(usize, u64),
    Fail(usize, u64),
    /// The device finished work that the lane's owner has not yet announced.
    RunAhead(usize, u64),
    Wait {
        waiter: usize,
        place: Place,
    },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let place = || (any::<prop::sample::Index>(), 0..8u64).prop_map(|(t, n)| (t.index(64), n));
    let tenant = || any::<prop::sample::Index>().prop_map(|t| t.index(64));
    prop_oneof![
        2 => kind().prop_map(Step::Register),
        1 => tenant().prop_map(Step::Drop),
        6 => (tenant(), 1..3u64).prop_map(|(t, n)| Step::Submit(t, n)),
        3 => (tenant(), 1..4u64).prop_map(|(t, n)| Step::Complete(t, n)),
        1 => (tenant(), 1..4u64).prop_map(|(t, n)| Step::Fail(t, n)),
        1 => (tenant(), 1..3u64).prop_map(|(t, n)| Step::RunAhead(t, n)),
        6 => (tenant(), place()).prop_map(|(waiter, place)| Step::Wait { waiter, place }),
    ]
}

const NEVER: u64 = u64::MAX;

/// A device's counter.
pub(crate) struct Source {
    counts_submissions: bool,
    submitted: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Progress for Source {
    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    fn failed(&self) -> Option<u64> {
        let failed = self.failed.load(Ordering::Acquire);
        (failed != NEVER).then_some(failed)
    }

    fn submitted(&self) -> Option<u64> {
        let submitted = self.submitted.load(Ordering::Acquire);
        self.counts_submissions.then_some(submitted)
    }
}

pub(crate) struct Tenant {
    /// Absent once dropped.
    pub(crate) lane: Option<Lane>,
    pub(crate) id: LaneId,
    pub(crate) base: u64,
    pub(crate) submitted: u64,
    pub(crate) done: u64,
    pub(crate) failed: Option<u64>,
    source: Option<Arc<Source>>,
    /// What each submission is ordered after, itself included.
    clocks: Vec<Vector>,
    /// What the next submission will be ordered after.
    pub(crate) next: Vector,
    /// Places waited for by this lane itself.
    pub(crate) direct: Vec<Place>,
    /// How often something known of another tenant was replaced by something newer.
    pub(crate) replaced: usize,
}

impl Tenant {
    fn new(lane: Lane, source: Option<Arc<Source>>) -> Self {
        Self {
            id: lane.id(),
            base: lane.base(),
            lane: Some(lane),
            submitted: 0,
            done: 0,
            failed: None,
            source,
            clocks: vec![Vector::new()],
            next: Vector::new(),
            direct: Vec::new(),
            replaced: 0,
        }
    }

    pub(crate) fn timepoint(&self, n: u64) -> Timepoint {
        Timepoint {
            lane: self.id,
            seq: self.base + n,
        }
    }
}

pub(crate) struct Program {
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) tenants: Vec<Tenant>,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self::with_lanes(2)
    }

    /// Every second lane has a source.
    pub(crate) fn with_lanes(lanes: usize) -> Self {
        let mut program = Self {
            timeline: Timeline::new(),
            tenants: Vec::new(),
        };
        for lane in 0..lanes {
            let kinds = [Kind::Bare, Kind::Both, Kind::Completions];
            program.apply(&Step::Register(kinds[lane % 3]));
        }
        program
    }

    /// Runs one step; numbers in it are taken modulo what there is.
    pub(crate) fn apply(&mut self, step: &Step) {
        match *step {
            Step::Register(kind) => self.register(kind),
            Step::Drop(tenant) => self.drop(tenant),
            Step::Submit(tenant, more) => self.submit(tenant, more),
            Step::Complete(tenant, more) => self.complete(tenant, more),
            Step::Fail(tenant, more) => self.fail(tenant, more),
            Step::RunAhead(tenant, more) => self.run_ahead(tenant, more),
            Step::Wait { waiter, place } => self.wait(waiter, place),
        }
    }

    /// Whether the model says that everything up to the place is done.
    pub(crate) fn is_done(&self, (tenant, n): Place) -> bool {
        n <= self.tenants[tenant].done
    }

    pub(crate) fn timepoint(&self, (tenant, n): Place) -> Timepoint {
        self.tenants[tenant].timepoint(n)
    }

    /// Every place there is.
    pub(crate) fn places(&self) -> Vec<Place> {
        let all = self.tenants.iter().enumerate();
        all.flat_map(|(tenant, t)| (0..=t.submitted).map(move |n| (tenant, n)))
            .collect()
    }

    pub(crate) fn live(&self) -> Vec<usize> {
        let all = 0..self.tenants.len();
        all.filter(|tenant| self.tenants[*tenant].lane.is_some())
            .collect()
    }

    pub(crate) fn pick(&self, tenant: usize) -> usize {
        tenant % self.tenants.len()
    }

    pub(crate) fn pick_place(&self, (tenant, n): Place) -> Place {
        let tenant = self.pick(tenant);
        (tenant, n % (self.tenants[tenant].submitted + 1))
    }

    fn register(&mut self, kind: Kind) {
        let source = (kind != Kind::Bare).then(|| {
            Arc::new(Source {
                counts_submissions: kind == Kind::Both,
                submitted: AtomicU64::new(0),
                completed: AtomicU64::new(0),
                failed: AtomicU64::new(NEVER),
            })
        });
        let progress = source.clone().map(|source| -> Arc<dyn Progress> { source });
        let lane = self.timeline.register(progress).unwrap();
        self.tenants.push(Tenant::new(lane, source));
    }

    fn drop(&mut self, tenant: usize) {
        let tenant = self.pick(tenant);
        let t = &mut self.tenants[tenant];
        if let Some(lane) = t.lane.take() {
            lane.submit(t.submitted);
        }
    }

    fn submit(&mut self, tenant: usize, more: u64) {
        let tenant = self.pick(tenant);
        let t = &mut self.tenants[tenant];
        let Some(lane) = &t.lane else { return };
        for _ in 0..more {
            t.submitted += 1;
            t.next.insert(tenant, t.submitted);
            t.clocks.push(t.next.clone());
        }
        match &t.source {
            Some(source) if source.counts_submissions => {
                source.submitted.store(t.submitted, Ordering::Release);
            }
            _ => {
                assert_eq!(lane.submit(t.submitted), t.timepoint(t.submitted));
                assert_eq!(lane.now(), t.timepoint(t.submitted));
            }
        }
        let ahead = t.source.as_ref().map_or(0, |source| source.completed());
        t.done = t.done.max(ahead.min(t.submitted));
    }

    fn complete(&mut self, tenant: usize, more: u64) {
        let tenant = self.pick(tenant);
        let t = &mut self.tenants[tenant];
        let to = (t.done + more).min(t.submitted);
        match (&t.source, &t.lane) {
            (Some(source), _) => {
                source.completed.fetch_max(to, Ordering::Release);
            }
            (None, Some(lane)) => lane.complete(to),
            (None, None) => return,
        }
        t.done = t.done.max(to);
    }

    /// The next submission, or one soon after it, fails and ends.
    fn fail(&mut self, tenant: usize, more: u64) {
        let tenant = self.pick(tenant);
        let t = &mut self.tenants[tenant];
        let at = t.done + more;
        if at > t.submitted || t.failed.is_some() {
            return;
        }
        match (&t.source, &t.lane) {
            (Some(source), _) => source.failed.store(at, Ordering::Release),
            (None, Some(lane)) => lane.fail(at),
            (None, None) => return,
        }
        t.failed = Some(at);
        self.complete(tenant, more);
    }

    fn run_ahead(&mut self, tenant: usize, more: u64) {
        let tenant = self.pick(tenant);
        let t = &mut self.tenants[tenant];
        if let Some(source) = &t.source
            && !source.counts_submissions
        {
            source
                .completed
                .fetch_max(t.submitted + more, Ordering::Release);
            t.done = t.submitted;
        }
    }

    fn wait(&mut self, waiter: usize, place: Place) {
        let (waiter, place) = (self.pick(waiter), self.pick_place(place));
        let Some(lane) = &self.tenants[waiter].lane else {
            return;
        };
        let point = self.timepoint(place);
        if let WaitNeed::Wait(point) = self.timeline.wait_need(lane.id(), point) {
            let t = &self.tenants[waiter];
            lane.note_wait(point, t.timepoint(t.submitted));
            let at = usize::try_from(place.1).unwrap();
            let learnt = self.tenants[place.0].clocks[at].clone();
            let Tenant { next, replaced, .. } = &mut self.tenants[waiter];
            for (tenant, n) in learnt {
                let seen = next.entry(tenant).or_insert(n);
                *replaced += usize::from(tenant != waiter && n > *seen);
                *seen = n.max(*seen);
            }
        }
        self.tenants[waiter].direct.push(place);
    }
}
