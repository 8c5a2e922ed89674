//! Timepoints, frontiers, the counters of lanes and the happens-before clock.
//!
//! # The problem
//! "Is it done?", "is it ordered before me?", "may I reuse this block?", "may I unmap this page?" are asked of
//! every block and every event, thousands of times a millisecond. Event objects answer them with allocations
//! and driver calls.
//!
//! # The idea
//! A *lane* is one in-order sequence of work: a stream. It has two numbers that only grow: how much was
//! submitted and how much is done. A [`Timepoint`] is a place on a lane. A [`Frontier`] is a few timepoints, at most one on each
//! lane. Every question above becomes a comparison of integers.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | number the lanes of a program | [`Timeline::register`] |
//! | count submissions and completions | [`Lane`] |
//! | name a place in the order of work | [`Timepoint`] |
//! | remember the last uses of a block | [`Frontier`] |
//! | know whether a lane must wait for a place | [`Timeline::wait_need`] |
//! | know whether a block may be taken | [`Timeline::reuse`] |
//! | ask again and again how far a lane's slot has come | [`Timeline::watch`] |
//!
//! # Guarantees
//! - A timepoint that is complete stays complete for ever. So is one of a lane that has ended, and it never names work of
//!   the lane that took over its slot: numbers go on growing where the old lane stopped.
//! - [`Timeline::is_complete`] returning true happens after everything that preceded the completion.
//! - The clock, which says what is ordered before what, never claims an order that is not there; it may miss one that is.
//!
//! # Not here
//! Devices, waiting, waking: a lane's completions come from a [`Progress`] or from whoever calls
//! [`Lane::complete`]. This crate knows only integers.

#![forbid(unsafe_code)]

mod clock;
mod error;
mod facts;
mod frontier;
mod lane;
mod place;
mod reuse;
mod slot;
mod timeline;
mod timepoint;
mod vacancies;
mod watch;

pub use error::TimelineError;
pub use frontier::Frontier;
pub use lane::Lane;
pub use reuse::{Reuse, WaitNeed};
pub use slot::Progress;
pub use timeline::Timeline;
pub use timepoint::{LaneId, Timepoint};
pub use watch::Watch;
