//! The pages of a device's memory: which are free.
//!
//! Pages are numbers here. What they are made of is the memfd in `window`.
//!
//! # Invariants
//! Free runs are disjoint, never adjacent (neighbours are merged), and lie below `pages`. What is neither in
//! a free run nor owned by a caller does not exist: `free + owned = pages`.

use std::collections::BTreeMap;

/// Consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Free pages of one device.
#[derive(Debug)]
pub(crate) struct PhysicalPages {
    pages: u64,
    free: u64,
    /// First page to count.
    runs: BTreeMap<u64, u64>,
}

impl PhysicalPages {
    pub(crate) fn new(pages: u64) -> Self {
        let runs = if pages > 0 {
            BTreeMap::from([(0, pages)])
        } else {
            BTreeMap::new()
        };
        Self {
            pages,
            free: pages,
            runs,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.pages
    }

    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Takes `count` pages, lowest first, in as few runs as that gives; `None` if there are not so many.
    pub(crate) fn take(&mut self, count: u64) -> Option<Vec<Run>> {
        if count > self.free {
            return None;
        }
        let mut taken = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let (first, available) = self.runs.pop_first()?;
            let used = available.min(missing);
            if used < available {
                self.runs.insert(first + used, available - used);
            }
            taken.push(Run { first, count: used });
            missing -= used;
        }
        self.free -= count;
        Some(taken)
    }

    /// Gives pages back.
    pub(crate) fn give(&mut self, runs: &[Run]) {
        for run in runs {
            self.free += run.count;
            self.insert(*run);
        }
    }

    fn insert(&mut self, run: Run) {
        let Run {
            mut first,
            mut count,
        } = run;
        if let Some((&before, &length)) = self.runs.range(..first).next_back()
            && before + length == first
        {
            self.runs.remove(&before);
            first = before;
            count += length;
        }
        if let Some(length) = self.runs.remove(&(first + count)) {
            count += length;
        }
        self.runs.insert(first, count);
    }

    /// Whether the invariants hold.
    pub(crate) fn check(&self) -> bool {
        let mut last_end = None;
        let mut sum = 0;
        for (&first, &count) in &self.runs {
            if count == 0 || last_end.is_some_and(|end| first <= end) {
                return false;
            }
            sum += count;
            last_end = Some(first + count);
        }
        sum == self.free && last_end.is_none_or(|end| end <= self.pages)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_merge() {
        let mut pages = PhysicalPages::new(10);
        let a = pages.take(3).unwrap();
        let b = pages.take(3).unwrap();
        let c = pages.take(4).unwrap();
        assert_eq!(pages.take(1), None);
        pages.give(&a);
        pages.give(&c);
        assert!(pages.check());
        let split = pages.take(5).unwrap();
        assert_eq!(
            split,
            [Run { first: 0, count: 3 }, Run { first: 6, count: 2 }]
        );
        pages.give(&split);
        pages.give(&b);
        assert!(pages.check());
        assert_eq!(pages.runs, BTreeMap::from([(0, 10)]));
    }
}
