//! Commands and owners of memory, as they are looked at.

use super::Replay;
use crate::{
    Author, Awaits, GraphFootprint, Report, Space,
    clock::Clock,
    lane::{Act, Entry, Step},
    shadow::{Ended, Past, Tenancy},
};
use piton_driver::DeviceRange;
use piton_timeline::{LaneId, Timepoint};
use std::sync::Arc;

impl Replay {
    /// What a command would be reported for, were it submitted now; nothing while its lane is held, or would be by what
    /// it comes behind.
    pub(crate) fn probe(
        &self,
        by: Author,
        at: Timepoint,
        awaits: Awaits<'_>,
        step: &Step,
    ) -> Vec<Report> {
        let mut met = Vec::new();
        let Some(lane) = self.lanes.get(&at.lane) else {
            return met;
        };
        if lane.held.is_some() {
            return met;
        }
        let mut clock = (*lane.clock).clone();
        clock.join(&self.author(by));
        for point in awaits.points() {
            match self.reached(point) {
                Some(awaited) => clock.join(&awaited),
                None => return met,
            }
        }
        let past = self.past(at.lane, &clock);
        let reach = |space, start| self.shadow.reach(space, start);
        let uses = step.uses(at, lane.label.as_ref(), &reach);
        for used in uses.into_iter().flatten() {
            self.shadow.probe(&used, past, &mut met);
        }
        met
    }

    /// Memory is handed out, to a lane behind the place it names.
    pub(crate) fn hand_out(&mut self, by: Author, mut tenancy: Tenancy) {
        let is_held = |point: Timepoint| {
            self.lanes
                .get(&point.lane)
                .is_some_and(|lane| lane.held.is_some())
        };
        if !tenancy.point.is_some_and(is_held) {
            self.give_back_first(tenancy.space, tenancy.range);
        }
        let Some(point) = tenancy.point else {
            self.begin_tenancy(tenancy);
            return;
        };
        let author = self.author(by);
        if let Some(lane) = self.lanes.get_mut(&point.lane) {
            tenancy.label.clone_from(&lane.label);
            let act = Act::HandOut(tenancy);
            lane.put_behind(point.seq, Entry { author, act });
            self.run(point.lane);
        }
    }

    /// Looks at lanes up to where memory was given back that is handed out now, to a lane that is held by nothing: whoever owns the
    /// memory knows that its last uses have ended, as those of a lane that was aborted in a wait, though nobody said so here.
    fn give_back_first(&mut self, space: Space, range: DeviceRange) {
        let mut last = None;
        while let Some(point) = self.put_by_return(space, range)
            && last.replace(point) != Some(point)
        {
            self.force(point);
        }
    }

    /// A place behind which some of this memory is given back that was not looked at, on a lane that is held.
    fn put_by_return(&self, space: Space, range: DeviceRange) -> Option<Timepoint> {
        let lanes = self
            .held
            .iter()
            .filter_map(|id| Some((id, self.lanes.get(id)?)));
        let mut acts =
            lanes.flat_map(|(id, lane)| lane.ahead.iter().map(move |entry| (id, &entry.act)));
        acts.find_map(|(id, act)| match act {
            Act::TakeBack(ended) if ended.space == space && ended.range.overlaps(range) => {
                let mut uses = ended.last_uses.iter().flatten().copied();
                uses.find(|point| point.lane == *id)
            }
            _ => None,
        })
    }

    pub(super) fn begin_tenancy(&mut self, tenancy: Tenancy) {
        self.forget_words(tenancy.space, tenancy.range);
        self.shadow.hand_out(tenancy);
    }

    /// What lies at these addresses is unknown.
    pub(crate) fn forget(&mut self, space: Space, range: DeviceRange) {
        self.forget_words(space, range);
        self.shadow.forget(space, range);
    }

    /// Memory is given back by an author who comes after `author`.
    pub(crate) fn take_back(&mut self, author: Arc<Clock>, ended: Ended) {
        let points = ended.last_uses.clone().unwrap_or_default();
        let is_ahead = |point: &&Timepoint| {
            let lane = self.lanes.get(&point.lane);
            lane.is_some_and(|lane| lane.reached < point.seq)
        };
        if let Some(Timepoint { lane, seq }) = points.iter().find(is_ahead).copied() {
            if let Some(lane) = self.lanes.get_mut(&lane) {
                let act = Act::TakeBack(ended);
                lane.put_behind(seq, Entry { author, act });
            }
            return;
        }
        let mut after = (*author).clone();
        for clock in points.into_iter().filter_map(|point| self.reached(point)) {
            after.join(&clock);
        }
        self.shadow.take_back(ended, &after, &mut self.met);
    }

    /// A command that touches memory is looked at.
    pub(super) fn touch(&mut self, at: Timepoint, step: &Step) {
        let Some(lane) = self.lanes.get(&at.lane) else {
            return;
        };
        let clock = Arc::clone(&lane.clock);
        let reach = |space, start| self.shadow.reach(space, start);
        for used in step.uses(at, lane.label.as_ref(), &reach) {
            let Some(used) = used else {
                self.unknown_extents += 1;
                continue;
            };
            let past = Past::Program {
                lane: at.lane,
                clock: &clock,
                lanes: &self.lanes,
            };
            self.shadow.note(used, past, &mut self.met);
        }
    }

    /// A graph is looked at by itself: for nodes that no edge orders.
    pub(crate) fn compare_nodes(&mut self, graph: &GraphFootprint) {
        let races = graph.races(&|space, start| self.shadow.reach(space, start));
        self.met.extend(races);
    }

    fn past<'a>(&'a self, lane: LaneId, clock: &'a Clock) -> Past<'a> {
        Past::Program {
            lane,
            clock,
            lanes: &self.lanes,
        }
    }
}
