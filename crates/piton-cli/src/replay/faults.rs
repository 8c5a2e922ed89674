//! Calls to the driver that fail, each in turn: what that costs a program.
//!
//! The trace is played once to count the calls that the pool makes when none fails, and then once for each of them. A pool that is
//! right refuses at most the request that made the call, says why, and serves all others; its books balance after the failure
//! and at the end, and after every event where that is asked for. In shared plays (below) they are looked at after some of the failures.
//!
//! Where that takes too long, plays are shared: in each of a few a call fails and each so-many-th one after it, so every call
//! fails in one of them. What failed before it changes what a later call is for; that a failure costs one request at
//! most holds all the same.

use std::path::Path;

use serde::Serialize;

use super::player::{Player, Tally};
use super::{ReplayError, ReplayOptions};
use crate::trace::{CheckedEvent, TraceReader};

/// Failures of a play after the first up to the one after which its books are looked at again: a look costs as much as hundreds of
/// events.
const BETWEEN_LOOKS: u64 = 16;

/// Calls to the driver that fail in one play. Numbers are from 1 for the first after the pool was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailingCalls {
    /// The first one.
    pub first: u64,
    /// No one after this fails.
    pub last: u64,
    /// From one to the next.
    pub apart: u64,
}

impl FailingCalls {
    /// None fails.
    pub const NONE: Self = Self {
        first: 1,
        last: 0,
        apart: 1,
    };

    pub(super) fn numbers(self) -> impl Iterator<Item = u64> {
        let apart = usize::try_from(self.apart.max(1)).unwrap_or(usize::MAX);
        (self.first..=self.last).step_by(apart)
    }
}

/// What came of the failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FaultsMet {
    /// Calls that failed, over all plays.
    pub calls: u64,
    /// Plays of the trace.
    pub plays: u64,
    /// Plays in which nobody noticed: the pool had another way.
    pub unnoticed: u64,
    /// Most requests that were refused in one play for each call that failed there, for the failure or for want of memory;
    /// rounded up.
    pub most_refused: u64,
}

/// Plays a trace file so often that each call to the driver fails once: each in a play of its own, or, if there are more than
/// `most_plays`, in so many plays. With `options.is_checked` the pool's books are looked at after each event.
///
/// # Errors
/// [`ReplayError`]: a bad trace, or a pool whose books do not balance.
pub fn fail_each_call(
    path: &Path,
    options: &ReplayOptions,
    most_plays: u64,
) -> Result<FaultsMet, ReplayError> {
    let events = TraceReader::read_all(path)?;
    let mut whole = Player::new(options)?;
    for event in &events {
        whole.play(*event)?;
    }
    let last = whole.calls_made();
    let plays = last.min(most_plays.max(1));
    let mut met = FaultsMet::default();
    for first in 1..=plays {
        let failing = FailingCalls {
            first,
            last,
            apart: plays,
        };
        let (tally, failed) = play(
            &events,
            &ReplayOptions {
                failing,
                ..*options
            },
        )?;
        let refused = tally.faulted + tally.out_of_memory;
        met.calls += failed;
        met.plays += 1;
        met.unnoticed += u64::from(refused == 0);
        met.most_refused = met.most_refused.max(refused.div_ceil(failed.max(1)));
    }
    Ok(met)
}

/// One play, and how many calls failed.
fn play(events: &[CheckedEvent], options: &ReplayOptions) -> Result<(Tally, u64), ReplayError> {
    let mut player = Player::new(options)?;
    let mut next_look = 1;
    for event in events {
        player.play(*event)?;
        let failed = player.faults_met();
        if failed >= next_look || options.is_checked {
            player.check()?;
            next_look = failed + BETWEEN_LOOKS;
        }
    }
    player.check()?;
    let failed = player.faults_met();
    Ok((player.finish(), failed))
}
