//! A set of addresses as few runs as possible.
//!
//! The planner adds ranges and asks for the next address at which nothing is in the way; it never takes anything out.
//! So runs only grow together, and a plain sorted vector beats a tree: what is walked lies side by side.

/// Addresses from `start` up to and without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Sorted runs that neither overlap nor touch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a run, which may overlap those that are there, and fills what gaps it leaves that are smaller than `slack`,
    /// at least 1. All runs of a set are to be added with the same slack: gaps are then never smaller.
    pub(crate) fn add(&mut self, run: Run, slack: u64) {
        let is_below = |other: &Run| other.end.saturating_add(slack) <= run.start;
        let is_near = |other: &Run| other.start < run.end.saturating_add(slack);
        let first = self.0.partition_point(is_below);
        let near = self.0.get(first..).unwrap_or_default();
        let count = near.partition_point(is_near);
        let (Some(lowest), Some(highest)) = (near.first(), near[..count].last()) else {
            self.0.insert(first, run);
            return;
        };
        let joined = Run {
            start: lowest.start.min(run.start),
            end: highest.end.max(run.end),
        };
        self.0[first] = joined;
        self.0.drain(first + 1..first + count);
    }

    /// The lowest address from `from` on at which `bytes` are free of runs, if the runs before index `cursor` end at
    /// `from` or below; `cursor` then moves on to the first run that ends above the answer.
    pub(crate) fn clear_from(&self, from: u64, bytes: u64, cursor: &mut u32) -> u64 {
        let mut place = from;
        let rest = self.0.get(*cursor as usize..).unwrap_or_default();
        for run in rest {
            if run.end > place {
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_agree_with_a_set_of_addresses(
            added in prop::collection::vec((0_u64..60, 1_u64..12), 0..30),
            slack in 1_u64..6,
            more in 0_u64..4,
        ) {
            let mut runs = Runs::default();
            let mut taken = BTreeSet::new();
            for (start, bytes) in added {
                runs.add(Run { start, end: start + bytes }, slack);
                taken.extend(start..start + bytes);
            }
            let gaps = runs.0.windows(2).all(|pair| pair[1].start >= pair[0].end + slack);
            prop_assert!(gaps, "gaps stay as large as the slack: {:?}", runs);
            // What is at least as large as the slack never fitted into a gap that was filled.
            let bytes = slack + more;
            let is_clear = |place: u64| taken.range(place..place + bytes).next().is_none();
            let mut cursor = 0;
            let mut from = 0;
            while from < 70 {
                let lowest = (from..).find(|place| is_clear(*place)).unwrap();
                from = runs.clear_from(from, bytes, &mut cursor);
                prop_assert_eq!(from, lowest);
                from += bytes;
            }
        }
    }
}
