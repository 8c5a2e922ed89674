//! Carries copies between devices out, along the routes that the topology chooses.
//!
//! ```
//! use piton_driver::PeerAddress;
//! use piton_stream::{Stream, Streams};
//! use piton_topology::{Machine, PeerAccess};
//! use piton_transfer::{Roads, TransferConfig, TransferDevice, TransferError, Transfers};
//!
//! /// Copies 64 MiB in the order of `stream` and waits for nothing.
//! fn copy_64_mib(
//!     streams: &Streams,
//!     stream: &Stream,
//!     devices: &[TransferDevice],
//!     (machine, peers): (&Machine, &PeerAccess),
//!     (dst, src): (PeerAddress, PeerAddress),
//! ) -> Result<(), TransferError> {
//!     let config = TransferConfig::default();
//!     let transfers = Transfers::new(streams, Roads { machine, peers, config }, devices)?;
//!     // SAFETY: both ranges are live, and used in the order of `stream` only, until `submitted` has ended.
//!     let carried = unsafe { transfers.copy(stream, dst, src, 64 << 20) };
//!     carried.result?;
//!     for used in transfers.routes() {
//!         println!("{} bytes from {:?} to {:?}: {}", used.bytes, used.from, used.to, used.kind);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Safe code uses the facade's `Stream::copy_peer`, which is built on this.
//!
//! # Problem
//! Two devices may reach each other over a link of their own, through switches, through the host's bridges, or not at
//! all. Links fail, hang, and are granted by drivers that then lose what is written over them. A program that wants
//! bytes moved should not have to know.
//!
//! # Idea
//! A copy is carried over one *way*, or over several at once. A way is a chain of *legs*, each from one memory to the
//! next: straight to the other device, over another device's memory, or over page-locked host memory. With several
//! legs it is carried in chunks.
//!
//! A copy that must not fail with its way is *guarded*. Its parts run on streams of the engine's own, and the
//! program's stream waits at a *gate* that opens when every byte has arrived. When all lanes of a round have ended,
//! the last one to end settles the round: what has not arrived goes on over another way. So a copy is in stream order,
//! holds no host thread, and is never seen in part.
//!
//! # Guarantees
//! - [`Carried::submitted`] covers everything that was submitted, or will be, so no memory is given up too early.
//! - Nothing goes over a device in error, nor over a leg between devices that has not been tried with a pattern.
//! - A leg that failed is given up for every copy, in both directions, and this is reported once with the names of its
//!   links.
//! - A copy over several ways that takes long is planned anew on its way, as links become free and are taken.
//! - Memory on the way is at most [`STAGING_CHUNKS`] chunks per leg. A chunk has at least [`LEAST_CHUNK_BYTES`] or
//!   what takes 14 microseconds, and at most 8 MiB, or more where lanes would not hold so many chunks.
//! - No submission of the engine waits for room in a queue: a round is no more than its lanes hold. Devices whose
//!   queues hold fewer than eight commands copy as those do that have no host functions: one way at a time, and
//!   nothing is guarded.
//! - No wrong byte is seen where [everything is compared](Compared::Everything). By default, links that were tried are
//!   trusted.
//! - A copy on a more urgent stream comes first; a copy that has waited for long becomes more urgent. Copies on
//!   streams of one priority share links by their [weights](CopyWeight).
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
//! # Not here
//! Checksums: what is compared is read back, because no two kinds of device have the same kernels.

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
