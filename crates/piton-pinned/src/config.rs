//! How a pool is to behave, checked as a whole before anything is built on it.

use crate::PinnedError;
use piton_driver::Locking;
use piton_suballoc::SizeClass;

/// Pages of host memory are counted in these, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// How a [`PinnedPool`](crate::PinnedPool) is to behave. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedPoolConfig {
    /// Most memory to hold from the driver at once; at least one slab.
    pub cap_bytes: u64,
    /// What is asked of the driver at a time for small blocks; a multiple of 4096, at most 1 GiB.
    pub slab_bytes: u64,
    /// Requests above this get driver memory of their own, rounded to 4096 and kept for reuse; at most a quarter
    /// of a slab, so that a slab serves several.
    pub large_above_bytes: u64,
    /// Free blocks of a size class that are passed between threads without a lock; from 1 to 65 536.
    pub queue_blocks: u32,
    /// What to do where the system refuses to lock pages.
    pub locking: Locking,
    /// The NUMA node to take memory from, where the system has several.
    pub numa_node: Option<u32>,
}

impl Default for PinnedPoolConfig {
    /// At most 16 GiB in slabs of 4 MiB, locked.
    fn default() -> Self {
        Self {
            cap_bytes: 16 << 30,
            slab_bytes: 4 << 20,
            large_above_bytes: 1 << 20,
            queue_blocks: 256,
            locking: Locking::Required,
            numa_node: None,
        }
    }
}

impl PinnedPoolConfig {
    const MAX_SLAB: u64 = 1 << 30;
    const MAX_QUEUE: u32 = 1 << 16;

    /// Whether every setting can take effect.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSlab`], [`PinnedError::InvalidLargeThreshold`], [`PinnedError::InvalidQueue`],
    /// [`PinnedError::CapBelowSlab`].
    pub fn validate(&self) -> Result<(), PinnedError> {
        let slab = self.slab_bytes;
        if !slab.is_multiple_of(PAGE) || !(PAGE..=Self::MAX_SLAB).contains(&slab) {
            return Err(PinnedError::InvalidSlab {
                given: slab,
                multiple_of: PAGE,
                maximum: Self::MAX_SLAB,
            });
        }
        let threshold = self.large_above_bytes;
        let (minimum, maximum) = (SizeClass::GRAIN, slab / 4);
        if !(minimum..=maximum).contains(&threshold) {
            return Err(PinnedError::InvalidLargeThreshold {
                given: threshold,
                minimum,
                maximum,
            });
        }
        if !(1..=Self::MAX_QUEUE).contains(&self.queue_blocks) {
            return Err(PinnedError::InvalidQueue {
                given: self.queue_blocks,
                maximum: Self::MAX_QUEUE,
            });
        }
        if self.cap_bytes < slab {
            return Err(PinnedError::CapBelowSlab {
                cap: self.cap_bytes,
                slab,
            });
        }
        Ok(())
    }
}
