//! Private pools: memory of a pool that nobody else gets for as long as the private pool lives.
//!
//! # The idea
//! A pool needs only Blocks from a [`BlockSource`]. So a pool can be another pool's source: the Blocks of the inner
//! pool are allocations of the outer one, for no lane, and the inner pool works within them. For example, the memory
//! that a captured graph works in keeps its addresses from replay to replay, and the rest of the program does not get
//! what the graph frees.
//!
//! # Whose memory is when
//! A pool gives a Block back only when all its uses are complete, so it goes back to the outer pool with nothing to
//! wait for. If a private pool is dropped while some of its memory is allocated or in use, those Blocks stay
//! allocated in the outer pool, just as a pool leaves such Blocks with its source.

#![expect(
    unsafe_code,
    reason = "promises what its Blocks are: the allocations of a pool"
)]

use std::collections::HashMap;
use std::sync::Arc;

use piton_driver::{DevicePtr, DriverError, ErrorKind, Operation};
use piton_sync::Mutex;
use piton_timeline::Frontier;

use crate::allocation::Allocation;
use crate::config::{MemoryPoolConfig, VirtualAddressing};
use crate::error::{AllocError, ConfigError};
use crate::pool::DevicePool;
use crate::request::Request;
use crate::source::BlockSource;

impl DevicePool {
    /// Makes a pool whose memory comes from this one, and that nobody else gets while it lives. It takes Blocks from
    /// this pool as it grows, the first one with its first request, and gives them back as any pool does, at the
    /// latest when it is dropped. Here its Blocks count as live.
    ///
    /// The settings are those of `config`. Its limit is in bytes, or a share of this pool's limit. The new pool never
    /// maps pages itself, but its Blocks may be backed by pages of this pool.
    ///
    /// # Errors
    /// Any [`ConfigError`]; [`ConfigError::NoVirtualMemory`] if `config` insists on pages.
    pub fn private(self: &Arc<Self>, config: &MemoryPoolConfig) -> Result<Self, ConfigError> {
        let config = MemoryPoolConfig {
            virtual_addressing: match config.virtual_addressing {
                VirtualAddressing::On => VirtualAddressing::On,
                _ => VirtualAddressing::Off,
            },
            ..*config
        };
        let source = Arc::new(PoolBlocks {
            pool: Arc::clone(self),
            blocks: Mutex::default(),
        });
        Self::new(source, Arc::clone(self.timeline()), &config)
    }
}

/// A pool as a source of Blocks.
#[derive(Debug)]
struct PoolBlocks {
    pool: Arc<DevicePool>,
    /// Blocks by their first byte. Never held while the pool is called.
    blocks: Mutex<HashMap<DevicePtr, Allocation>>,
}

impl PoolBlocks {
    /// What the pool outside says, as a device would say it.
    fn failure(&self, bytes: u64, error: AllocError) -> DriverError {
        let kind = match error {
            AllocError::Driver(error) => return error,
            AllocError::FullNow(_) | AllocError::NeverFits { .. } => ErrorKind::OutOfMemory {
                requested: bytes,
                free: self
                    .pool
                    .limit()
                    .saturating_sub(self.pool.stats().live_bytes),
                capacity: self.pool.limit(),
            },
            _ => ErrorKind::InvalidSize {
                bytes,
                maximum: self.pool.limit(),
            },
        };
        DriverError {
            kind,
            operation: Operation::AllocateMemory,
            device: None,
            code: None,
        }
    }
}

// SAFETY: a Block is an allocation of the pool outside: nobody else has its memory until it is freed there, which `free` alone
// does; and it was asked for at a multiple of `alignment`. Without a lane it is memory whose every use is complete.
unsafe impl BlockSource for PoolBlocks {
    fn capacity(&self) -> u64 {
        self.pool.limit()
    }

    fn granularity(&self) -> u64 {
        self.pool.settings.max_align
    }

    fn alignment(&self) -> u64 {
        self.pool.settings.max_align
    }

    fn status(&self) -> Result<(), DriverError> {
        self.pool.source.status()
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        let request = Request::new(bytes).aligned_to(self.alignment());
        let allocated = self.pool.allocate(request);
        let block = allocated.map_err(|error| self.failure(bytes, error))?;
        let ptr = block.ptr();
        self.blocks.lock().insert(ptr, block);
        Ok(ptr)
    }

    unsafe fn free(&self, block: DevicePtr) -> Result<(), DriverError> {
        let found = self.blocks.lock().remove(&block);
        if let Some(found) = found {
            let freed = self.pool.free(found, Frontier::new());
            debug_assert!(
                freed.is_ok(),
                "the pool knows its own allocation: {freed:?}"
            );
        }
        Ok(())
    }

    fn record_error(&self, error: DriverError) {
        self.pool.source.record_error(error);
    }
}
