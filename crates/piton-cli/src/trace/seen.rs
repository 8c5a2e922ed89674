//! Which ids were ever allocated, in little memory.
//!
//! Ids mostly come in order, so what was seen is a few runs of neighbours: one run for a whole trace of millions of
//! blocks. Ids in a wild order cost one entry each, never more than the trace itself.

use std::collections::BTreeMap;

/// A set of numbers that only grows, kept as runs.
///
/// # Invariants
/// Runs `first..=last` neither overlap nor touch.
#[derive(Debug, Clone, Default)]
pub struct SeenIds {
    /// First of each run to its last.
    runs: BTreeMap<u64, u64>,
}

impl SeenIds {
    /// Was this id seen?
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.run_before(id).is_some_and(|(_, last)| last >= id)
    }

    /// Adds an id; `false` if it was there already.
    pub fn insert(&mut self, id: u64) -> bool {
        let before = self.run_before(id);
        if before.is_some_and(|(_, last)| last >= id) {
            return false;
        }
        let first = match before {
            Some((first, last)) if last.checked_add(1) == Some(id) => first,
            _ => id,
        };
        let behind = id.checked_add(1).and_then(|next| self.runs.remove(&next));
        self.runs.insert(first, behind.unwrap_or(id));
        true
    }

    /// Runs kept: what the set costs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    fn run_before(&self, id: u64) -> Option<(u64, u64)> {
        self.runs
            .range(..=id)
            .next_back()
            .map(|(first, last)| (*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_in_order_are_one_run() {
        let mut seen = SeenIds::default();
        assert!((0..10_000).all(|id| seen.insert(id)));
        assert_eq!(seen.runs(), 1);
        assert!(!seen.insert(42));
    }

    #[test]
    fn largest_id_has_no_neighbour_behind() {
        let mut seen = SeenIds::default();
        assert!(seen.insert(u64::MAX));
        assert!(seen.insert(u64::MAX - 1));
        assert!(!seen.insert(u64::MAX));
        assert_eq!(seen.runs(), 1);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(ids in prop::collection::vec(0_u64..60, 0..80)) {
            let mut seen = SeenIds::default();
            let mut plain = BTreeSet::new();
            for id in ids {
                prop_assert_eq!(seen.insert(id), plain.insert(id));
            }
            let starts = plain.iter().filter(|id| !plain.contains(&id.wrapping_sub(1))).count();
            prop_assert_eq!(seen.runs(), starts);
            prop_assert!((0..60).all(|id| seen.contains(id) == plain.contains(&id)));
        }
    }
}
