//! Semaphores and words of memory: what a wait for a value is ordered after.
//!
//! # The rule
//! A wait for v ends after *some* signal of v or more, nobody says which. So it is ordered after what came before
//! every one of them: the meet of their clocks. Signals that are ordered among themselves, as a counter's are, make
//! that the clock of the first.
//!
//! A wait that is met by a signal which is submitted only later is decided by the first such signal there is.

use crate::clock::Clock;
use piton_driver::{MemoryWait, MemoryWord};
use piton_timeline::LaneId;
use std::{collections::BTreeSet, sync::Arc};

/// A counter that is signalled and waited for: made by [`Sanitizer::signal`](crate::Sanitizer::signal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalId(pub(crate) u64);

/// Who gave which values, each with what came before it.
#[derive(Debug)]
struct Given<V>(Vec<(V, Arc<Clock>)>);

impl<V> Default for Given<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Given<V> {
    /// What came before every value that will do; `None` if none does.
    fn meet(&self, will_do: impl Fn(&V) -> bool) -> Option<Clock> {
        let mut clocks = self.0.iter().filter(|(value, _)| will_do(value));
        let mut met = (*clocks.next()?.1).clone();
        clocks.for_each(|(_, clock)| met.meet(clock));
        Some(met)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn forget(&mut self, gone: &BTreeSet<LaneId>) {
        for (_, clock) in &mut self.0 {
            if clock.names_any(gone) {
                Arc::make_mut(clock).forget(gone);
            }
        }
    }
}

/// The signals of one counter.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Values up to here add nothing: they were there before anything else, or everything comes after them.
    floor: u64,
    given: Given<u64>,
}

impl Signals {
    /// A counter at a value that whoever uses it comes after.
    pub(crate) fn new(floor: u64) -> Self {
        Self {
            floor,
            given: Given::default(),
        }
    }

    /// The counter was raised to `value` by somebody who comes after `clock`.
    pub(crate) fn give(&mut self, value: u64, clock: Arc<Clock>) {
        if value > self.floor {
            self.given.0.push((value, clock));
        }
    }

    /// How many signals are kept.
    pub(crate) fn len(&self) -> usize {
        self.given.len()
    }

    /// What a wait for `value` comes after; `None` while nothing meets it.
    pub(crate) fn wait(&self, value: u64) -> Option<Clock> {
        if value <= self.floor {
            return Some(Clock::default());
        }
        self.given.meet(|given| *given >= value)
    }

    /// What somebody who read exactly `value` comes after.
    pub(crate) fn read(&self, value: u64) -> Option<Clock> {
        self.given.meet(|given| *given == value)
    }

    /// Signals that everything to come is ordered after become the floor.
    pub(crate) fn settle(&mut self, known_to_all: &Clock, gone: &BTreeSet<LaneId>) {
        let is_known = |clock: &Clock| known_to_all.includes(clock);
        let known = self.given.0.iter().filter(|(_, clock)| is_known(clock));
        let reached = known.map(|(value, _)| *value).max();
        self.floor = self.floor.max(reached.unwrap_or_default());
        self.given.0.retain(|(value, _)| *value > self.floor);
        self.given.forget(gone);
    }
}

/// What commands wrote into one word of memory that others wait for. What kernels, copies and the host write there
/// is not seen: a wait that only such a write meets ends like one whose signal came from outside.
#[derive(Debug, Default)]
pub(crate) struct Word(Given<MemoryWord>);

impl Word {
    /// The value was written by somebody who comes after `clock`.
    pub(crate) fn give(&mut self, value: MemoryWord, clock: Arc<Clock>) {
        self.0.0.push((value, clock));
    }

    /// How many writes are kept.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What the wait comes after; `None` while nothing meets it.
    pub(crate) fn wait(&self, wait: &MemoryWait) -> Option<Clock> {
        let holds = |value: &MemoryWord| wait.comparison.holds(*value, wait.value);
        self.0.meet(holds)
    }

    /// Of the writes that everything to come is ordered after only the last is still there.
    pub(crate) fn settle(&mut self, known_to_all: &Clock, gone: &BTreeSet<LaneId>) {
        let is_known = |(_, clock): &(MemoryWord, Arc<Clock>)| known_to_all.includes(clock);
        let last = self.0.0.iter().rposition(is_known);
        let mut at = 0;
        self.0.0.retain(|given| {
            at += 1;
            !is_known(given) || last == Some(at - 1)
        });
        self.0.forget(gone);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use piton_driver::{Comparison, DevicePtr};
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
    fn a_wait_for_a_word_comes_after_the_writes_that_meet_it() {
        let value = MemoryWord::U32;
        let wait = |comparison, wanted| MemoryWait {
            at: DevicePtr::new(0),
            comparison,
            value: value(wanted),
        };
        let mut word = Word::default();
        word.give(value(1), clock(&[(0, 1)]));
        assert_eq!(word.wait(&wait(Comparison::Equal, 2)), None);
        word.give(value(2), clock(&[(1, 1)]));
        let after = |points| Some((*clock(points)).clone());
        assert_eq!(word.wait(&wait(Comparison::Equal, 2)), after(&[(1, 1)]));
        assert_eq!(word.wait(&wait(Comparison::AtLeast, 1)), after(&[]));
        word.settle(&clock(&[(0, 1), (1, 1)]), &BTreeSet::new());
        assert_eq!(word.wait(&wait(Comparison::Equal, 1)), None);
        assert_eq!(word.wait(&wait(Comparison::Equal, 2)), after(&[(1, 1)]));
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
