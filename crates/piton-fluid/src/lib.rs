//! A simulator of copies that share links, in deterministic virtual time.
//!
//! ```
//! use piton_fluid::{FlowSpec, Fluid, ResourceId, Use, fair_rates};
//!
//! // A link of 12 GB/s, and one of 4 GB/s behind it.
//! let capacities = [12_000_000_000, 4_000_000_000];
//! let near = FlowSpec::new([Use::whole(ResourceId(0))], 1 << 30);
//! let far = FlowSpec::new([Use::whole(ResourceId(0)), Use::whole(ResourceId(1))], 1 << 30);
//! // The far copy is limited by the second link; the near one gets the rest of the first.
//! assert_eq!(fair_rates(&capacities, &[near.clone(), far.clone()]), [8_000_000_000, 4_000_000_000]);
//!
//! // The same two as copies that end.
//! let mut fluid = Fluid::new(capacities.to_vec());
//! let (near, far) = (fluid.start(near)?, fluid.start(far)?);
//! let first = fluid.next_ended()?.expect("two copies are under way");
//! assert_eq!((first.flow, first.at), (near, 134_217_728)); // nanoseconds: 1 GiB at 8 GB/s
//! let second = fluid.next_ended()?.expect("one copy is left");
//! assert_eq!((second.flow, second.at), (far, 268_435_456));
//! # Ok::<(), piton_fluid::FluidError>(())
//! ```
//!
//! # Problem
//! How long a copy takes depends on what else is under way. On real machines that is measured. To choose routes, to
//! test a planner, or to say what a machine could do, it must be computed, with the same result each time.
//!
//! # Idea
//! A copy is a *flow*: a fluid that runs through *resources* (a direction of a link, a copy engine) at one rate in
//! bytes per second. At any moment the rates are max-min fair: no flow can have more without taking from one that has
//! no more than it. Classes come first: a lower class gets what the higher ones leave, and rises if it waits too long
//! and ageing is on.
//!
//! Rates change only when a flow begins or ends, or a resource changes. So time jumps from one such moment to the
//! next. All numbers are integers, ties are broken by id, and there is no clock: the same calls give the same answers
//! everywhere.
//!
//! # Guarantees
//! - What flows is what was given: no byte is lost to rounding. A flow ends at the first nanosecond by which all of it
//!   has passed.
//! - No resource carries more than its capacity. [`Fluid::check`] verifies both.
//!
//! | I want to … | take |
//! |---|---|
//! | know the rates of flows that run forever | [`fair_rates`] |
//! | run flows that begin and end, and break resources meanwhile | [`Fluid`] |
//! | turn a machine's links into resources | [`Network`] |
//! | know what a pattern of copies reaches | [`Pattern`], [`Summary`] |
//! | know how patterns grow with the number of devices | [`scaling`], [`Scaled`] |
//! | send chunks through stages with few buffers between | [`Pipeline`] |
//!
//! # Not here
//! Which routes to take (that is [`piton_topology`]'s), real devices, and real time.

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
