//! Room that grows and never moves, so that readers need no lock to find their way in it.

use std::sync::OnceLock;

/// Items of the first segment; each further one has twice as many.
const FIRST: usize = if cfg!(loom) { 2 } else { 64 };
/// Enough for every number of 32 bits.
const SEGMENTS: usize = 33 - FIRST.ilog2() as usize;

/// Items by number, made by need and kept until the arena goes.
#[derive(Debug)]
pub(super) struct Arena<T> {
    segments: [OnceLock<Box<[T]>>; SEGMENTS],
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
        }
    }
}

impl<T: Default> Arena<T> {
    /// An item that was made before.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (segment, at) = place_of(number);
        self.segments.get(segment)?.get()?.get(at)
    }

    /// The item, made if it is not there. `None` only past the last number.
    #[inline]
    pub(super) fn make(&self, number: u32) -> Option<&T> {
        let (segment, at) = place_of(number);
        let made = self.segments.get(segment)?.get_or_init(|| {
            let items = FIRST << segment;
            (0..items).map(|_| T::default()).collect()
        });
        made.get(at)
    }
}

/// Which segment a number lies in, and where there.
#[inline]
const fn place_of(number: u32) -> (usize, usize) {
    let from_first = number as usize + FIRST;
    let segment = (from_first.ilog2() - FIRST.ilog2()) as usize;
    (segment, from_first - (FIRST << segment))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own_and_they_follow_each_other() {
        let mut before = place_of(0);
        assert_eq!(before, (0, 0));
        for number in 1..100_000 {
            let place = place_of(number);
            let follows = place == (before.0, before.1 + 1);
            let begins = place == (before.0 + 1, 0) && before.1 + 1 == FIRST << before.0;
            assert!(follows || begins, "{number}: {before:?} {place:?}");
            before = place;
        }
        assert!(place_of(u32::MAX).0 < SEGMENTS);
    }

    #[test]
    fn what_was_made_stays_where_it_is() {
        let arena = Arena::<u32>::default();
        assert!(arena.get(7).is_none());
        let made: *const u32 = arena.make(7).unwrap();
        arena.make(70_000).unwrap();
        assert!(std::ptr::eq(made, arena.get(7).unwrap()));
    }
}
