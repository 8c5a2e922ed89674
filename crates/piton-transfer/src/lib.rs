//! Carries copies between devices out, along the routes the topology chooses.
//!
//! # The problem
//! Two devices may reach each other over a link of their own, through switches, through the host's bridges, or
//! not at all. Who wants bytes moved should not have to know.
//!
//! # The idea
//! [`Transfers`] knows the devices of a runtime and a [`Router`] over the machine they sit
//! in. A copy asks the router for the way that takes least time for its size. Where the way needs peer access, one
//! command on the caller's stream does it. Where the devices cannot reach each other, the copy is *staged*: in
//! chunks through page-locked host memory, the two halves overlapping on two streams of the engine's own, tied
//! to the caller's stream at both ends. Either way the copy is in stream order and holds no host thread.
//!
//! | I want to … | take |
//! |---|---|
//! | copy between two devices | [`Transfers::copy`] |
//! | know which ways were taken | [`Transfers::routes`], [`RouteUse`] |
//!
//! # Guarantees
//! - What was submitted is reported even where a copy fails half way ([`Carried::submitted`]), so that no memory
//!   is given up too early.
//! - Staging uses at most [`STAGING_CHUNKS`] chunks of host memory a copy, and each goes back to its pool behind
//!   its last use.
//!
//! # Not here
//! Striping one copy over several ways, re-planning as copies come and go, falling back when a way fails: the
//! router offers the candidates; the engine takes the best one.

mod error;
mod route_use;
mod staging;
mod transfers;

pub use error::TransferError;
pub use piton_topology::Router;
pub use route_use::RouteUse;
pub use staging::{STAGING_CHUNK_BYTES, STAGING_CHUNKS};
pub use transfers::{Carried, TransferDevice, Transfers};
