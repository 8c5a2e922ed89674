//! What a pool holds when the host runs ahead of its device, and what that costs.
//!
//! The host sees what a stream has done so many events late, so nothing can be handed to another stream without a wait, nor
//! unmapped, any sooner. Held beside it is what the same placement holds when everything is seen at once and no page is
//! taken from a hole before the device is full: a pool that does not have to do with late news and does nothing about holes.
//! With Blocks, which have no pages to take, it is the pool as it is.

use piton_alloc::CrossLane;
use serde::Serialize;

use super::player::play_all;
use super::{Placement, ReplayError, ReplayOptions};
use crate::trace::CheckedEvent;

/// Events that completions are seen late where nothing else is said.
pub(super) const LATE: usize = 10_000;

/// What is held while completions are seen late. Sizes are bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Lagging {
    /// Events that completions are seen late.
    pub lag: usize,
    /// Most bytes live at once.
    pub peak_live: u64,
    /// Most that the device had given away.
    pub held: u64,
    /// Allocations handed out with a wait.
    pub waits: u64,
    /// Calls for device memory.
    pub driver_calls: u64,
    /// The same where all is seen at once and nothing is taken from holes.
    pub held_at_once: u64,
    /// The same, late, where the pool may let nobody wait.
    pub held_without_waits: u64,
    /// Requests refused there, for want of memory.
    pub refused_without_waits: u64,
}

impl Lagging {
    /// Held late over held at once.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of three digits")]
    pub(super) fn ratio(&self) -> f64 {
        self.held as f64 / self.held_at_once.max(1) as f64
    }
}

/// Plays a trace late and at once; nothing for a trace of one stream, whose memory nobody else wants.
pub(super) fn measure(
    events: &[CheckedEvent],
    options: &ReplayOptions,
) -> Result<Option<Lagging>, ReplayError> {
    if events.iter().all(|event| event.event.stream() == 0) {
        return Ok(None);
    }
    let play = |lag: usize, cross_lane: CrossLane, keeps: bool| {
        let at = ReplayOptions {
            lag,
            cross_lane,
            keeps,
            ..*options
        };
        play_all(events, &at, false)
    };
    let late = play(LATE, CrossLane::Wait, false)?;
    let at_once = play(0, CrossLane::Wait, options.placement == Placement::Virtual)?;
    let without_waits = play(LATE, CrossLane::Never, false)?;
    Ok(Some(Lagging {
        lag: LATE,
        peak_live: late.pool.peak_live_bytes,
        held: late.peak_held,
        waits: late.pool.waits,
        driver_calls: late.driver_calls,
        held_at_once: at_once.peak_held,
        held_without_waits: without_waits.peak_held,
        refused_without_waits: without_waits.out_of_memory,
    }))
}
