//! The stream-ordered device memory pool.
//!
//! # Problem
//! A driver takes 10 us to 1 ms to allocate memory and may stop the device while it does; programs ask thousands of
//! times a millisecond. And memory is given back while the device still uses it: whoever gets it next must come after.
//!
//! # Idea
//! Two levels. *Blocks* come from the device, rarely; *Chunks* are placed by one index, best fit, in constant time
//! ([`piton_suballoc`]). Where the device maps pages at addresses of the pool's choice, a Block is a physical handle
//! under one range of addresses, and moves from holes to where it is needed; elsewhere it is a large piece of memory
//! that Chunks are cut from. Memory is freed with the *frontier* of its last uses
//! ([`piton_timeline`]), and a few integer comparisons decide who may have it: the lane that used it last, at once;
//! a lane that is ordered behind the use, at once; any other once the use is complete, or with a wait that the
//! allocation carries. There are no events and no polling.
//!
//! # Words
//! *live*: bytes asked for and in use. *padding*: added to them by rounding. *cached*: free, for anyone. *pending*:
//! free, but a use is not known complete. *held*: bytes of all Blocks, mapped or not. *unbacked*: addresses without
//! pages. *suspended*: live, and without pages for now.
//!
//! # Guarantees
//! - Two allocations share a byte only if every use of the first is complete or ordered before the taker's lane once it
//!   has made the waits it was told to make. Whether memory may be reused is decided in `reuse.rs` alone.
//! - `held + suspended = live + padding + cached + pending + in transit`, at any time: [`DevicePool::check`].
//! - The device is asked only when nothing held fits, and never under the lock that other allocations need. Any call to
//!   it may fail; then nothing has changed.
//! - Idle Blocks are given back, and pages taken from holes, before the pool exceeds the most it ever needed.
//! - No page is unmapped before the host has seen its last use complete.
//! - No error is lost, and out of memory says where the memory is: [`FullNow`].
//!
//! # Not here
//! Enqueuing the waits, knowing the last uses (streams and buffers do), typed views, waiting on the host.
//!
//! | I want to … | take |
//! |---|---|
//! | make a pool of a device's memory | [`DevicePool::on_device`], [`MemoryPoolConfig`] |
//! | use the pool with device code of my own | [`BlockSource`], [`DevicePool::new`] |
//! | get memory | [`Request`], [`DevicePool::allocate`] |
//! | give it back | [`DevicePool::free`] |
//! | do both without locks, for one owner | [`OwnedPool`] |
//! | have memory before it is needed | [`DevicePool::reserve`] |
//! | give idle memory back to the device | [`DevicePool::trim`], [`DevicePool::shrink_to`] |
//! | free something when nothing else helps | [`DevicePool::on_out_of_memory`] |
//! | give the pages of what is live back, and keep its addresses | [`DevicePool::suspend`], [`DevicePool::resume`] |
//! | keep memory to a part of a program | [`DevicePool::private`] |
//! | serve a program that repeats from a plan | [`Planned`] |
//! | know the page behind an address | [`DevicePool::translate`] |
//! | limit, count, log, or fail requests | [`MemoryPool`], [`Limited`], [`Tagged`], [`Counted`], [`Logged`], [`Failing`] |
//! | know whose an address is | [`DevicePool::lookup`], without a lock by [`AddressLookup::Tables`] |
//! | see what it holds | [`DevicePool::stats`], [`DevicePool::snapshot`] |
//!
//! ```
//! use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
//! use piton_alloc::{BlockSource, DevicePool, MemoryPoolConfig, Request};
//! use piton_driver::{DevicePtr, DriverError};
//! use piton_timeline::{Frontier, Timeline};
//!
//! /// A device of our own: here, addresses that only count up.
//! #[derive(Debug)]
//! struct Mine(AtomicU64);
//!
//! // SAFETY: no two Blocks ever have an address in common.
//! unsafe impl BlockSource for Mine {
//!     fn capacity(&self) -> u64 { 1 << 30 }
//!     fn granularity(&self) -> u64 { 2 << 20 }
//!     fn alignment(&self) -> u64 { 2 << 20 }
//!     fn status(&self) -> Result<(), DriverError> { Ok(()) }
//!     fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
//!         Ok(DevicePtr::new(self.0.fetch_add(bytes, Ordering::Relaxed)))
//!     }
//!     unsafe fn free(&self, _block: DevicePtr) -> Result<(), DriverError> { Ok(()) }
//!     fn record_error(&self, error: DriverError) { eprintln!("{error}"); }
//! }
//!
//! let timeline = Timeline::new();
//! let (compute, copies) = (timeline.register(None)?, timeline.register(None)?);
//! let source = Arc::new(Mine(AtomicU64::new(2 << 20)));
//! let pool = DevicePool::new(source, timeline, &MemoryPoolConfig::default())?;
//!
//! let first = pool.allocate(Request::new(1000).on(compute.id()))?;
//! let ptr = first.ptr();
//! let last_use = compute.submit(1); // a kernel that uses it; still running
//! pool.free(first, Frontier::from(last_use))?;
//!
//! // The same lane gets the same memory without waiting for the kernel.
//! let second = pool.allocate(Request::new(1000).on(compute.id()))?;
//! assert_eq!((second.ptr(), second.wait().is_empty()), (ptr, true));
//!
//! // Another lane gets other memory while there is some, and no wait either.
//! let third = pool.allocate(Request::new(1000).on(copies.id()))?;
//! assert!(third.wait().is_empty() && third.ptr() != ptr);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adaptor;
mod allocation;
mod block;
mod books;
mod books_lock;
mod callback;
mod check;
mod config;
mod crowd;
mod deferred;
mod error;
mod events;
mod fragmentation;
mod front;
mod ladder;
mod lane_slots;
mod lane_word;
mod lookup;
mod owned;
mod placement;
mod planned;
mod pool;
mod private;
mod recovery;
mod region;
mod request;
mod reuse;
mod run;
mod shrink;
mod snapshot;
mod source;
mod split;
mod stats;

pub use adaptor::{
    Counted, FailWhen, Failing, Limited, Logged, MemoryPool, RequestCounts, SIZE_BUCKETS, Tag,
    Tagged, Usage,
};
pub use allocation::{Allocation, AllocationId, AllocationInfo, PoolId};
pub use check::Inconsistency;
pub use config::{
    AddressLookup, CrossLane, ExactBlocks, MemoryPoolConfig, PoolLimit, SearchRule,
    VirtualAddressing,
};
pub use error::{
    AllocError, ConfigError, FreeError, FreeErrorKind, FullNow, ResumeError, ResumeErrorKind,
    ServeError, SuspendError, SuspendErrorKind,
};
pub use events::{MemoryEvent, MemoryEventKind};
pub use fragmentation::{Fragmentation, Pending};
pub use owned::OwnedPool;
pub use piton_plan::{PlaceConfig, PlaceError, Plan, Recorder};
pub use placement::{Suspended, Translation};
pub use planned::{Planned, PlannedStats};
pub use pool::DevicePool;
pub use recovery::Recovery;
pub use request::Request;
pub use snapshot::{BlockSnapshot, ChunkSnapshot, ChunkState, PoolSnapshot};
pub use source::{BlockSource, DeviceBlocks};
pub use stats::PoolStats;
