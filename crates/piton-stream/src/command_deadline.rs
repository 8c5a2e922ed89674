//! How long single commands may take, said after they were submitted.
//!
//! # The idea
//! A deadline is nobody's business but the watchdog's, who looks now and then. So it is not part of a command: it is
//! noted beside the lane, by the place where the command ends, by whoever wants one, and a submission pays nothing for
//! what others might want. Who says it late says it late: a command that has ended has no deadline.
//!
//! # Protocol
//! The list is behind a leaf lock. Deadlines of commands that have ended go when the next is noted, so there are never
//! more than the lane had commands under way.

use crate::{Event, Offence, StreamError};
use piton_driver::Position;
use piton_sync::Mutex;
use std::{collections::BTreeMap, panic::Location, time::Duration};

/// The deadlines of a lane's commands.
#[derive(Debug, Default)]
pub(crate) struct CommandDeadlines {
    by_position: Mutex<BTreeMap<Position, Duration>>,
}

impl CommandDeadlines {
    /// Notes a deadline; `completed` has ended.
    fn set(&self, position: Position, deadline: Duration, completed: Position) {
        let mut known = self.by_position.lock();
        known.retain(|position, _| *position > completed);
        if position > completed {
            known.insert(position, deadline);
        }
    }

    /// The deadline of the command there, if it has one.
    pub(crate) fn of(&self, position: Position) -> Option<Duration> {
        self.by_position.lock().get(&position).copied()
    }
}

impl Event {
    /// How long the command just before this place, the last that was submitted when the event was recorded, may take before a
    /// [`Watchdog`](crate::Watchdog) tells: instead of what [its stream](crate::StreamOptions::command_deadline) or the
    /// watchdog says. Said again it is another. Does not block; where that command has ended nothing happens.
    ///
    /// # Errors
    /// [`Capture`](StreamError::Capture) if the event was recorded in a capture; [`Forked`](StreamError::Forked).
    #[track_caller]
    pub fn set_command_deadline(&self, deadline: Duration) -> Result<(), StreamError> {
        self.not_captured(Offence::CommandDeadline, Location::caller())?;
        let (state, point) = (self.state(), self.timepoint());
        state.not_forked()?;
        let completed = state.link().refresh();
        // A time is written by a command of its own, behind the one that is meant.
        let before = u64::from(self.is_timed());
        let position = Position::new(state.position(point).get().saturating_sub(before));
        state.deadlines.set(position, deadline, completed);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn deadlines_of_what_has_ended_are_forgotten() {
        let deadlines = CommandDeadlines::default();
        let (second, at) = (Duration::from_secs(1), Position::new);
        for position in 1..=100 {
            deadlines.set(at(position), second, at(position.saturating_sub(3)));
        }
        assert_eq!(deadlines.by_position.lock().len(), 3);
        assert_eq!(deadlines.of(at(97)), None);
        deadlines.set(at(98), second * 2, at(97));
        assert_eq!(deadlines.of(at(98)), Some(second * 2));
        deadlines.set(at(5), second, at(97));
        assert_eq!(deadlines.of(at(5)), None);
    }
}
