//! Commands and owners of memory, as they are looked at.

use super::Replay;
use crate::{
    Author, Effect, Footprint, Report,
    clock::Clock,
    lane::{Act, Entry, Lane, Step},
    shadow::{Ended, Past, Tenancy, Use},
};
use piton_driver::DeviceRange;
use piton_timeline::{LaneId, Timepoint};
use std::sync::Arc;

impl Replay {
    /// What a command would be reported for, were it submitted now; nothing while its lane is held.
    pub(crate) fn probe(&self, by: Author, at: Timepoint, step: &Step) -> Vec<Report> {
        let mut met = Vec::new();
        let (Some(lane), Effect::Touches(footprint)) = (self.lanes.get(&at.lane), &step.effect)
        else {
            return met;
        };
        if lane.held.is_some() {
            return met;
        }
        let mut clock = (*lane.clock).clone();
        clock.join(&self.author(by));
        let past = self.past(at.lane, &clock);
        for used in self.uses(lane, at, step, footprint).flatten() {
            self.shadow.probe(&used, past, &mut met);
        }
        met
    }

    /// Memory is handed out, to a lane behind the place it names.
    pub(crate) fn hand_out(&mut self, by: Author, mut tenancy: Tenancy) {
        let Some(point) = tenancy.point else {
            self.shadow.hand_out(tenancy);
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
    pub(super) fn touch(&mut self, at: Timepoint, step: &Step, footprint: &Footprint) {
        let Some(lane) = self.lanes.get(&at.lane) else {
            return;
        };
        let clock = Arc::clone(&lane.clock);
        let uses: Vec<_> = self.uses(lane, at, step, footprint).collect();
        for used in uses {
            let Some(used) = used else {
                self.unknown_extents += 1;
                continue;
            };
            let past = Past {
                lane: at.lane,
                clock: &clock,
                settled: &self.settled,
            };
            self.shadow.note(used, past, &mut self.met);
        }
    }

    /// The uses that a command's footprint is; `None` for one of which nobody knows how far it reaches.
    fn uses<'a>(
        &'a self,
        lane: &'a Lane,
        at: Timepoint,
        step: &'a Step,
        footprint: &'a Footprint,
    ) -> impl Iterator<Item = Option<Use>> + 'a {
        footprint.touched().iter().map(move |touched| {
            let reach = || self.shadow.reach(touched.space, touched.start);
            Some(Use {
                point: at,
                label: lane.label.clone(),
                operation: step.operation,
                origin: step.origin,
                access: touched.access,
                space: touched.space,
                range: DeviceRange {
                    start: touched.start,
                    bytes: touched.bytes.or_else(reach)?,
                },
            })
        })
    }

    fn past<'a>(&'a self, lane: LaneId, clock: &'a Clock) -> Past<'a> {
        Past {
            lane,
            clock,
            settled: &self.settled,
        }
    }
}
