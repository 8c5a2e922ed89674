//! Runs of addresses that are taken for a part of a bucket, each with the instants at which it is.

use crate::instants::Span;
use crate::runs::Run;

/// Runs by their starts. They may overlap where their times do not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ragged(Vec<(Run, Span)>);

impl Ragged {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn add(&mut self, run: Run, span: Span) {
        let place = self.0.partition_point(|(other, _)| other.start < run.start);
        self.0.insert(place, (run, span));
    }

    /// The lowest address from `from` on at which `bytes` are free all through the span, if what comes before index
    /// `cursor` ends at `from` or below, or lives at other times; `cursor` then moves on to what ends above the answer.
    pub(crate) fn clear_from(&self, from: u64, bytes: u64, span: Span, cursor: &mut u32) -> u64 {
        let mut place = from;
        let rest = self.0.get(*cursor as usize..).unwrap_or_default();
        for (run, lives) in rest {
            if run.end > place && lives.meets(span) {
                if run.start >= place.saturating_add(bytes) {
                    break;
                }
                place = run.end;
            }
            *cursor += 1;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lowest_place_is_free_of_all_that_lives_at_the_time(
            added in prop::collection::vec((0_u64..40, 1_u64..9, 0_u32..8, 1_u32..5), 0..20),
            asked in (1_u64..9, 0_u32..8, 1_u32..5),
        ) {
            let mut ragged = Ragged::default();
            let lives = |first: u32, len: u32| Span { first, end: first + len };
            for &(start, bytes, first, len) in &added {
                ragged.add(Run { start, end: start + bytes }, lives(first, len));
            }
            let (bytes, first, len) = asked;
            let span = lives(first, len);
            let is_free = |place: u64| added.iter().all(|&(start, other, first, len)| {
                !lives(first, len).meets(span) || start + other <= place || place + bytes <= start
            });
            let (mut from, mut cursor) = (0, 0);
            while from < 60 {
                let lowest = (from..).find(|place| is_free(*place)).unwrap();
                from = ragged.clear_from(from, bytes, span, &mut cursor);
                prop_assert_eq!(from, lowest);
                from += 1;
            }
        }
    }
}
