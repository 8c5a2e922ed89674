//! The pool of page-locked host memory.
//!
//! # The problem
//! A device copies fast, and by itself, only from and to host memory whose pages are locked and known to its driver.
//! Locking costs up to 0.4 ms a MiB, so memory is locked ahead and kept. And a copy goes on after the call that asked for it
//! has returned: until the device is done, its memory must not go to somebody else, nor be looked at.
//!
//! # The idea
//! [`PinnedPool`] takes *slabs* from the driver and cuts them into blocks of few sizes: four classes a doubling, with a quarter
//! of slack at most. Each thread keeps some free blocks of each class for itself, so that most requests and drops touch
//! nothing that threads share. When it runs out of them, or has too many, it exchanges half of what it may keep through a
//! lock-free queue that the class has.
//!
//! A [`PinnedBlock`] remembers the timepoints of its device uses. Dropped while a device uses it, it waits in a pending list
//! until they are complete. Nobody blocks for that: whether a timepoint is complete is a comparison of integers. A slow
//! stream holds back its own blocks only.
//!
//! # Words
//! - *Slab*: driver memory that is cut into blocks of size classes. *Region*: any piece of driver memory; requests above
//!   32 MiB are cut from regions of their own, to the page.
//! - *Magazine*: the free blocks of a class that one thread keeps. *Depot*: those that any thread may take.
//! - *Live*: bytes of blocks that are out. *Pending*: freed, but a device may be using them. *Cached*: of free blocks.
//!   *Uncut*: of slabs, not cut into blocks.
//! - *Staged*: a copy of ordinary memory, which goes through chunks of the pool.
//!
//! | I want to … | take |
//! |---|---|
//! | have memory the device copies from | [`PinnedPool::allocate`] |
//! | look at it, change it | [`PinnedBlock::try_as_slice`], [`PinnedBlock::try_as_mut_slice`] |
//! | have elements that grow and shrink as a `Vec`'s; read and write them as a file | [`PinnedVec`] |
//! | have memory ready before it is asked for, and given back when it is not | [`PinnedPool::tend`], [`Keeper`] |
//! | say that a command uses it | [`PinnedBlock::record_read`], [`PinnedBlock::record_write`] |
//! | let a device copy from memory I have already | [`PinnedPool::register`], [`PinnedPool::lend`] |
//! | copy through a few chunks of it | [`StagingRing`] |
//! | say how copies of ordinary memory are staged, or see it | [`StagingConfig`], [`PinnedPool::staging`] |
//! | give memory back to the system | [`PinnedPool::trim`] |
//! | drop everything while devices are at work | [`Leftovers`] |
//!
//! # Guarantees
//! - A block is handed out again only after every recorded use of it is complete.
//! - No slice exists while a recorded device use conflicts with it.
//! - `held = live + pending + cached + uncut`; [`PinnedPool::check`] walks everything and says so.
//! - No drop blocks on a device. No public function panics, whatever it is given.
//!
//! # Example
//! ```
//! use piton_driver::{DeviceId, Driver, Locking};
//! use piton_pinned::{PinnedPool, PinnedPoolConfig};
//! use piton_sim::{DeviceConfig, SimConfig, SimDriver};
//! use piton_timeline::Timeline;
//!
//! let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default()))?;
//! let timeline = Timeline::new();
//! let config = PinnedPoolConfig { locking: Locking::Preferred, ..Default::default() };
//! let pool = PinnedPool::new(driver.open(DeviceId(0))?, timeline.clone(), config)?;
//!
//! let mut block = pool.allocate(1000)?;
//! block.try_as_mut_slice()?.fill(1);
//!
//! // Streams have a lane each; this one's work is completed by hand.
//! let lane = timeline.register(None)?;
//! block.record_write(lane.submit(1));
//! assert!(block.try_as_slice().is_err(), "the device may be writing");
//! lane.complete(1);
//! assert_eq!(block.try_as_slice()?.len(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! `allocator-api2`: the pool is an `Allocator`, so `Vec<T, &PinnedPool>` of that crate lies in it. `bytes`: page-locked bytes
//! as `Bytes`.
//!
//! # Not here
//! Waiting (whoever gets [`PinnedError::InUse`] waits for the frontier in it), copies, streams, element types.

mod block;
mod check;
mod class_counts;
mod config;
mod core;
mod error;
mod events;
mod exchange;
mod free_list;
mod growth;
#[cfg(feature = "allocator-api2")]
mod interop_allocator;
#[cfg(feature = "bytes")]
mod interop_bytes;
mod keeper;
mod kept;
mod label;
mod leftovers;
mod lent;
mod long_way;
mod magazine;
mod node;
mod pages;
mod pending;
mod pinned_vec;
mod pool;
mod recall;
mod record;
mod regions;
mod registered;
mod request;
mod shelf;
mod short_way;
mod source;
mod span;
mod staging;
mod staging_ring;
mod staging_trial;
mod stats;
mod tend;
mod thread_cache;
mod tickets;
mod visible;

pub use block::PinnedBlock;
pub use check::PinnedInconsistency;
pub use config::PinnedPoolConfig;
pub use error::PinnedError;
pub use keeper::Keeper;
pub use leftovers::Leftovers;
pub use lent::LentMemory;
pub use pages::HostPages;
pub use pinned_vec::PinnedVec;
pub use pool::PinnedPool;
pub use registered::{Refused, RegisteredMemory};
pub use staging::{
    StagedDirection, StagedWay, Staging, StagingChoice, StagingConfig, StagingStats,
};
pub use staging_ring::{Chunk, StagingRing};
pub use staging_trial::StagingTrial;
pub use stats::{PinnedClassStats, PinnedStats, PinnedThreadStats};
pub use tend::Tended;
