//! Memory that a part of a program keeps to itself.

use crate::{BufferError, DeviceContext};
use piton_alloc::{DevicePool, MemoryPoolConfig, PoolStats};
use std::sync::Arc;

/// A pool of a device's memory within its pool: what is allocated from it nobody else gets while it, or any of its buffers or
/// graphs, lives. What a graph works in, say, stays apart from what the rest of the program frees and asks for. A cheap handle.
///
/// It takes memory of the device's pool as it grows, counts there as what it took, and gives it back as a pool gives back Blocks.
#[derive(Clone, Debug)]
pub struct PrivatePool {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) pool: Arc<DevicePool>,
}

impl PrivatePool {
    /// A pool of memory of the context's. Its limit is one of bytes, or a share of that pool's.
    ///
    /// # Errors
    /// [`MemoryConfig`](BufferError::MemoryConfig): as [`DevicePool::private`].
    pub fn new(
        context: &Arc<DeviceContext>,
        config: &MemoryPoolConfig,
    ) -> Result<Self, BufferError> {
        Ok(Self {
            context: Arc::clone(context),
            pool: Arc::new(context.memory.private(config)?),
        })
    }

    /// What it counts.
    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Gives what it has and nobody uses back to the device's pool; returns the bytes.
    pub fn trim(&self) -> u64 {
        self.pool.trim(0)
    }
}
