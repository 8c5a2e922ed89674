//! Which ranges of addresses are live: what vendors do not tell, and no copy may miss.

use piton_sync::Mutex;
use std::collections::BTreeMap;

/// Live ranges, apart from each other, by their starts, each with what its owner keeps of it.
#[derive(Debug)]
pub struct Books<T>(Mutex<BTreeMap<u64, (u64, T)>>);

impl<T> Default for Books<T> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<T> Books<T> {
    /// Notes a range.
    pub fn insert(&self, start: u64, bytes: u64, kept: T) {
        self.0.lock().insert(start, (bytes, kept));
    }

    /// Strikes the range that starts here out, if it is one `of` that kind; says how long it was, and what was kept.
    pub fn remove(&self, start: u64, of: impl FnOnce(&T) -> bool) -> Option<(u64, T)> {
        let mut books = self.0.lock();
        let is_it = books.get(&start).is_some_and(|(_, kept)| of(kept));
        if is_it { books.remove(&start) } else { None }
    }

    /// Whether one live range holds all of these bytes.
    pub fn holds(&self, start: u64, bytes: u64) -> bool {
        self.holds_of(start, bytes, |_| true)
    }

    /// Whether one live range `of` that kind holds all of these bytes.
    pub fn holds_of(&self, start: u64, bytes: u64, of: impl FnOnce(&T) -> bool) -> bool {
        self.find(start, bytes, |_, kept| of(kept)).unwrap_or(false)
    }

    /// What `look` says of the live range that holds all of these bytes, by its start and length and what was kept; nothing
    /// where there is none.
    pub fn find<R>(
        &self,
        start: u64,
        bytes: u64,
        look: impl FnOnce((u64, u64), &T) -> R,
    ) -> Option<R> {
        let books = self.0.lock();
        let (first, (length, kept)) = books.range(..=start).next_back()?;
        // No overflow: the range is one of memory there is, so its end is an address.
        let is_inside = start.checked_add(bytes)? <= first + length;
        is_inside.then(|| look((*first, *length), kept))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_bytes_and_no_others() {
        let books = Books::default();
        books.insert(100, 50, 'a');
        books.insert(150, 50, 'b');
        let held = [(100, 50), (149, 1), (150, 50), (199, 1)];
        assert!(held.iter().all(|(at, bytes)| books.holds(*at, *bytes)));
        // Two neighbours are two allocations: nothing may reach from one into the other.
        let not_held = [(99, 1), (100, 51), (149, 2), (200, 1), (100, u64::MAX)];
        assert!(!not_held.iter().any(|(at, bytes)| books.holds(*at, *bytes)));
        assert!(books.holds_of(150, 50, |kept| *kept == 'b'));
        assert!(!books.holds_of(150, 50, |kept| *kept == 'a'));
        let found = |at, bytes| books.find(at, bytes, |place, kept| (place, *kept));
        assert_eq!(found(160, 40), Some(((150, 50), 'b')));
        assert_eq!(found(160, 41), None);
        assert_eq!(books.remove(100, |kept| *kept == 'b'), None);
        assert_eq!(books.remove(100, |_| true), Some((50, 'a')));
        assert_eq!(books.remove(100, |_| true), None);
        assert!(!books.holds(100, 1));
    }
}
