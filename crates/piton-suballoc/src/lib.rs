//! An allocator of offsets: it decides in constant time who owns which bytes of a range, and never sees an address.
//!
//! ```
//! use piton_suballoc::{Domain, Tlsf};
//!
//! let mut range = Tlsf::new(1 << 20, 256)?; // 1 MiB in units of 256 bytes
//! let chunk = range.allocate(Domain::SHARED, 1000, 256).expect("the range is empty");
//! assert_eq!((chunk.offset, chunk.bytes), (0, 1024));
//!
//! // Freed on lane 3 at its seventh step: lane 3 may take it at once, others once step 7 is known to be done.
//! let lane = Domain::new(3).expect("a small number");
//! range.free(chunk.id, lane, 7)?;
//! assert_eq!(range.allocate(lane, 1024, 256).map(|again| again.offset), Some(0));
//! assert_eq!(range.release_up_to(lane, 7), 0, "the lane took it again");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Problem
//! Device memory cannot hold an allocator's headers: the host may not be able to read it at all. The books must lie
//! beside the memory, stay small, and answer in a few tens of nanoseconds however many pieces there are.
//!
//! # Idea
//! [`Tlsf`] (two-level segregated fit) divides a range of bytes, or several that come and go, into *extents*. Each
//! extent is one 32-byte record in a slab. Records link to their neighbours by `u32` index. Free extents hang in bins
//! by size, which are found through two levels of bitmaps.
//!
//! A free extent belongs to a [`Domain`]. [`Domain::SHARED`] is everyone's; any other number is a set of extents that
//! only those who name it may take. A stream-ordered pool gives each lane a domain. Memory freed on a lane is then the
//! lane's own again at once, while others wait for a timepoint, all over the same records.
//!
//! Several ranges share one set of bins, so one search finds the best place in all of them. Extents never cross the
//! end of a range. A range that is wholly free can be taken away again.
//!
//! This crate never sees an address, a device or a clock, so it is property-tested, fuzzed and measured alone.
//!
//! # Words
//! - *extent*: a contiguous range of bytes that is wholly live or wholly free.
//! - *chunk*: a live extent, as handed out.
//! - *unit*: the granularity in bytes, a power of two.
//! - *padding*: bytes lost to rounding up to units.
//! - *stamp*: a number that a free extent of a domain carries. The domain gives up its extents in the order of their
//!   stamps.
//!
//! # Guarantees
//! - Chunks never overlap, lie inside one range, and start at a multiple of the alignment asked for.
//! - Two neighbouring free extents of one domain are always one extent.
//! - `capacity = live + padding + the free bytes of all domains`; [`Tlsf::check`] walks everything and verifies it.
//! - No public function panics, whatever it is given. None blocks; none allocates except when the slab grows, or when
//!   a domain gets its first extent.
//!
//! # Not here
//! Locks, addresses and timepoints: those belong to the pools.
//!
//! | I want to | type |
//! | --- | --- |
//! | place chunks in one range | [`Tlsf::new`] |
//! | place chunks in ranges that come and go | [`Tlsf::empty`], [`Tlsf::add_range`] |
//! | round requests so that few sizes exist | [`SizeClass`] |
//! | see every extent | [`Tlsf::extents`], [`Extent`] |

#![forbid(unsafe_code)]

mod bins;
mod check;
mod domain;
mod error;
mod extent;
mod order;
mod records;
mod search;
mod size_class;
mod tlsf;

pub use check::Inconsistency;
pub use domain::Domain;
pub use error::{ConfigError, ExtentError};
pub use extent::{Chunk, Extent, ExtentId, ExtentState, Range};
pub use size_class::SizeClass;
pub use tlsf::{Apart, DomainUsage, Tlsf, Usage};
