//! Which ranges of addresses are live: what OpenCL does not tell, and no copy may miss.

use piton_sync::Mutex;
use std::collections::BTreeMap;

/// Live ranges, apart from each other, by their starts.
#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<BTreeMap<u64, u64>>);

impl Books {
    /// Notes a range.
    pub(crate) fn insert(&self, start: u64, bytes: u64) {
        self.0.lock().insert(start, bytes);
    }

    /// Strikes the range that starts here out, and says how long it was.
    pub(crate) fn remove(&self, start: u64) -> Option<u64> {
        self.0.lock().remove(&start)
    }

    /// Whether one live range holds all of these bytes.
    pub(crate) fn holds(&self, start: u64, bytes: u64) -> bool {
        let books = self.0.lock();
        let Some((first, length)) = books.range(..=start).next_back() else {
            return false;
        };
        // No overflow: the range is one of memory there is, so its end is an address.
        start
            .checked_add(bytes)
            .is_some_and(|end| end <= first + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_bytes_and_no_others() {
        let books = Books::default();
        books.insert(100, 50);
        books.insert(150, 50);
        let held = [(100, 50), (149, 1), (150, 50), (199, 1)];
        assert!(held.iter().all(|(at, bytes)| books.holds(*at, *bytes)));
        // Two neighbours are two allocations: nothing may reach from one into the other.
        let not_held = [(99, 1), (100, 51), (149, 2), (200, 1), (100, u64::MAX)];
        assert!(!not_held.iter().any(|(at, bytes)| books.holds(*at, *bytes)));
        assert_eq!((books.remove(100), books.remove(100)), (Some(50), None));
        assert!(!books.holds(100, 1));
    }
}
