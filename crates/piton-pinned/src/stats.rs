//! What the pool holds and how it has served, in numbers.

use crate::{StagingStats, class_counts::ClassCount, core::Core, magazine::Depot};
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
    /// Rounds of keepers that the driver refused memory.
    pub tend_failures: u64,
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
    /// Those of them that threads keep for themselves.
    pub thread_bytes: u64,
    /// Threads that keep something of the pool, or have since they began.
    pub threads: u64,
    /// Bytes of slabs that are not cut into blocks.
    pub uncut_bytes: u64,
    /// Bytes held from the driver.
    pub held_bytes: u64,
    /// Those of them whose pages are locked.
    pub locked_bytes: u64,
    /// Those of them whose pages the pool has bound to a NUMA node.
    pub bound_bytes: u64,
    /// How copies of ordinary memory go through chunks of the pool.
    pub staging: StagingStats,
}

/// A size class's numbers at one time, over all threads. As far as [`PinnedStats`] is exact, so are these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedClassStats {
    /// Bytes of a block of the class; 0 for the entry of all blocks of exact size.
    pub block_bytes: u64,
    /// Blocks handed out so far.
    pub handed_out: u64,
    /// Blocks that are out.
    pub live_blocks: u64,
    /// Bytes asked for, of the blocks that are out.
    pub requested_bytes: u64,
    /// Free blocks that threads keep for themselves.
    pub thread_blocks: u64,
    /// Free blocks that any thread may take.
    pub depot_blocks: u64,
}

/// A thread's numbers at one time, of threads that keep something of the pool, or have and go on living.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedThreadStats {
    /// Blocks it took so far.
    pub handed_out: u64,
    /// Blocks it dropped so far, whoever took them.
    pub taken_back: u64,
    /// Free blocks that it keeps.
    pub kept_blocks: u64,
    /// Their bytes.
    pub kept_bytes: u64,
}

impl PinnedThreadStats {
    /// The sum over a thread's classes.
    fn of(classes: &[ClassCount]) -> Self {
        let mut sum = Self::default();
        for (index, class) in classes.iter().enumerate() {
            // The last entry is of exact sizes, which no thread keeps.
            let is_class = index + 1 < classes.len();
            let bytes = SizeClass::from_index(index).map_or(0, SizeClass::bytes);
            let kept = if is_class { class.in_magazines() } else { 0 };
            let add = |sum: &mut u64, more: u64| *sum = sum.wrapping_add(more);
            add(&mut sum.handed_out, class.handed_out);
            add(&mut sum.taken_back, class.taken_back);
            add(&mut sum.kept_blocks, kept);
            add(&mut sum.kept_bytes, kept.wrapping_mul(bytes));
        }
        sum
    }
}

impl Core {
    /// The numbers of each thread, the one that came first first.
    pub(crate) fn thread_stats(&self) -> Vec<PinnedThreadStats> {
        let threads = self.counters.by_thread();
        let of = |classes: &Vec<ClassCount>| PinnedThreadStats::of(classes);
        threads.iter().map(of).collect()
    }

    pub(crate) fn stats(&self) -> PinnedStats {
        let calls = self.source.calls();
        let mut stats = PinnedStats {
            cuts: self.events.cuts(),
            misses: self.events.misses(),
            failures: self.events.failures(),
            tend_failures: self.events.tend_failures(),
            driver_allocations: calls.allocations,
            driver_frees: calls.frees,
            leaked_bytes: calls.leaked_bytes,
            live_bytes: self.events.exact_bytes(),
            threads: self.counters.threads() as u64,
            staging: self.staging.stats(),
            ..PinnedStats::default()
        };
        self.count_classes(&mut stats);
        self.pending.for_each(|record| {
            stats.pending_blocks += 1;
            stats.pending_bytes += record.span.bytes;
        });
        let usage = self.regions.lock().usage();
        stats.held_bytes = usage.held;
        stats.locked_bytes = usage.locked;
        stats.bound_bytes = self.source.bound_bytes();
        stats.uncut_bytes = usage.uncut;
        stats.cached_bytes += usage.idle;
        stats
    }

    /// The numbers of each class, smallest first, and of exact sizes last.
    pub(crate) fn class_stats(&self) -> Vec<PinnedClassStats> {
        let sums = self.counters.sum().into_iter().enumerate();
        sums.map(|(index, sum)| {
            let depot = self.depots.get(index);
            let class = depot.and(SizeClass::from_index(index));
            PinnedClassStats {
                block_bytes: class.map_or(0, SizeClass::bytes),
                handed_out: sum.handed_out,
                live_blocks: sum.live(),
                requested_bytes: sum.requested,
                thread_blocks: sum.in_magazines(),
                depot_blocks: depot.map_or(0, |depot| depot.items() as u64),
            }
        })
        .collect()
    }

    /// Bytes of free blocks that any thread may take.
    pub(crate) fn depot_bytes(&self) -> u64 {
        let bytes_of = |(index, depot): (usize, &Depot<_>)| {
            let class = SizeClass::from_index(index).map_or(0, SizeClass::bytes);
            class * depot.items() as u64
        };
        self.depots.iter().enumerate().map(bytes_of).sum()
    }

    /// Bytes of free blocks that threads keep, or any thread may take.
    pub(crate) fn cached_bytes(&self) -> u64 {
        let mut stats = PinnedStats::default();
        self.count_classes(&mut stats);
        stats.cached_bytes
    }

    /// Adds what classes say. Sums wrap where threads are at it, and are then of no use.
    fn count_classes(&self, stats: &mut PinnedStats) {
        let mut handed_out = 0_u64;
        for class in self.class_stats() {
            let bytes = |blocks: u64| blocks.wrapping_mul(class.block_bytes);
            handed_out = handed_out.wrapping_add(class.handed_out);
            let add = |sum: &mut u64, more: u64| *sum = sum.wrapping_add(more);
            add(&mut stats.live_blocks, class.live_blocks);
            add(&mut stats.live_bytes, bytes(class.live_blocks));
            add(&mut stats.requested_bytes, class.requested_bytes);
            add(&mut stats.thread_bytes, bytes(class.thread_blocks));
            add(&mut stats.cached_bytes, bytes(class.thread_blocks));
            add(&mut stats.cached_bytes, bytes(class.depot_blocks));
        }
        stats.hits = handed_out.saturating_sub(stats.cuts + stats.misses);
    }
}
