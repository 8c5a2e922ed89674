//! One call to the driver fails, each in turn: what that costs a program.
//!
//! The trace is played once for each call that the pool makes when none fails, and once more at the end when there is no such
//! call any longer. A pool that is right refuses at most the request that made the call, says why, and serves all others; its
//! books balance after the failure and at the end, and after every event where that is asked for.

use std::path::Path;

use serde::Serialize;

use super::player::{Player, Tally};
use super::{ReplayError, ReplayOptions};
use crate::trace::{CheckedEvent, TraceReader};

/// What came of the failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FaultsMet {
    /// Calls that failed, one in each play of the trace.
    pub calls: u64,
    /// Plays in which nobody noticed: the pool had another way.
    pub unnoticed: u64,
    /// Most requests that were refused in one play, for the failure or for want of memory.
    pub most_refused: u64,
}

/// Plays a trace file once for every `stride`-th call to the driver, which fails. With `options.is_checked` the pool's books are looked at
/// after each event.
///
/// # Errors
/// [`ReplayError`]: a bad trace, or a pool whose books do not balance.
pub fn fail_each_call(
    path: &Path,
    options: &ReplayOptions,
    stride: u64,
) -> Result<FaultsMet, ReplayError> {
    let events = TraceReader::read_all(path)?;
    let mut met = FaultsMet::default();
    for failing_call in (1..).step_by(usize::try_from(stride.max(1)).unwrap_or(usize::MAX)) {
        let at = ReplayOptions {
            failing_call,
            ..*options
        };
        let Some(tally) = play(&events, &at)? else {
            break;
        };
        let refused = tally.faulted + tally.out_of_memory;
        met.calls += 1;
        met.unnoticed += u64::from(refused == 0);
        met.most_refused = met.most_refused.max(refused);
    }
    Ok(met)
}

/// One play; nothing if the call was never made.
fn play(events: &[CheckedEvent], options: &ReplayOptions) -> Result<Option<Tally>, ReplayError> {
    let mut player = Player::new(options)?;
    let mut has_faulted = false;
    for event in events {
        player.play(*event)?;
        let faults_now = !has_faulted && player.has_faulted();
        has_faulted |= faults_now;
        if faults_now || options.is_checked {
            player.check()?;
        }
    }
    player.check()?;
    Ok(has_faulted.then(|| player.finish()))
}
