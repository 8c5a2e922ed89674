//! The stream-ordered device memory pool.

mod allocation;
mod block;
mod books;
mod check;
mod config;
mod deferred;
mod error;
mod growth;
mod pool;
mod recovery;
mod request;
mod reuse;
mod snapshot;
mod source;
mod stats;

pub use allocation::{Allocation, AllocationInfo, PoolId};
pub use check::Inconsistency;
pub use config::{CrossLane, ExactBlocks, MemoryPoolConfig, PoolLimit};
pub use error::{AllocError, ConfigError, FreeError, FreeErrorKind, FullNow};
pub use pool::DevicePool;
pub use recovery::Recovery;
pub use request::Request;
pub use snapshot::{BlockSnapshot, ChunkSnapshot, ChunkState, PoolSnapshot};
pub use source::{BlockSource, DeviceBlocks};
pub use stats::PoolStats;
