//! What can go wrong with page-locked memory.

use piton_driver::{DeviceId, DriverError};
use piton_suballoc::ConfigError;
use piton_timeline::Frontier;
use thiserror::Error;

/// Why the pool refused. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PinnedError {
    /// The device cannot copy from host memory by itself.
    #[error("{device} has no host memory of its own kind")]
    NoHostMemory {
        /// The device.
        device: DeviceId,
    },
    /// A request is empty or larger than memory can be.
    #[error("a block of {given} bytes is not between 1 and {maximum}")]
    InvalidSize {
        /// The size asked for.
        given: u64,
        /// The largest that could be served.
        maximum: u64,
    },
    /// An alignment is not a power of two, or larger than a page.
    #[error("alignment {given} is not a power of two up to {maximum}")]
    InvalidAlignment {
        /// The alignment asked for.
        given: u64,
        /// The largest.
        maximum: u64,
    },
    /// The pool may not hold that much more.
    #[error(
        "{requested} bytes more would exceed the pool's cap of {cap}: {held} held, {live} in use, \
         {pending} freed but still in use by the device"
    )]
    CapReached {
        /// Bytes to be asked of the driver.
        requested: u64,
        /// The cap.
        cap: u64,
        /// Bytes held from the driver.
        held: u64,
        /// Bytes of blocks that are out.
        live: u64,
        /// Bytes of blocks that were freed and that the device still uses.
        pending: u64,
    },
    /// The device still uses the memory in a way that excludes the access.
    #[error("the device uses the memory until {pending:?}")]
    InUse {
        /// The host may access it when these are complete.
        pending: Frontier,
    },
    /// Kernels of the device do not reach the host's memory.
    #[error("kernels of {device} do not reach host memory")]
    NotReachable {
        /// The device.
        device: DeviceId,
    },
    /// The slab size cannot be used.
    #[error("slabs of {given} bytes are not a multiple of {multiple_of} up to {maximum}")]
    InvalidSlab {
        /// The size given.
        given: u64,
        /// What it must be a multiple of.
        multiple_of: u64,
        /// The largest.
        maximum: u64,
    },
    /// The chunks of staged copies cannot be used.
    #[error("chunks of {given} bytes are not a multiple of {multiple_of} up to {maximum}")]
    InvalidChunk {
        /// The size given.
        given: u64,
        /// What it must be a multiple of.
        multiple_of: u64,
        /// The largest.
        maximum: u64,
    },
    /// The boundary between small and large requests cannot be used.
    #[error("a large-block threshold of {given} bytes is not between {minimum} and {maximum}")]
    InvalidLargeThreshold {
        /// The threshold given.
        given: u64,
        /// The smallest.
        minimum: u64,
        /// The largest.
        maximum: u64,
    },
    /// The length of the free lists' queues cannot be used.
    #[error("queues of {given} blocks are not between 1 and {maximum}")]
    InvalidQueue {
        /// The length given.
        given: u32,
        /// The largest.
        maximum: u32,
    },
    /// Not a single slab fits under the cap.
    #[error("a cap of {cap} bytes is less than one slab of {slab}")]
    CapBelowSlab {
        /// The cap given.
        cap: u64,
        /// The slab size given.
        slab: u64,
    },
    /// More is to be ready, or to be kept, than may be held.
    #[error("{given} bytes to be ready or kept exceed the cap of {cap}")]
    AboveCap {
        /// The bytes given.
        given: u64,
        /// The cap.
        cap: u64,
    },
    /// The system binds no pages to the NUMA node that they are to come from.
    #[error("the system binds no pages to NUMA node {node} (errno {errno})")]
    NodeRefused {
        /// The node asked for.
        node: u32,
        /// The system's code.
        errno: i32,
    },
    /// Memory is to go back before a round has passed.
    #[error("memory that goes back after 0 rounds could never be used; 1 at least must pass")]
    InvalidDecay,
    /// The pool's books cannot span that much memory.
    #[error("the books of the pool: {0}")]
    Books(#[from] ConfigError),
    /// The driver refused. A refused lock carries the size and the limit in force.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl PinnedError {
    /// There is no memory to be registered.
    pub(crate) fn nothing() -> Self {
        Self::InvalidSize {
            given: 0,
            maximum: isize::MAX as u64,
        }
    }
}
