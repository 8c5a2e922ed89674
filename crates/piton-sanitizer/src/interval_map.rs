//! A map from runs of addresses to values, split and merged as they are changed.
//!
//! # Invariants
//! Runs are not empty, do not overlap, and two that touch differ in value. No run holds the default value: it
//! stands for "nothing known" and is left out.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub(crate) struct IntervalMap<T> {
    /// First byte, to the byte after the last and the value.
    runs: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for IntervalMap<T> {
    fn default() -> Self {
        Self {
            runs: BTreeMap::new(),
        }
    }
}

impl<T: Clone + Default + PartialEq> IntervalMap<T> {
    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The value at an address.
    pub(crate) fn get(&self, address: u64) -> Option<&T> {
        let (_, (end, value)) = self.runs.range(..=address).next_back()?;
        (address < *end).then_some(value)
    }

    /// The values of the runs that share a byte with `start..end`.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &T> {
        let before = self.runs.range(..start).next_back();
        let before = before.filter(|(_, (run_end, _))| *run_end > start);
        let inside = self.runs.range(start..end.max(start));
        before
            .into_iter()
            .chain(inside)
            .map(|(_, (_, value))| value)
    }

    /// Changes the value of each byte of `start..end`; bytes without one start from the default.
    pub(crate) fn update(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut T)) {
        if start >= end {
            return;
        }
        self.split(start);
        self.split(end);
        self.fill(start, end);
        for (_, (_, value)) in self.runs.range_mut(start..end) {
            change(value);
        }
        self.tidy(start, end);
    }

    /// Changes every value there is.
    pub(crate) fn update_all(&mut self, mut change: impl FnMut(&mut T)) {
        for (_, value) in self.runs.values_mut() {
            change(value);
        }
        self.tidy(0, u64::MAX);
    }

    /// Makes a run begin at `address` if one reaches over it.
    fn split(&mut self, address: u64) {
        let Some((_, (end, value))) = self.runs.range_mut(..address).next_back() else {
            return;
        };
        if *end <= address {
            return;
        }
        let behind = (*end, value.clone());
        *end = address;
        self.runs.insert(address, behind);
    }

    /// Gives the bytes of `start..end` that have no value the default.
    fn fill(&mut self, start: u64, end: u64) {
        let mut gaps = Vec::new();
        let mut at = start;
        for (run, (run_end, _)) in self.runs.range(start..end) {
            if *run > at {
                gaps.push((at, *run));
            }
            at = *run_end;
        }
        if at < end {
            gaps.push((at, end));
        }
        for (gap, gap_end) in gaps {
            self.runs.insert(gap, (gap_end, T::default()));
        }
    }

    /// Drops default values in `start..end` and merges what touches and is equal, borders included.
    fn tidy(&mut self, start: u64, end: u64) {
        let first = self
            .runs
            .range(..start)
            .next_back()
            .map_or(start, |(s, _)| *s);
        let starts: Vec<u64> = self.runs.range(first..=end).map(|(s, _)| *s).collect();
        let mut last: Option<u64> = None;
        for at in starts {
            let Some((at_end, value)) = self.runs.remove(&at) else {
                continue;
            };
            if value == T::default() {
                continue;
            }
            match last.and_then(|last| self.runs.get_mut(&last)) {
                Some((last_end, same)) if *last_end == at && *same == value => *last_end = at_end,
                _ => {
                    self.runs.insert(at, (at_end, value));
                    last = Some(at);
                }
            }
        }
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        let mut before: Option<(u64, &T)> = None;
        for (start, (end, value)) in &self.runs {
            assert!(start < end, "an empty run");
            assert!(*value != T::default(), "a run that says nothing");
            if let Some((before_end, before_value)) = before {
                assert!(before_end <= *start, "two runs overlap");
                let merges = before_end == *start && before_value == value;
                assert!(!merges, "two runs that are one");
            }
            before = Some((*end, value));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPAN: u64 = 24;
    const BYTES: usize = 24;

    fn check(writes: &[(u64, u64, u32)]) {
        let mut map = IntervalMap::<u32>::default();
        let mut model = [0_u32; BYTES];
        for &(start, bytes, value) in writes {
            let end = (start + bytes).min(SPAN);
            map.update(start, end, |held| *held = (*held + value) % 3);
            for (byte, held) in (0..).zip(&mut model) {
                if (start..end).contains(&byte) {
                    *held = (*held + value) % 3;
                }
            }
            map.check();
        }
        for (byte, value) in (0..).zip(model) {
            assert_eq!(map.get(byte).copied().unwrap_or_default(), value);
            let found: Vec<_> = map.overlapping(byte, byte + 1).copied().collect();
            assert_eq!(found, if value == 0 { vec![] } else { vec![value] });
        }
        map.update_all(|held| *held = 1);
        map.check();
    }

    proptest! {
        #[test]
        fn it_is_an_array_with_equal_neighbours_merged(
            writes in prop::collection::vec((0..SPAN, 0..SPAN, 0..3_u32), 0..40),
        ) {
            check(&writes);
        }
    }
}
