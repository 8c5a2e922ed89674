//! Carries copies between devices out, along the routes the topology chooses.
//!
//! # The problem
//! Two devices may reach each other over a link of their own, through switches, through the host's bridges, or
//! not at all. Links fail, hang, and are granted by drivers that then lose what is written over them. Who wants bytes
//! moved should not have to know.
//!
//! # The idea
//! A copy is carried over one *way* or over several at once; a way is a chain of *legs*, each from one memory to the
//! next: straight to the other device, over another device's memory, or over page-locked host memory, in chunks
//! where there are several legs. A copy that must not fail with its way is *guarded*: its parts run on streams of the engine's own,
//! and the program's stream waits at a *gate* that opens when every byte has arrived. When all lanes of a round have
//! ended, the last one to end settles it: what has not arrived goes on over another way. So a copy is in stream
//! order, holds no host thread, and is never seen in part.
//!
//! | I want to … | take |
//! |---|---|
//! | copy between two devices | [`Transfers::copy`] |
//! | choose how | [`Roads`], [`TransferConfig`] |
//! | give a copy more of what it shares with others | [`Transfers::copy_weighing`], [`CopyWeight`] |
//! | know which ways were taken | [`Transfers::routes`], [`RouteUse`] |
//! | know what went wrong on the way | [`Transfers::incidents`], [`Incident`] |
//! | end copies that hang | [`TransferConfig::oversees`], [`Transfers::check`] |
//!
//! # Guarantees
//! - What was submitted, or will be, is covered by [`Carried::submitted`], so that no memory is given up too early.
//! - Nothing goes over a device in error, nor over a leg between devices that has not been tried with a pattern.
//! - A leg that failed is given up for every copy, both ways, and that is said once with the names of its links.
//! - A copy over several ways that takes long is planned anew on its way, as links become free and are taken.
//! - Memory on the way is at most [`STAGING_CHUNKS`] chunks a leg, of [`LEAST_CHUNK_BYTES`] or what takes 14 microseconds, up
//!   to 8 MiB, or more where lanes would not hold so many chunks.
//! - No submission of the engine's waits for room in a queue: a round is no more than its lanes hold. Devices whose queues hold
//!   fewer than eight commands copy as those do that have no host functions: one way at a time, nothing guarded.
//!
//! - No wrong byte is seen where [everything is compared](Compared::Everything). By default links that were tried are trusted.
//! - What a copy on a more urgent stream can use, one on a less urgent stream does not get; but one that has waited for long
//!   becomes more urgent. Copies on streams of one priority share links by their [weights](CopyWeight).
//!
//! # Not here
//! Checksums: what is compared is read back, since no two kinds of device have the same kernels.

mod book;
mod carrier;
mod chunks;
mod companion;
mod config;
mod end;
mod engine;
mod error;
mod gate;
mod incident;
mod job;
mod lane;
mod now;
mod overseer;
mod part;
mod plans;
mod probe;
mod relay_memory;
mod round;
mod route_use;
mod sample;
mod staged;
mod transfers;
mod way;
mod weight;

pub use chunks::LEAST_CHUNK_BYTES;
pub use config::{Compared, Roads, TransferConfig};
pub use end::TransferDevice;
pub use error::TransferError;
pub use incident::{Incident, KEPT_INCIDENTS, NamedLink, Reason};
pub use part::STAGING_CHUNKS;
pub use piton_topology::Router;
pub use route_use::RouteUse;
pub use transfers::{Carried, Transfers};
pub use way::Leg;
pub use weight::CopyWeight;
