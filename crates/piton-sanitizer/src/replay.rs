//! The program, looked at in an order that keeps every before-and-after of it.
//!
//! # The idea
//! Commands arrive as they are submitted. One that waits for a signal which nobody has submitted yet, or that
//! follows a host function which has not returned, comes after things that are not known yet: its lane is *held*
//! and what it has submitted meanwhile is put by. So whatever is looked at has only known things before it, and
//! comparing it with what was looked at earlier finds every pair without an order, and no other.
//!
//! # Invariants
//! - `held` names the lanes that are held, each by something that has not happened.
//! - A lane that is held by a function is held until the function has returned or was dropped.

mod memory;
mod settle;

use crate::{
    Author, Awaits, Effect, FunctionId, Report, SignalId, Space,
    clock::Clock,
    lane::{Act, Entry, Lane, Step, Until},
    shadow::Shadow,
    signal::{Signals, Word},
};
use piton_driver::{DevicePtr, Operation, Origin};
use piton_timeline::{LaneId, Timepoint};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A call of a host function that has not ended.
#[derive(Debug)]
struct Function {
    /// Where it stands.
    point: Timepoint,
    /// What it comes after, once its lane was looked at up to it.
    clock: Arc<Clock>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Those that somebody may still ask about. A lane that is not among them is gone, and everything to come is
    /// ordered after all of it.
    lanes: BTreeMap<LaneId, Lane>,
    held: BTreeSet<LaneId>,
    host: Arc<Clock>,
    functions: BTreeMap<FunctionId, Function>,
    signals: BTreeMap<SignalId, Signals>,
    words: BTreeMap<(Space, DevicePtr), Word>,
    pub(crate) shadow: Shadow,
    /// What was found and not fetched yet.
    pub(crate) met: Vec<Report>,
    /// Waits that ended although no signal is known that would have met them.
    pub(crate) unseen_signals: u64,
    /// Launch arguments of which nobody knows how far they reach.
    pub(crate) unknown_extents: u64,
    /// Commands since the books were last cleared.
    since: usize,
}

impl Replay {
    /// A lane begins behind `base`.
    pub(crate) fn open(&mut self, base: Timepoint, label: Option<Arc<str>>) {
        self.lanes.insert(base.lane, Lane::new(base.seq, label));
    }

    /// Nothing more will be submitted on the lane.
    pub(crate) fn retire(&mut self, lane: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.is_retired = true;
        }
    }

    pub(crate) fn add_signal(&mut self, id: SignalId, value: u64) {
        self.signals.insert(id, Signals::new(value));
    }

    pub(crate) fn drop_signal(&mut self, id: SignalId) {
        let waits = |lane: &Lane| matches!(lane.held, Some((Until::Signal(on, _), _)) if on == id);
        if !self.lanes.values().any(waits) {
            self.signals.remove(&id);
        }
    }

    /// A command was accepted at this place.
    pub(crate) fn submit(&mut self, by: Author, at: Timepoint, step: Step) {
        let author = self.author(by);
        if let Effect::Calls(id) = step.effect {
            let clock = Arc::default();
            self.functions.insert(id, Function { point: at, clock });
        }
        let base = at.seq.saturating_sub(1);
        let lane = self
            .lanes
            .entry(at.lane)
            .or_insert_with(|| Lane::new(base, None));
        let act = Act::Command(at.seq, step);
        lane.ahead.push_back(Entry { author, act });
        self.run(at.lane);
        self.since += 1;
    }

    /// A command was accepted at this place, and what it comes behind with it.
    pub(crate) fn submit_waits(
        &mut self,
        by: Author,
        at: Timepoint,
        awaits: Awaits<'_>,
        origin: Origin,
    ) {
        for point in awaits.left_out {
            self.leave_out_wait(by, at.lane, *point);
        }
        let first = at.seq.saturating_sub(awaits.submitted.len() as u64);
        for (seq, point) in (first..).zip(awaits.submitted) {
            let step = Step {
                effect: Effect::Waits(*point),
                operation: Operation::WaitQueue,
                origin,
            };
            self.submit(by, Timepoint { seq, ..at }, step);
        }
    }

    /// A lane was made to wait for a place and needed no command for it.
    pub(crate) fn leave_out_wait(&mut self, by: Author, lane: LaneId, point: Timepoint) {
        let author = self.author(by);
        if let Some(waiter) = self.lanes.get_mut(&lane) {
            let act = Act::WaitLeftOut(point);
            waiter.ahead.push_back(Entry { author, act });
            self.run(lane);
        }
    }

    /// The author learnt that everything up to the point has ended.
    pub(crate) fn saw(&mut self, by: Author, point: Timepoint) {
        self.force(point);
        if let Some(clock) = self.reached(point) {
            self.teach(by, &clock);
        }
    }

    /// The author raises a counter.
    pub(crate) fn signal(&mut self, by: Author, id: SignalId, value: u64) {
        let clock = self.author(by);
        self.give(id, value, clock);
        self.release();
    }

    /// The author read exactly `value` of a counter.
    pub(crate) fn read_signal(&mut self, by: Author, id: SignalId, value: u64) {
        if let Some(clock) = self
            .signals
            .get(&id)
            .and_then(|signals| signals.read(value))
        {
            self.teach(by, &clock);
        }
    }

    /// A host function starts.
    pub(crate) fn start(&mut self, id: FunctionId) {
        if let Some(function) = self.functions.get(&id) {
            let Timepoint { lane, seq } = function.point;
            let before = seq.saturating_sub(1);
            self.force(Timepoint { lane, seq: before });
        }
    }

    /// A host function has returned, or was dropped without being called.
    pub(crate) fn end(&mut self, id: FunctionId) {
        if let Some(Function { point, clock }) = self.functions.remove(&id)
            && let Some(lane) = self.lanes.get_mut(&point.lane)
            && lane.held == Some((Until::Returned(id), point.seq))
        {
            self.let_go(point.lane, &clock);
            self.run(point.lane);
        }
    }

    /// What an author comes after, now.
    pub(crate) fn author(&self, by: Author) -> Arc<Clock> {
        let function = match by {
            Author::Function(id) => self.functions.get(&id),
            Author::Host => None,
        };
        Arc::clone(function.map_or(&self.host, |function| &function.clock))
    }

    /// An author comes after `clock` from now on.
    pub(crate) fn teach(&mut self, by: Author, clock: &Clock) {
        let known = match by {
            Author::Function(id) => self.functions.get_mut(&id).map(|known| &mut known.clock),
            Author::Host => None,
        };
        let known = known.unwrap_or(&mut self.host);
        if !known.includes(clock) {
            Arc::make_mut(known).join(clock);
        }
    }

    /// Commands that are put by.
    pub(crate) fn ahead(&self) -> usize {
        self.lanes.values().map(|lane| lane.ahead.len()).sum()
    }

    /// Looks at as much of a lane as there is, and of the lanes that this lets go on.
    fn run(&mut self, lane: LaneId) {
        while self.advance(lane) {}
        self.release();
    }

    /// Lets lanes go on whose reason to be held is gone, until there is none.
    fn release(&mut self) {
        loop {
            let held: Vec<LaneId> = self.held.iter().copied().collect();
            let mut free = held
                .into_iter()
                .filter_map(|lane| Some((lane, self.met_by(lane)?)));
            let Some((lane, clock)) = free.next() else {
                return;
            };
            self.let_go(lane, &clock);
            while self.advance(lane) {}
        }
    }

    /// What a lane comes after that is no longer held, if what held it has happened.
    fn met_by(&self, lane: LaneId) -> Option<Clock> {
        let (until, _) = self.lanes.get(&lane)?.held?;
        self.what_came(until)
    }

    /// What somebody comes after who waited for this; `None` if it has not happened.
    fn what_came(&self, until: Until) -> Option<Clock> {
        match until {
            Until::Lane(point) => self.reached(point),
            Until::Signal(id, value) => self.signals.get(&id)?.wait(value),
            Until::Word(space, wait) => self.words.get(&(space, wait.at))?.wait(&wait),
            Until::Returned(_) => None,
        }
    }

    /// Ends a lane's being held; it comes after `clock` from there on.
    fn let_go(&mut self, lane: LaneId, clock: &Clock) {
        if let Some((_, seq)) = self.take_hold(lane) {
            self.pass(Timepoint { lane, seq }, clock);
        }
    }

    fn take_hold(&mut self, lane: LaneId) -> Option<(Until, u64)> {
        self.held.remove(&lane);
        self.lanes.get_mut(&lane)?.held.take()
    }

    /// A place of a lane was looked at, and the lane comes after `clock` from there on.
    fn pass(&mut self, at: Timepoint, clock: &Clock) {
        if let Some(lane) = self.lanes.get_mut(&at.lane) {
            lane.learn(at.seq, clock);
            lane.reached = at.seq;
        }
    }

    /// Looks at the next act of a lane; `false` if there is none or the lane is held.
    fn advance(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lanes.get_mut(&id).filter(|lane| lane.held.is_none()) else {
            return false;
        };
        let Some(Entry { author, act }) = lane.ahead.pop_front() else {
            return false;
        };
        match act {
            Act::Command(seq, step) => {
                lane.learn_author(seq, &author);
                self.step(Timepoint { lane: id, seq }, step);
            }
            Act::WaitLeftOut(point) => {
                let reached = lane.reached;
                lane.learn_author(reached, &author);
                self.order(
                    Timepoint {
                        lane: id,
                        seq: reached,
                    },
                    Until::Lane(point),
                );
            }
            Act::HandOut(tenancy) => self.begin_tenancy(tenancy),
            Act::TakeBack(ended) => self.take_back(author, ended),
        }
        true
    }

    /// Looks at a command.
    fn step(&mut self, at: Timepoint, step: Step) {
        match &step.effect {
            Effect::Nothing => {}
            Effect::Touches(_) | Effect::Runs(_) => self.touch(at, &step),
            Effect::Waits(point) => return self.order(at, Until::Lane(*point)),
            Effect::WaitsForSignal(id, value) => return self.order(at, Until::Signal(*id, *value)),
            Effect::Signals(id, value) => self.give(*id, *value, Arc::new(self.here(at))),
            Effect::WaitsForWord(space, wait) => {
                return self.order(at, Until::Word(*space, *wait));
            }
            Effect::WritesWord(space, word, value) => {
                let clock = Arc::new(self.here(at));
                let word = self.words.entry((*space, *word)).or_default();
                word.give(*value, clock);
            }
            Effect::Calls(id) => return self.call(at, *id),
        }
        if let Some(lane) = self.lanes.get_mut(&at.lane) {
            lane.reached = at.seq;
        }
    }

    fn give(&mut self, id: SignalId, value: u64, clock: Arc<Clock>) {
        if let Some(signals) = self.signals.get_mut(&id) {
            signals.give(value, clock);
        }
    }

    /// The lane comes, from a place of it on, after what `until` names: it is held until that has happened.
    fn order(&mut self, at: Timepoint, until: Until) {
        self.hold(at, until);
        if let Some(clock) = self.met_by(at.lane) {
            self.let_go(at.lane, &clock);
        }
    }

    fn hold(&mut self, at: Timepoint, until: Until) {
        if let Some(lane) = self.lanes.get_mut(&at.lane) {
            lane.held = Some((until, at.seq));
            self.held.insert(at.lane);
        }
    }

    /// A host function's turn has come, unless it was dropped before.
    fn call(&mut self, at: Timepoint, id: FunctionId) {
        let before = self.here(at);
        self.hold(at, Until::Returned(id));
        match self.functions.get_mut(&id) {
            Some(function) => function.clock = Arc::new(before),
            None => self.let_go(at.lane, &before),
        }
    }

    /// What somebody comes after who comes after the command at `at`, which is being looked at.
    fn here(&self, at: Timepoint) -> Clock {
        let lane = self.lanes.get(&at.lane);
        let mut clock = lane.map(|lane| (*lane.clock).clone()).unwrap_or_default();
        clock.raise(at);
        clock
    }

    /// What somebody who waits for the point comes after; `None` while it is not looked at. A lane long gone has
    /// nothing to add.
    fn reached(&self, point: Timepoint) -> Option<Clock> {
        let Some(lane) = self.lanes.get(&point.lane) else {
            return Some(Clock::default());
        };
        if lane.reached < point.seq {
            return None;
        }
        let mut clock = (*lane.clock_at(point.seq)).clone();
        clock.raise(point);
        Some(clock)
    }

    /// Everything up to the point has ended, so what holds its lane has happened, seen or not.
    fn force(&mut self, point: Timepoint) {
        let is_behind = |lane: &Lane| lane.reached < point.seq;
        while self.lanes.get(&point.lane).is_some_and(is_behind)
            // Taken before anything else is forced: lanes that hold each other would be forced for ever.
            && let Some((until, seq)) = self.take_hold(point.lane)
        {
            match until {
                Until::Lane(other) => self.force(other),
                Until::Signal(..) | Until::Word(..) => self.unseen_signals += 1,
                Until::Returned(_) => {}
            }
            let clock = self.what_came(until).unwrap_or_default();
            self.pass(Timepoint { seq, ..point }, &clock);
            self.run(point.lane);
        }
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        self.shadow.check();
        for (id, lane) in &self.lanes {
            lane.check();
            assert_eq!(lane.held.is_some(), self.held.contains(id), "held or not?");
            assert!(self.met_by(*id).is_none(), "held by what has happened");
        }
    }
}
