//! Copies that share links, in deterministic virtual time.
//!
//! # The problem
//! How long a copy takes depends on what else is under way. On real machines that is measured; to choose
//! routes, to test a planner, to say what a machine could do, it must be computed, and the same way each time.
//!
//! # The idea
//! A copy is a *flow*: a fluid that runs through *resources* (a direction of a link, a copy engine) at one
//! rate. At any moment the rates are max-min fair: no flow can have more without taking from one that has no
//! more than it. Classes come first: a lower class gets what the higher ones leave, and rises if it waits too long and ageing is on. Rates change only when a
//! flow begins or ends or a resource changes, so time jumps from one such moment to the next. All numbers
//! are integers, ties go by id, and there is no clock: the same calls give the same answers everywhere.
//!
//! | I want to … | take |
//! |---|---|
//! | know the rates of flows that run for ever | [`fair_rates`] |
//! | run flows that begin and end, and break resources meanwhile | [`Fluid`] |
//! | turn a machine's links into resources | [`Network`] |
//! | know what a pattern of copies reaches | [`Pattern`], [`Summary`] |
//! | know how far patterns grow with the devices | [`scaling`], [`Scaled`] |
//! | send chunks through stages with few buffers between | [`Pipeline`] |
//!
//! # Guarantees
//! What flows is what was given: no byte is lost to rounding, a flow ends at the first nanosecond by which all of
//! it has passed. No resource carries more than its capacity. [`Fluid::check`] walks both.
//!
//! # Not here
//! Which routes to take: that is [`piton_topology`]'s. Real devices and real time.

#![forbid(unsafe_code)]

mod error;
mod fairness;
mod flow;
mod fluid;
mod network;
mod pattern;
mod pipeline;
mod scaling;

pub use error::FluidError;
pub use fairness::fair_rates;
pub use flow::{Class, FlowId, FlowSpec, ResourceId, Use, WHOLE};
pub use fluid::{Ended, Fluid};
pub use network::{Engines, Network};
pub use pattern::{Pattern, Summary};
pub use pipeline::Pipeline;
pub use scaling::{Policy, Scaled, scaling};
