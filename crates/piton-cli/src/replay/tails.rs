//! How long single operations of the pool take, the slowest among them, and what they did.
//!
//! By the wall clock, one operation at a time: what the machine does besides is in it, and a look at the clock too, some
//! twenty to fifty nanoseconds. The simulated device's own time is in calls to it, which tell nothing of a real driver's.

use std::time::Instant;

use serde::Serialize;

use super::player::Player;
use super::{ReplayError, ReplayOptions};
use crate::trace::{CheckedEvent, TraceEvent};

/// Nanoseconds from which on the pool's counters are looked at: below, nothing slow can have been done.
const SLOW: u64 = 300;

/// Nanoseconds of single operations, and how many of the slowest thousandth did what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tails {
    /// Of a hundred operations, 99 take no longer.
    pub p99: u64,
    /// Of a thousand, 999.
    pub p999: u64,
    /// The slowest.
    pub worst: u64,
    /// Slower than `p999`, and called the driver.
    pub called_driver: u64,
    /// Slower than `p999`, and looked for memory that other streams had, without the driver.
    pub recovered: u64,
    /// Slower than `p999` for no reason of the pool's: page faults, interrupts, another program on the core.
    pub machine: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Driver,
    Recovery,
    Machine,
}

/// Plays a trace once, each operation timed by itself.
pub(super) fn measure(
    events: &[CheckedEvent],
    options: &ReplayOptions,
) -> Result<Tails, ReplayError> {
    let mut player = Player::new(options)?;
    let mut steps = Vec::with_capacity(events.len());
    let mut before = player.pool_stats();
    for event in events {
        let started = Instant::now();
        player.play(*event)?;
        let spent = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if matches!(event.event, TraceEvent::Use { .. }) {
            continue;
        }
        let mut cause = Cause::Machine;
        if spent > SLOW {
            let now = player.pool_stats();
            if now.source_calls() != before.source_calls() {
                cause = Cause::Driver;
            } else if now.misses != before.misses {
                cause = Cause::Recovery;
            }
            before = now;
        }
        steps.push((spent, cause));
    }
    Ok(tails(steps))
}

fn tails(mut steps: Vec<(u64, Cause)>) -> Tails {
    steps.sort_unstable();
    let last = steps.len().saturating_sub(1);
    let at = |thousandths: usize| {
        steps
            .get(last * thousandths / 1000)
            .map_or(0, |step| step.0)
    };
    let p999 = at(999);
    let slowest = steps.partition_point(|(spent, _)| *spent <= p999);
    let count = |cause| {
        let slow = steps[slowest..].iter();
        slow.filter(|(_, of)| *of == cause).count() as u64
    };
    Tails {
        p99: at(990),
        p999,
        worst: at(1000),
        called_driver: count(Cause::Driver),
        recovered: count(Cause::Recovery),
        machine: count(Cause::Machine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_counted_by_what_they_did() {
        let mut steps: Vec<_> = (0..2000).map(|spent| (spent, Cause::Machine)).collect();
        steps[1999].1 = Cause::Driver;
        steps.rotate_left(77);
        let tails = tails(steps);
        assert_eq!((tails.p99, tails.p999, tails.worst), (1979, 1997, 1999));
        assert_eq!((tails.called_driver, tails.machine), (1, 1));
    }

    #[test]
    fn of_nothing_there_is_no_tail() {
        assert_eq!(tails(Vec::new()), Tails::default());
    }
}
