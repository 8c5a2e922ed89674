//! The stream-ordered device memory pool.
//!
//! A [`DevicePool`] takes memory from a device in large pieces and hands out small ones. Memory is given back with its
//! last uses, while the device may still be working on it, and goes to its next user without blocking the host.
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
//!
//! # Problem
//! A driver takes 10 us to 1 ms to allocate memory, and may stop the device while it does. Programs allocate thousands
//! of times in a millisecond. And they give memory back while the device still uses it: whoever gets it next must come
//! after that use.
//!
//! # Idea
//! The pool has two levels. *Blocks* come from the device, rarely. *Chunks* go to the program, often; one index places
//! them by best fit in constant time ([`piton_suballoc`]). Where the device maps pages at addresses of the pool's
//! choice, a Block is a physical handle under one range of addresses, and moves from holes to where it is needed.
//! Elsewhere a Block is a large piece of memory that Chunks are cut from.
//!
//! Memory is freed together with the *frontier* of its last uses ([`piton_timeline`]). A few integer comparisons
//! decide who may have it: the lane that used it last, at once; a lane that is ordered behind the use, at once; any
//! other lane once the use has ended, or with a wait that the allocation carries. There are no events and there is no
//! polling.
//!
//! # Words
//! - *lane*: a stream, as the timeline sees it.
//! - *live*: bytes that were asked for and are in use.
//! - *padding*: bytes added to them by rounding.
//! - *cached*: free, for anyone.
//! - *pending*: free, but a last use is not known to have ended.
//! - *held*: bytes of all Blocks, mapped or not.
//! - *unbacked*: addresses without pages.
//! - *suspended*: live, and without pages for now.
//!
//! # Guarantees
//! - Two allocations share a byte only if every use of the first has ended, or is ordered before the taker's lane once
//!   that lane has made the waits it was told to make. `reuse.rs` alone decides whether memory may be reused.
//! - `held + suspended = live + padding + cached + pending + in transit`, at any time: [`DevicePool::check`].
//! - The pool asks the device only when nothing held fits, and never under the lock that other allocations need. Any
//!   call to the device may fail; then nothing has changed.
//! - The pool gives idle Blocks back, and takes pages from holes, before it holds more than it ever needed.
//! - No page is unmapped before the host has seen its last use end.
//! - No error is lost, and out of memory says where the memory is: [`FullNow`].
//!
//! # Threads and blocking
//! Everything may be called from any thread. Allocating and freeing never wait for work on the device. A request that
//! nothing held can serve calls the driver, which may block. Lock order: `turn` (who calls the driver), then the
//! pool's books, then those of the timeline.
//!
//! # Not here
//! Enqueuing the waits, knowing the last uses (streams and buffers do both), typed views, and waiting on the host.
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
//! | give back the pages of live memory, and keep its addresses | [`DevicePool::suspend`], [`DevicePool::resume`] |
//! | keep memory to a part of a program | [`DevicePool::private`] |
//! | serve a program that repeats from a plan | [`Planned`] |
//! | know the page behind an address | [`DevicePool::translate`] |
//! | limit, count, log, or fail requests | [`MemoryPool`], [`Limited`], [`Tagged`], [`Counted`], [`Logged`], [`Failing`] |
//! | find the allocation of an address | [`DevicePool::lookup`], without a lock by [`AddressLookup::Tables`] |
//! | see what the pool holds | [`DevicePool::stats`], [`DevicePool::snapshot`] |

mod adaptor;
mod allocation;
mod awaited;
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
mod keeping;
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
