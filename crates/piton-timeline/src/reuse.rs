//! The answers to "must I wait?" and "may I take it?".

use crate::{Frontier, Timepoint};

/// What a lane must do before work that depends on a timepoint.
#[must_use = "a wait that is needed and not made is a race"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitNeed {
    /// Nothing: it is done.
    Done,
    /// Nothing: the lane is already ordered after it, through a wait it made or one that another lane made.
    Ordered,
    /// Wait for it.
    Wait(Timepoint),
}

/// Whether memory whose last uses are a frontier may be used again.
#[must_use = "memory taken in spite of the answer is used by two"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// At once: every use is done or ordered before the taker.
    Now,
    /// By the taker's lane, once it has waited for these points.
    AfterWait(Frontier),
    /// Not now, and there is no lane that could wait.
    No,
}
