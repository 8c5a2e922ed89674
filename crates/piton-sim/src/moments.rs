//! When a counter got to its numbers, in virtual time: the latest of them.

use std::collections::VecDeque;

/// Numbers that are remembered. Who asks for an older one waited long for nothing, and an answer that is late costs it
/// nothing either.
const REMEMBERED: usize = 4096;

/// Numbers and the times the counter got to them, in order of both.
#[derive(Debug, Default)]
pub(crate) struct Moments(VecDeque<(u64, u64)>);

impl Moments {
    /// The counter got to `number`, which is more than before, at `time`, which is no less.
    pub(crate) fn note(&mut self, number: u64, time: u64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((number, time));
    }

    /// When the counter got to `number` or past it; of what is forgotten, the earliest time that is not. `None` where it has
    /// not got there.
    pub(crate) fn of(&self, number: u64) -> Option<u64> {
        let at = self.0.partition_point(|(reached, _)| *reached < number);
        self.0.get(at).map(|(_, time)| *time)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_number_is_when_it_was_passed() {
        let mut moments = Moments::default();
        assert_eq!(moments.of(0), None);
        moments.note(3, 10);
        moments.note(5, 20);
        let times = [0, 3, 4, 5, 6].map(|number| moments.of(number));
        assert_eq!(times, [Some(10), Some(10), Some(20), Some(20), None]);
    }

    #[test]
    fn the_oldest_are_forgotten_and_answered_late() {
        let mut moments = Moments::default();
        let last = 2 * REMEMBERED as u64;
        (1..=last).for_each(|number| moments.note(number, 10 * number));
        assert_eq!(moments.0.len(), REMEMBERED);
        let oldest = last - REMEMBERED as u64 + 1;
        assert_eq!(moments.of(1), Some(10 * oldest));
        assert_eq!(moments.of(last), Some(10 * last));
    }
}
