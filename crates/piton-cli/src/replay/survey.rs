//! All that is told of the pool on a set of traces, in one go: both placements, near and far from the smallest device, with
//! a host that runs ahead, served from plans, and in time.
//!
//! One default configuration for all of it. What is not here is in the benches, since it needs other allocators or more
//! threads: the one-owner pool, two threads on two streams, peers' times.

mod table;

use std::path::Path;

use serde::Serialize;

use super::lagging::{self, Lagging};
use super::planned::{self, PlannedError, PlannedTrace};
use super::tails::{self, Tails};
use super::{Placement, ReplayError, ReplayOptions, TraceResult, replay_file};
use crate::trace::{CheckedEvent, TraceReader};

pub use table::table;

/// Both ways to place memory, in the order of the tables.
pub(super) const PLACEMENTS: [Placement; 2] = [Placement::Virtual, Placement::Blocks];

/// Why a trace was not surveyed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurveyError {
    /// It could not be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// It could not be planned.
    #[error(transparent)]
    Plan(#[from] PlannedError),
}

/// Everything about one trace.
#[derive(Debug, Clone, Serialize)]
pub struct Surveyed {
    /// With pages mapped where they are needed, and with Blocks.
    pub placements: [OnPlacement; 2],
    /// From plans.
    pub planned: PlannedTrace,
}

/// What one placement makes of a trace.
#[derive(Debug, Clone, Serialize)]
pub struct OnPlacement {
    /// Where memory lies.
    pub placement: Placement,
    /// With plenty of memory, and on the smallest device.
    pub result: TraceResult,
    /// When the host runs ahead; nothing for a trace of one stream.
    pub lagging: Option<Lagging>,
    /// How long the slowest operations take.
    pub tails: Tails,
}

/// Replays and plans a trace file in all ways. `options` say the memory of the device, and the timed passes.
///
/// # Errors
/// [`SurveyError`].
pub fn survey_file(
    path: &Path,
    options: &ReplayOptions,
    mut part_done: impl FnMut(),
) -> Result<Surveyed, SurveyError> {
    let events = TraceReader::read_all(path).map_err(ReplayError::from)?;
    let mut on = |placement| {
        let surveyed = on_placement((path, &events), placement, options);
        part_done();
        surveyed
    };
    let placements = [on(Placement::Virtual)?, on(Placement::Blocks)?];
    let planned = planned::plan_file(path)?;
    part_done();
    Ok(Surveyed {
        placements,
        planned,
    })
}

fn on_placement(
    (path, events): (&Path, &[CheckedEvent]),
    placement: Placement,
    options: &ReplayOptions,
) -> Result<OnPlacement, ReplayError> {
    let options = on(placement, options);
    Ok(OnPlacement {
        placement,
        result: replay_file(path, &options, || ())?,
        lagging: lagging::measure(events, &options)?,
        tails: tails::measure(events, &options)?,
    })
}

/// The options of all rows of a placement.
fn on(placement: Placement, options: &ReplayOptions) -> ReplayOptions {
    ReplayOptions {
        placement,
        finds_minimum: true,
        ..*options
    }
}

/// Parts of the work on one trace.
pub const PARTS: u64 = 3;
