//! Semaphores: what a wait for a value is ordered after.
//!
//! # The rule
//! A wait for v ends after *some* signal of v or more, nobody says which. So it is ordered after what came before
//! every one of them: the meet of their clocks. Signals that are ordered among themselves, as a counter's are, make
//! that the clock of the first.
//!
//! A wait that is met by a signal which is submitted only later is decided by the first such signal there is.

use crate::clock::Clock;
use piton_timeline::LaneId;
use std::{collections::BTreeSet, sync::Arc};

/// A counter that is signalled and waited for: made by [`Sanitizer::signal`](crate::Sanitizer::signal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalId(pub(crate) u64);

/// The signals of one counter.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Values up to here add nothing: they were there before anything else, or everything comes after them.
    floor: u64,
    given: Vec<(u64, Arc<Clock>)>,
}

impl Signals {
    /// A counter at a value that whoever uses it comes after.
    pub(crate) fn new(floor: u64) -> Self {
        Self {
            floor,
            given: Vec::new(),
        }
    }

    /// The counter was raised to `value` by somebody who comes after `clock`.
    pub(crate) fn give(&mut self, value: u64, clock: Arc<Clock>) {
        if value > self.floor {
            self.given.push((value, clock));
        }
    }

    /// What a wait for `value` comes after; `None` while nothing meets it.
    pub(crate) fn wait(&self, value: u64) -> Option<Clock> {
        if value <= self.floor {
            return Some(Clock::default());
        }
        self.meet(|given| given >= value)
    }

    /// What somebody who read exactly `value` comes after.
    pub(crate) fn read(&self, value: u64) -> Option<Clock> {
        self.meet(|given| given == value)
    }

    /// Signals that everything to come is ordered after become the floor.
    pub(crate) fn settle(&mut self, known_to_all: &Clock, gone: &BTreeSet<LaneId>) {
        let is_known = |clock: &Clock| known_to_all.includes(clock);
        let known = self.given.iter().filter(|(_, clock)| is_known(clock));
        let reached = known.map(|(value, _)| *value).max();
        self.floor = self.floor.max(reached.unwrap_or_default());
        self.given.retain(|(value, _)| *value > self.floor);
        for (_, clock) in &mut self.given {
            if clock.names_any(gone) {
                Arc::make_mut(clock).forget(gone);
            }
        }
    }

    fn meet(&self, meets: impl Fn(u64) -> bool) -> Option<Clock> {
        let mut clocks = self.given.iter().filter(|(given, _)| meets(*given));
        let mut met = (*clocks.next()?.1).clone();
        clocks.for_each(|(_, clock)| met.meet(clock));
        Some(met)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use piton_timeline::Timepoint;

    fn clock(points: &[(u32, u64)]) -> Arc<Clock> {
        let point = |&(index, seq): &(u32, u64)| {
            let lane = LaneId {
                index,
                generation: 0,
            };
            Timepoint { lane, seq }
        };
        Arc::new(points.iter().map(point).collect())
    }

    #[test]
    fn a_wait_comes_after_what_every_signal_that_meets_it_comes_after() {
        let mut signals = Signals::new(1);
        assert_eq!(signals.wait(1), Some(Clock::default()));
        assert_eq!(signals.wait(2), None);
        signals.give(2, clock(&[(0, 5), (1, 3)]));
        assert_eq!(signals.wait(2), Some((*clock(&[(0, 5), (1, 3)])).clone()));
        signals.give(3, clock(&[(0, 4), (2, 9)]));
        assert_eq!(signals.wait(2), Some((*clock(&[(0, 4)])).clone()));
        assert_eq!(signals.wait(3), Some((*clock(&[(0, 4), (2, 9)])).clone()));
        assert_eq!(signals.read(2), Some((*clock(&[(0, 5), (1, 3)])).clone()));
    }

    #[test]
    fn signals_that_all_have_seen_are_the_floor() {
        let mut signals = Signals::new(0);
        signals.give(1, clock(&[(0, 5)]));
        signals.give(2, clock(&[(0, 7)]));
        signals.settle(&clock(&[(0, 6)]), &BTreeSet::new());
        assert_eq!(signals.wait(1), Some(Clock::default()));
        assert_eq!(signals.wait(2), Some((*clock(&[(0, 7)])).clone()));
    }
}
