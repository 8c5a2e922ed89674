//! What the pool holds and how it has served, in numbers.

use crate::{core::Core, free_list::FreeList};
use piton_suballoc::SizeClass;

/// A pool's numbers at one time. Sizes are bytes.
///
/// While other threads use the pool the numbers are of slightly different times; otherwise
/// `held_bytes = live_bytes + pending_bytes + cached_bytes + uncut_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedStats {
    /// Requests served with a block that had been used before.
    pub hits: u64,
    /// Requests served by cutting a slab already held, or by merging what was free.
    pub cuts: u64,
    /// Requests served after asking the driver.
    pub misses: u64,
    /// Requests refused.
    pub failures: u64,
    /// Calls to the driver for memory, those that failed included.
    pub driver_allocations: u64,
    /// Calls to the driver to give memory back.
    pub driver_frees: u64,
    /// Memory the driver refused to take back.
    pub leaked_bytes: u64,
    /// Blocks that are out.
    pub live_blocks: u64,
    /// Their bytes, as taken from the pool.
    pub live_bytes: u64,
    /// Their bytes, as asked for; the rest of `live_bytes` is slack.
    pub requested_bytes: u64,
    /// Blocks that were freed and that a device may still be using.
    pub pending_blocks: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Bytes of free blocks, ready to be handed out.
    pub cached_bytes: u64,
    /// Bytes of slabs that are not cut into blocks.
    pub uncut_bytes: u64,
    /// Bytes held from the driver.
    pub held_bytes: u64,
    /// Those of them whose pages are locked.
    pub locked_bytes: u64,
}

impl Core {
    pub(crate) fn stats(&self) -> PinnedStats {
        let counts = self.counters.counts();
        let calls = self.source.calls();
        let mut stats = PinnedStats {
            hits: counts.hits,
            cuts: counts.cuts,
            misses: counts.misses,
            failures: counts.failures,
            driver_allocations: calls.allocations,
            driver_frees: calls.frees,
            leaked_bytes: calls.leaked_bytes,
            live_blocks: counts.live_blocks,
            live_bytes: counts.live_bytes,
            requested_bytes: counts.requested_bytes,
            cached_bytes: self.cached_bytes(),
            ..PinnedStats::default()
        };
        self.pending.for_each(|span| {
            stats.pending_blocks += 1;
            stats.pending_bytes += span.bytes;
        });
        self.count_regions(&mut stats);
        stats
    }

    /// Bytes in the free lists.
    pub(crate) fn cached_bytes(&self) -> u64 {
        let bytes_of = |(index, list): (usize, &FreeList<_>)| {
            let class = SizeClass::from_index(index).map_or(0, SizeClass::bytes);
            class * list.len() as u64
        };
        self.free.iter().enumerate().map(bytes_of).sum()
    }

    fn count_regions(&self, stats: &mut PinnedStats) {
        let regions = self.regions.lock();
        stats.held_bytes = regions.held();
        stats.cached_bytes += regions.idle_bytes();
        for (_, region) in regions.iter() {
            if region.allocation.is_locked {
                stats.locked_bytes += region.bytes();
            }
            if let Some(extents) = &region.extents {
                let usage = extents.usage();
                stats.uncut_bytes += region.bytes() - usage.live - usage.padding;
            }
        }
    }
}
