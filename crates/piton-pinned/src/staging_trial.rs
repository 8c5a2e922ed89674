//! The two ways of a staged copy, measured on a copy that is made anyway.
//!
//! # The idea
//! A part of a long copy goes in *segments*, each by the other way than the one before, and the time is noted that each took
//! until the device had it. So nothing is copied for the measurement alone, it is made on the memory that counts and while
//! the machine does what it does, and it takes some milliseconds.
//!
//! # What decides
//! The medians of each way's segments, so that a thread that is sent away in one of them changes nothing. The default, which
//! needs one core, stays unless the other way takes an eighth less: a second core is not used for a gain that the next
//! measurement may not find.

use crate::StagedWay;
use std::time::Duration;

/// Segments of each way.
const ROUNDS: usize = 5;
const MIB: usize = 1 << 20;

/// A measurement, as far as it has come. Made by [`Staging::trial`](crate::Staging::trial).
#[derive(Clone, Copy, Debug, Default)]
pub struct StagingTrial {
    /// What segments took, in the order they were made: ways take turns.
    spent: [Duration; 2 * ROUNDS],
    made: usize,
}

impl StagingTrial {
    /// MiB of a segment.
    pub(crate) const SEGMENT_MIB: u32 = 2;
    /// Bytes of a segment: many chunks, so that what a way needs to begin and to end counts for little.
    pub const SEGMENT_BYTES: usize = Self::SEGMENT_MIB as usize * MIB;
    /// Bytes that are copied before the first segment: their end of the copy may lie in a cache.
    pub const LEAD_BYTES: usize = 4 * MIB;
    /// Bytes of the shortest copy that is measured.
    pub const BYTES: usize = Self::LEAD_BYTES + 2 * ROUNDS * Self::SEGMENT_BYTES;

    /// The way of the next segment; none if all have been made.
    pub fn next(&self) -> Option<StagedWay> {
        let way = StagedWay::ALL[self.made % 2];
        (self.made < self.spent.len()).then_some(way)
    }

    /// The segment whose turn it was took so long.
    pub fn note(&mut self, spent: Duration) {
        if let Some(place) = self.spent.get_mut(self.made) {
            *place = spent;
            self.made += 1;
        }
    }

    /// The way to take, and how long a MiB took overlapped and in turn; none before all segments have been made.
    pub fn outcome(&self) -> Option<(StagedWay, [Duration; 2])> {
        if self.made < self.spent.len() {
            return None;
        }
        let measured = [self.per_mebibyte(0), self.per_mebibyte(1)];
        let [overlapped, in_turn] = measured;
        let way = if overlapped < in_turn - in_turn / 8 {
            StagedWay::Overlapped
        } else {
            StagedWay::InTurn
        };
        Some((way, measured))
    }

    /// The median of a way's segments, for a MiB.
    fn per_mebibyte(&self, way: usize) -> Duration {
        let of_round = |round: usize| self.spent[2 * round + way];
        let mut spent: [Duration; ROUNDS] = std::array::from_fn(of_round);
        spent.sort_unstable();
        spent[ROUNDS / 2] / Self::SEGMENT_MIB
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What segments of so many microseconds decide for, overlapped and in turn.
    #[track_caller]
    fn decided(
        overlapped: [u64; ROUNDS],
        in_turn: [u64; ROUNDS],
    ) -> Option<(StagedWay, [u128; 2])> {
        let mut trial = StagingTrial::default();
        for (overlapped, in_turn) in overlapped.into_iter().zip(in_turn) {
            for (way, micros) in [(0, overlapped), (1, in_turn)] {
                assert_eq!(trial.outcome(), None);
                assert_eq!(trial.next(), Some(StagedWay::ALL[way]));
                trial.note(Duration::from_micros(micros));
            }
        }
        assert_eq!(trial.next(), None);
        trial.note(Duration::ZERO);
        let (way, measured) = trial.outcome()?;
        Some((way, measured.map(|spent| spent.as_micros())))
    }

    #[test]
    fn the_faster_way_is_taken_and_two_slow_segments_change_nothing() {
        let overlapped = Some((StagedWay::Overlapped, [150, 200]));
        assert_eq!(decided([300; 5], [400; 5]), overlapped);
        assert_eq!(decided([9000, 300, 300, 9000, 300], [400; 5]), overlapped);
        let in_turn = Some((StagedWay::InTurn, [200, 150]));
        assert_eq!(decided([400; 5], [300; 5]), in_turn);
        assert_eq!(decided([400; 5], [300, 9000, 300, 300, 9000]), in_turn);
    }

    #[test]
    fn the_default_stays_unless_the_other_way_takes_an_eighth_less() {
        assert_eq!(StagedWay::default(), StagedWay::InTurn);
        let way = |overlapped| decided([overlapped; 5], [400; 5]).map(|(way, _)| way);
        assert_eq!(way(400), Some(StagedWay::InTurn));
        assert_eq!(way(350), Some(StagedWay::InTurn));
        assert_eq!(way(348), Some(StagedWay::Overlapped));
    }
}
