//! Where in the program each command was submitted, for as long as the command may fail.
//!
//! # Invariants
//! - Every command that has not ended is remembered, and so is the one that failed, up to [`MOST`] of them.
//! - Records are dropped only for commands that ended well, or from the oldest on past [`MOST`].
//!
//! The books are trimmed when they are full, so a steady stream neither allocates nor asks its queue anything
//! but once in a while.

use piton_driver::{Operation, Position};
use std::{collections::VecDeque, panic::Location};

/// Records kept before trimming is tried.
const FIRST: usize = 64;
/// Most records kept.
pub(crate) const MOST: usize = 1 << 16;

/// One submitted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) position: Position,
    pub(crate) operation: Operation,
    pub(crate) location: &'static Location<'static>,
}

/// The places of a stream's commands, about in order: two threads that submit at once may note in turn.
#[derive(Debug)]
pub(crate) struct Places {
    places: VecDeque<Place>,
    /// Trimming is tried when there are so many.
    limit: usize,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self {
            places: VecDeque::new(),
            limit: FIRST,
        }
    }

    /// Whether it is time to [`trim`](Self::trim).
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= self.limit
    }

    /// Remembers a command.
    pub(crate) fn note(&mut self, place: Place) {
        if self.places.len() >= MOST {
            self.places.drain(..MOST / 2);
        }
        self.places.push_back(place);
    }

    /// Forgets the commands up to `settled`, which have ended well or whose failure is described already.
    pub(crate) fn trim(&mut self, settled: Position) {
        self.places.retain(|place| place.position > settled);
        // Half empty at least, or trimming would come again at once.
        self.limit = (self.places.len() * 2).clamp(FIRST, MOST);
    }

    /// Where and what the command at `position` was.
    pub(crate) fn find(&self, position: Position) -> Option<Place> {
        let found = self.places.iter().find(|place| place.position == position);
        found.copied()
    }

    /// Forgets everything but the command at `position`, and gives the memory back.
    pub(crate) fn keep_only(&mut self, position: Option<Position>) {
        let kept = position.and_then(|position| self.find(position));
        self.places = kept.into_iter().collect();
        self.limit = FIRST;
    }

    /// Asserts the invariants that hold between calls.
    pub(crate) fn check(&self) {
        assert!(self.places.len() <= MOST, "more places than allowed");
        assert!(
            (FIRST..=MOST).contains(&self.limit),
            "the limit left its bounds"
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[track_caller]
    fn place(position: u64) -> Place {
        Place {
            position: Position::new(position),
            operation: Operation::Fill,
            location: Location::caller(),
        }
    }

    fn note(places: &mut Places, position: u64, settled: u64) {
        if places.is_full() {
            places.trim(Position::new(settled));
        }
        places.note(place(position));
        places.check();
    }

    #[test]
    fn commands_that_have_not_ended_are_remembered() {
        let mut places = Places::new();
        for position in 1..=1000 {
            note(&mut places, position, 7);
        }
        assert_eq!(places.find(Position::new(7)), None);
        for position in 8..=1000 {
            assert!(places.find(Position::new(position)).is_some());
        }
    }

    #[test]
    fn a_steady_stream_stays_small() {
        let mut places = Places::new();
        for position in 1..=100_000 {
            note(&mut places, position, position.saturating_sub(10));
        }
        assert!(places.places.len() <= FIRST);
    }

    #[test]
    fn the_oldest_go_when_nothing_ever_ends() {
        let mut places = Places::new();
        let last = MOST as u64 * 2;
        for position in 1..=last {
            note(&mut places, position, 0);
        }
        assert!(places.find(Position::new(last)).is_some());
        assert_eq!(places.find(Position::new(1)), None);
    }

    #[test]
    fn only_the_failed_command_outlives_its_stream() {
        let mut places = Places::new();
        for position in 1..=9 {
            places.note(place(position));
        }
        places.keep_only(Some(Position::new(4)));
        assert!(places.find(Position::new(4)).is_some());
        assert_eq!(places.places.len(), 1);
        places.keep_only(None);
        assert_eq!(places.places.len(), 0);
    }
}
