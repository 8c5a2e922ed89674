//! What is let go of, so that the books of a program that synchronises now and then stay small.

use super::Replay;
use crate::{
    Space,
    lane::Lane,
    signal::{Signals, Word},
};
use piton_driver::{DevicePtr, DeviceRange};
use piton_timeline::{LaneId, Timepoint};
use std::{collections::BTreeSet, sync::Arc};

impl Replay {
    /// Commands between two looks at what may go; more where the books are large, so that a look costs little.
    const PATIENCE: usize = 1024;

    /// Forgets what everything to come is ordered after anyway, if it is time to.
    pub(crate) fn tidy(&mut self) {
        if self.since >= Self::PATIENCE.max(self.size()) {
            self.since = 0;
            self.settle();
        }
    }

    /// How much is kept: runs of bytes, clocks, signals and writes of words.
    pub(crate) fn size(&self) -> usize {
        let clocks: usize = self.lanes.values().map(Lane::clocks).sum();
        let signals: usize = self.signals.values().map(Signals::len).sum();
        let words: usize = self.words.values().map(Word::len).sum();
        self.shadow.runs() + clocks + signals + words
    }

    /// What was written into words of memory that has a new owner, or none, is nobody's concern.
    pub(crate) fn forget_words(&mut self, space: Space, range: DeviceRange) {
        let end = range.start.address().saturating_add(range.bytes);
        let words = (space, range.start)..(space, DevicePtr::new(end));
        self.words.extract_if(words, |_, _| true).for_each(drop);
    }

    /// Forgets what everything to come is ordered after: what the host has waited for. Nothing while something is
    /// put by, or a host function is about that has not seen what the host has.
    pub(crate) fn settle(&mut self) {
        if !self.held.is_empty() || !self.functions.is_empty() {
            return;
        }
        self.shadow.drop_uses(&self.host);
        let is_gone = |(id, lane): (&LaneId, &Lane)| {
            let last = Timepoint {
                lane: *id,
                seq: lane.reached,
            };
            (lane.is_retired && self.host.covers(last)).then_some(*id)
        };
        let gone: BTreeSet<LaneId> = self.lanes.iter().filter_map(is_gone).collect();
        self.lanes.retain(|id, _| !gone.contains(id));
        for (id, lane) in &mut self.lanes {
            lane.trim(self.host.get(*id).unwrap_or_default(), &gone);
        }
        for signals in self.signals.values_mut() {
            signals.settle(&self.host, &gone);
        }
        for word in self.words.values_mut() {
            word.settle(&self.host, &gone);
        }
        if !gone.is_empty() {
            Arc::make_mut(&mut self.host).forget(&gone);
        }
    }
}
