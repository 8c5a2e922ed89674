//! Slots that no lane owns, and which of them the next lane gets.
//!
//! # The idea
//! A slot whose lane ended is free as soon as its work has, and nobody says when that is. So each registration
//! that finds no free slot looks at the oldest few of those that were pending, and takes a fresh slot when they
//! still are: a bounded number of looks each. Only when all slots were used once are all of them looked at.
//!
//! # Invariants
//! - Each slot below `next` is a live lane's, in `free`, in `pending`, or used up, and only one of these.
//! - What is in `free` has drained; nothing is submitted to it any more, so it stays so.

use crate::slot::Vacancy;
use std::collections::VecDeque;

/// How many pending slots a registration looks at. Two, so that free ones are found faster than lanes come.
const LOOKS: usize = 2;

/// A slot for a new lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) index: u32,
    /// Whether no lane had it before.
    pub(crate) is_first: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Vacancies {
    /// Slots never used so far start here.
    next: u32,
    /// Drained; the latest is taken first.
    free: Vec<u32>,
    /// Work may still be under way; the oldest first.
    pending: VecDeque<u32>,
}

impl Vacancies {
    /// A lane ended; `vacancy` is what was seen of its slot.
    pub(crate) fn retire(&mut self, index: u32, vacancy: Vacancy) {
        match vacancy {
            Vacancy::Pending => self.pending.push_back(index),
            Vacancy::Free => self.free.push(index),
            Vacancy::UsedUp => {}
        }
    }

    /// A slot for a new lane, of `limit` in all; `None` if none is free. `vacancy` looks at a slot.
    pub(crate) fn take(&mut self, limit: u32, vacancy: impl Fn(u32) -> Vacancy) -> Option<Given> {
        if self.free.is_empty() {
            let looks = if self.next < limit {
                LOOKS.min(self.pending.len())
            } else {
                self.pending.len()
            };
            self.look(looks, vacancy);
        }
        if let Some(index) = self.free.pop() {
            let is_first = false;
            return Some(Given { index, is_first });
        }
        (self.next < limit).then(|| {
            let index = self.next;
            self.next += 1;
            let is_first = true;
            Given { index, is_first }
        })
    }

    fn look(&mut self, looks: usize, vacancy: impl Fn(u32) -> Vacancy) {
        for _ in 0..looks {
            if let Some(index) = self.pending.pop_front() {
                self.retire(index, vacancy(index));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_registration_looks_at_few_slots_however_many_are_pending() {
        let mut vacancies = Vacancies::default();
        let looks = Cell::new(0);
        let pending = |_| {
            looks.set(looks.get() + 1);
            Vacancy::Pending
        };
        for index in 0..100 {
            assert_eq!(vacancies.take(200, pending).map(|g| g.index), Some(index));
        }
        (0..100).for_each(|index| vacancies.retire(index, Vacancy::Pending));
        for _ in 0..100 {
            looks.set(0);
            assert!(vacancies.take(200, pending).is_some_and(|g| g.is_first));
            assert_eq!(looks.get(), LOOKS);
        }
        assert_eq!(vacancies.take(200, pending), None);
    }

    #[test]
    fn what_was_pending_is_found_once_it_drained() {
        let mut vacancies = Vacancies::default();
        for _ in 0..8 {
            assert!(vacancies.take(64, |_| Vacancy::Pending).is_some());
        }
        (0..8).for_each(|index| vacancies.retire(index, Vacancy::Pending));
        let mut given: Vec<_> = (0..8)
            .filter_map(|_| vacancies.take(64, |_| Vacancy::Free))
            .map(|given| (given.index, given.is_first))
            .collect();
        given.sort_unstable();
        assert_eq!(
            given,
            (0..8).map(|index| (index, false)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_used_up_slot_is_given_to_nobody() {
        let mut vacancies = Vacancies::default();
        assert!(vacancies.take(1, |_| Vacancy::Free).is_some());
        vacancies.retire(0, Vacancy::Pending);
        assert_eq!(vacancies.take(1, |_| Vacancy::UsedUp), None);
        assert_eq!(vacancies.take(1, |_| Vacancy::Free), None);
    }
}
