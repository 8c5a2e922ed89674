//! Vector clocks: how far along each lane somebody is ordered after.
//!
//! # Invariants
//! Entries are sorted by lane and hold each lane once. Unlike the timeline's clock, nothing is left out because it
//! is done: being done early is the schedule's doing, not the program's.

use piton_timeline::{LaneId, Timepoint};
use std::collections::BTreeSet;

/// Lanes, each with the seq up to which its commands come before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<(LaneId, u64)>);

impl Clock {
    /// How far along `lane`, if it is known at all.
    pub(crate) fn get(&self, lane: LaneId) -> Option<u64> {
        let at = self.position(lane).ok()?;
        self.0.get(at).map(|(_, seq)| *seq)
    }

    /// Whether everything up to the point comes before.
    pub(crate) fn covers(&self, point: Timepoint) -> bool {
        self.get(point.lane).is_some_and(|seq| seq >= point.seq)
    }

    /// Whether everything in `other` is in here too.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .all(|&(lane, seq)| self.covers(Timepoint { lane, seq }))
    }

    /// Everything up to the point comes before.
    pub(crate) fn raise(&mut self, point: Timepoint) {
        match self.position(point.lane) {
            Ok(at) => self.0[at].1 = self.0[at].1.max(point.seq),
            Err(at) => self.0.insert(at, (point.lane, point.seq)),
        }
    }

    /// What comes before `other` comes before too.
    pub(crate) fn join(&mut self, other: &Self) {
        for &(lane, seq) in &other.0 {
            self.raise(Timepoint { lane, seq });
        }
    }

    /// Keeps what is in `other` too: what comes before whichever of the two it was.
    pub(crate) fn meet(&mut self, other: &Self) {
        self.0.retain_mut(|(lane, seq)| {
            let Some(others) = other.get(*lane) else {
                return false;
            };
            *seq = others.min(*seq);
            true
        });
    }

    /// Forgets lanes that nobody asks about any more.
    pub(crate) fn forget(&mut self, lanes: &BTreeSet<LaneId>) {
        self.0.retain(|(lane, _)| !lanes.contains(lane));
    }

    /// Whether one of these lanes is in it.
    pub(crate) fn names_any(&self, lanes: &BTreeSet<LaneId>) -> bool {
        self.0.iter().any(|(lane, _)| lanes.contains(lane))
    }

    fn position(&self, lane: LaneId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&lane, |(lane, _)| *lane)
    }
}

impl FromIterator<Timepoint> for Clock {
    fn from_iter<I: IntoIterator<Item = Timepoint>>(points: I) -> Self {
        let mut clock = Self::default();
        for point in points {
            clock.raise(point);
        }
        clock
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(index: u32, seq: u64) -> Timepoint {
        let lane = LaneId {
            index,
            generation: 0,
        };
        Timepoint { lane, seq }
    }

    #[test]
    fn a_join_takes_the_later_and_a_meet_the_earlier() {
        let one: Clock = [at(0, 5), at(1, 2)].into_iter().collect();
        let two: Clock = [at(1, 7), at(2, 1)].into_iter().collect();
        let mut joined = one.clone();
        joined.join(&two);
        assert_eq!(joined, [at(0, 5), at(1, 7), at(2, 1)].into_iter().collect());
        let mut met = one.clone();
        met.meet(&two);
        assert_eq!(met, [at(1, 2)].into_iter().collect());
        assert!(joined.includes(&one) && joined.includes(&two));
        assert!(one.includes(&met) && !met.includes(&one));
    }
}
