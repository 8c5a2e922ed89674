//! Failures of a queue that were cleared, and the positions they spoil for ever.
//!
//! # The idea
//! A cleared failure is a range of positions: from the command that failed to the last that was submitted when it was
//! cleared. Whoever asks for a position in it, or waits for one, must go on learning that it failed. A queue that fails
//! and is cleared for years must not grow for it, so only so many ranges are kept: where there would be more, the two
//! with the fewest positions between them become one, with the failure of the first.
//!
//! # Invariants
//! 1. Ranges are in order and apart; there are [`KEPT`](ClearedFailures::KEPT) at most.
//! 2. Their union only grows: a position that was spoilt once stays so. What lies between two ranges that became one is
//!    spoilt from then on, though it ended well: an answer that errs calls something failed and never something well.
//!
//! Both sides of the contract keep these, and from the same failures get the same ranges: a queue spreads a failure to
//! exactly those that a stream says have failed.

use crate::{Position, QueueFailure};

/// A cleared failure, and the last position it spoils.
type Range = (QueueFailure, Position);

/// The cleared failures of one queue. See the module.
#[derive(Clone, Debug, Default)]
pub struct ClearedFailures {
    ranges: Vec<Range>,
}

impl ClearedFailures {
    /// Ranges that are kept at most.
    pub const KEPT: usize = 32;

    /// Nothing was cleared yet.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// A failure was cleared that spoils what was submitted since, up to `last`. It comes behind those added before.
    pub fn add(&mut self, failure: QueueFailure, last: Position) {
        self.ranges.push((failure, last));
        if self.ranges.len() > Self::KEPT {
            self.join_nearest();
        }
    }

    /// The failure that spoils a position.
    pub fn spoiling(&self, position: Position) -> Option<&QueueFailure> {
        let after = self
            .ranges
            .partition_point(|(failure, _)| failure.position <= position);
        let (failure, last) = self.ranges.get(after.checked_sub(1)?)?;
        (position <= *last).then_some(failure)
    }

    /// The failures that ranges tell of, in order.
    pub fn failures(&self) -> impl Iterator<Item = &QueueFailure> {
        self.ranges.iter().map(|(failure, _)| failure)
    }

    fn join_nearest(&mut self) {
        let gap = |pair: &[Range]| match pair {
            [(_, end), (next, _)] => next.position.get().saturating_sub(end.get()),
            _ => u64::MAX,
        };
        let gaps = self.ranges.windows(2).map(gap).enumerate();
        let Some((first, _)) = gaps.min_by_key(|(_, gap)| *gap) else {
            return;
        };
        let (_, last) = self.ranges.remove(first + 1);
        self.ranges[first].1 = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceId, DriverError, ErrorKind, Operation};

    fn failure(position: u64) -> QueueFailure {
        QueueFailure {
            position: Position::new(position),
            error: DriverError::new(ErrorKind::Aborted, Operation::Launch, DeviceId(0)),
            origin: None,
        }
    }

    /// Ranges of random lengths with random gaps between them, beside a set of all positions that are spoilt.
    fn cleared(seed: u64, count: usize) -> (ClearedFailures, Vec<bool>) {
        let (mut cleared, mut exact, mut state) = (ClearedFailures::new(), vec![false], seed);
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..count {
            exact.extend((0..random(6)).map(|_| false));
            let start = exact.len() as u64;
            exact.extend((0..=random(4)).map(|_| true));
            cleared.add(failure(start), Position::new(exact.len() as u64 - 1));
        }
        (cleared, exact)
    }

    #[test]
    fn as_many_as_are_kept_are_told_exactly() {
        for seed in 0..50 {
            let (cleared, exact) = cleared(seed, ClearedFailures::KEPT);
            for (position, is_spoilt) in (0..).zip(&exact) {
                let told = cleared.spoiling(Position::new(position));
                assert_eq!(told.is_some(), *is_spoilt, "{position}");
            }
        }
    }

    #[test]
    fn what_was_spoilt_stays_so_however_many_come_after() {
        for seed in 0..50 {
            let (cleared, exact) = cleared(seed, 40 * ClearedFailures::KEPT);
            assert_eq!(cleared.ranges.len(), ClearedFailures::KEPT);
            for (position, is_spoilt) in (0..).zip(&exact) {
                let told = cleared.spoiling(Position::new(position));
                assert!(told.is_some() || !is_spoilt, "{position} is forgotten");
                assert!(told.is_none_or(|failure| failure.position.get() <= position));
            }
            let next = Position::new(exact.len() as u64);
            assert_eq!(cleared.spoiling(next), None, "what comes after is new");
            assert_eq!(cleared.spoiling(Position::START), None);
        }
    }

    #[test]
    fn ranges_join_where_the_fewest_lie_between() {
        let mut cleared = ClearedFailures::new();
        for n in 0..=ClearedFailures::KEPT as u64 {
            let start = 100 * n + if n == 7 { 2 } else { 50 };
            cleared.add(failure(start), Position::new(start + 1));
        }
        let told = |position| cleared.spoiling(Position::new(position));
        let joined = told(690).map(|failure| failure.position.get());
        assert_eq!(joined, Some(650), "the first of the two tells");
        assert_eq!(told(703).map(|failure| failure.position.get()), Some(650));
        assert_eq!((told(649), told(704), told(60)), (None, None, None));
    }
}
