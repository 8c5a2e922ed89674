//! How a pool is to behave, checked as a whole before anything is built on it.

use crate::{HostPages, PinnedError, StagingConfig};
use piton_driver::Locking;
use piton_suballoc::SizeClass;

/// Pages of host memory are counted in these, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// Large pages of host memory, in bytes.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// How a [`PinnedPool`](crate::PinnedPool) is to behave. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedPoolConfig {
    /// Most memory to hold from the driver at once; at least one slab.
    pub cap_bytes: u64,
    /// What is asked of the driver at a time for blocks that are smaller; a multiple of 4096, at most 1 GiB. A larger
    /// block of a size class gets whole 2 MiB.
    pub slab_bytes: u64,
    /// Requests up to this are rounded up to a size class; above, to 4096, cut from memory of that kind by best fit
    /// and merged again. From 64 bytes to 1 GiB.
    pub large_above_bytes: u64,
    /// Free blocks of a size class that are passed between threads without a lock; from 1 to 65 536.
    pub queue_blocks: u32,
    /// Most bytes of one size class that a thread keeps for itself, to be had without touching what threads share.
    /// A class of which two blocks are more is not kept; 0 keeps none.
    pub magazine_bytes: u64,
    /// Memory not cut into blocks that a round of [`tend`](crate::PinnedPool::tend) sees to being there, asked of the
    /// driver ahead of need; 0 for none.
    pub ahead_bytes: u64,
    /// What rounds never give back of the memory held.
    pub keep_bytes: u64,
    /// For how many rounds nothing of a piece of driver memory must have been out before it goes back; at least 1.
    pub decay_rounds: u32,
    /// What to do where the system refuses to lock pages.
    pub locking: Locking,
    /// Where pages come from.
    pub pages: HostPages,
    /// The NUMA node to take memory from, and from no other. Without one it is rather taken from the device's own, if it has one.
    /// Pages that the driver allocates are the driver's to place.
    pub numa_node: Option<u32>,
    /// How copies of ordinary memory go through chunks of the pool.
    pub staging: StagingConfig,
}

impl Default for PinnedPoolConfig {
    /// At most 16 GiB in slabs of 4 MiB, locked; exact sizes above 32 MiB; a thread keeps up to 32 MiB of a class.
    fn default() -> Self {
        Self {
            cap_bytes: 16 << 30,
            slab_bytes: 4 << 20,
            large_above_bytes: 32 << 20,
            queue_blocks: 1024,
            magazine_bytes: 32 << 20,
            ahead_bytes: 0,
            keep_bytes: 0,
            decay_rounds: 8,
            locking: Locking::Required,
            pages: HostPages::Driver,
            numa_node: None,
            staging: StagingConfig::default(),
        }
    }
}

impl PinnedPoolConfig {
    const MAX_SLAB: u64 = 1 << 30;
    const MAX_QUEUE: u32 = 1 << 16;
    /// Half a magazine of small blocks: more would be kept idle for no gain, see `docs/benchmarks.md`.
    const MAX_HALF: u64 = 64;

    /// How many blocks of `class` make half a magazine; none if a thread keeps none of them, as of a class of which some
    /// requests are taken for large ones.
    pub(crate) fn half_magazine(&self, class: SizeClass) -> Option<usize> {
        if class.bytes() > self.large_above_bytes {
            return None;
        }
        let half = (self.magazine_bytes / 2 / class.bytes()).min(Self::MAX_HALF);
        usize::try_from(half).ok().filter(|half| *half > 0)
    }

    /// The size classes of small requests, smallest first.
    pub(crate) fn classes(&self) -> impl Iterator<Item = SizeClass> {
        let largest = SizeClass::for_bytes(self.large_above_bytes);
        SizeClass::all().take_while(move |class| Some(*class) <= largest)
    }

    /// Whether every setting can take effect.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSlab`], [`PinnedError::InvalidLargeThreshold`], [`PinnedError::InvalidQueue`],
    /// [`PinnedError::AboveCap`], [`PinnedError::InvalidDecay`], [`PinnedError::CapBelowSlab`], [`PinnedError::InvalidChunk`].
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
        let (minimum, maximum) = (SizeClass::GRAIN, Self::MAX_SLAB);
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
        let most = self.cap_bytes;
        for given in [self.ahead_bytes, self.keep_bytes] {
            if given > most {
                return Err(PinnedError::AboveCap { given, cap: most });
            }
        }
        if self.decay_rounds == 0 {
            return Err(PinnedError::InvalidDecay);
        }
        if self.cap_bytes < slab {
            return Err(PinnedError::CapBelowSlab {
                cap: self.cap_bytes,
                slab,
            });
        }
        self.staging.validate()
    }
}
