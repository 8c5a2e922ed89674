//! What the device pool makes of a recorded allocation history.
//!
//! A trace is played through a [`DevicePool`](piton_alloc::DevicePool) over a simulated device that keeps the books of
//! its memory and has none, so that a device of hundreds of GiB replays anywhere. Each stream of the trace is a lane;
//! every event is one piece of work on its stream, which completes [`lag`](ReplayOptions::lag) events later. A free
//! names what may still use the block: the work of its own stream so far, and the work so far of every stream that a
//! `u` event named.
//!
//! One pass observes: it samples memory and, if asked, verifies every hand-out with [`checker`]. Then a number of passes
//! are timed and observe nothing. What the pool holds is counted by the device, not by the pool.

pub mod checker;
mod costs;
mod curve;
mod description;
mod faults;
mod lagging;
mod lanes;
mod minimum;
mod peers;
mod picture;
pub mod planned;
mod player;
mod sampler;
pub mod summary;
pub mod survey;
mod tails;
mod verdict;

use std::path::Path;

use piton_alloc::{
    AllocError, ConfigError, CrossLane, FreeErrorKind, MemoryPoolConfig, SearchRule,
};
use piton_sim::SimError;
use piton_timeline::TimelineError;
use serde::Serialize;

use crate::report::AddressView;
use crate::trace::{TraceError, TraceReader};

use description::Description;

pub use checker::Violation;
pub use faults::{FailingCalls, FaultsMet, fail_each_call};
pub use lagging::Lagging;
pub use minimum::{CallsAt, Minimum};
pub use peers::Peers;
pub use player::Tally;
pub use summary::TraceResult;
pub use tails::Tails;

/// Where the pool's memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Pages mapped into one range of addresses.
    Virtual,
    /// Blocks as the device gives them.
    Blocks,
}

/// How to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Bytes of the device's memory, rounded up to whole pages of 2 MiB.
    pub capacity: u64,
    /// Events after which a piece of work is complete.
    pub lag: usize,
    /// Timed passes.
    pub repeat: usize,
    /// Verify every hand-out in the observing pass?
    pub is_checked: bool,
    /// Where the pool's memory lies.
    pub placement: Placement,
    /// Look for the smallest device that serves every request?
    pub finds_minimum: bool,
    /// Which of several pieces of memory a request gets.
    pub search: SearchRule,
    /// What the pool may do with memory that other streams may still use.
    pub cross_lane: CrossLane,
    /// Does the pool keep what it has once taken, for want of nothing? Pages are then taken from holes, and Blocks given back,
    /// only where the device has no more.
    pub keeps: bool,
    /// Calls to the driver that fail.
    pub failing: FailingCalls,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            capacity: 192 << 30,
            lag: 0,
            repeat: 3,
            is_checked: false,
            placement: Placement::Virtual,
            finds_minimum: false,
            search: MemoryPoolConfig::default().search,
            cross_lane: CrossLane::Wait,
            keeps: false,
            failing: FailingCalls::NONE,
        }
    }
}

impl ReplayOptions {
    /// Bytes of the device's memory, in whole pages.
    const fn device_bytes(&self) -> u64 {
        let pages = self.capacity.div_ceil(player::PAGE_BYTES);
        pages.saturating_mul(player::PAGE_BYTES)
    }
}

/// Why a replay did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace is wrong or cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no such device.
    #[error("the simulated device cannot be made")]
    Device(#[from] SimError),
    /// The driver would not open the device.
    #[error("the simulated device cannot be opened")]
    Open(#[from] piton_driver::DriverError),
    /// There is no such pool on that device.
    #[error("the pool cannot be made")]
    Pool(#[from] ConfigError),
    /// More streams than lanes.
    #[error("a stream of the trace has no lane")]
    Lanes(#[from] TimelineError),
    /// The pool failed otherwise than for want of memory.
    #[error("event {event}: the pool refused")]
    Allocate {
        /// The event, from 1.
        event: u64,
        /// Why.
        #[source]
        error: AllocError,
    },
    /// The pool would not take a block back.
    #[error("event {event}: the pool would not take a block back")]
    Free {
        /// The event, from 1.
        event: u64,
        /// Why.
        #[source]
        error: FreeErrorKind,
    },
    /// The pool handed out what it must not have.
    #[error("event {event}: {violation}")]
    Violation {
        /// The event, from 1.
        event: u64,
        /// What is wrong.
        #[source]
        violation: Violation,
    },
    /// The pool's own books do not balance at the end.
    #[error("the pool's books do not balance")]
    Books(#[from] piton_alloc::Inconsistency),
}

/// Plays a trace file to its end and returns the pool's snapshot then, with all events of the run (the last 1 048 576), as
/// a pickled memory snapshot of PyTorch's structure.
///
/// # Errors
/// As [`replay_file`].
pub fn snapshot_file(path: &Path, options: &ReplayOptions) -> Result<Vec<u8>, ReplayError> {
    let snapshot = player::play_to_snapshot(TraceReader::open(path)?, options)?;
    Ok(piton::memory_snapshot(&[snapshot]).to_pickle())
}

/// Plays a trace file and returns what the pool's addresses held over its events.
///
/// # Errors
/// As [`replay_file`].
pub fn picture_file(path: &Path, options: &ReplayOptions) -> Result<AddressView, ReplayError> {
    let events = TraceReader::read_all(path)?;
    picture::draw(summary::trace_name(path), &events, options)
}

/// Replays a trace file; `pass_done` is called after each pass.
///
/// # Errors
/// [`ReplayError`]: a bad trace by file and line, or a pool that did what it must not. Running out of memory is no
/// error but a number of the result.
pub fn replay_file(
    path: &Path,
    options: &ReplayOptions,
    mut pass_done: impl FnMut(),
) -> Result<TraceResult, ReplayError> {
    let observed = player::observe(TraceReader::open(path)?, options)?;
    pass_done();
    let mut nanoseconds = Vec::with_capacity(options.repeat);
    for _ in 0..options.repeat {
        nanoseconds.push(player::time(TraceReader::open(path)?, options)?);
        pass_done();
    }
    let minimum = if options.finds_minimum {
        minimum::find(TraceReader::open(path)?, options, &observed)?
    } else {
        None
    };
    let peers = peers::measure(TraceReader::open(path)?, &Description::beside(path))?;
    Ok(TraceResult::new(
        path,
        observed,
        &nanoseconds,
        minimum,
        peers,
    ))
}
