//! What can go wrong with lanes.

use thiserror::Error;

/// Why the timeline refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimelineError {
    /// Every lane slot is taken, by live lanes or by dropped ones whose work has not ended.
    #[error("all {limit} lanes are in use")]
    TooManyLanes {
        /// How many lanes there can be.
        limit: u32,
    },
}
