//! What is measured: something that hands out blocks of memory to threads.

use crate::{general, host_device::HostDevice, locked};
use piton_pinned::{PinnedBlock, PinnedPool, PinnedPoolConfig};
use piton_timeline::Timeline;

/// Hands out blocks. Inlined always where it is implemented, so that each is called as a program calls it.
pub(crate) trait Subject: Send + Sync {
    /// A block that is out.
    type Block: Send;

    /// A block of at least `bytes` bytes. What cannot be had ends the benchmark.
    fn allocate(&self, bytes: usize) -> Self::Block;

    /// Takes a block back, on whatever thread.
    fn free(&self, block: Self::Block);
}

impl Subject for PinnedPool {
    type Block = PinnedBlock;

    #[expect(clippy::expect_used, reason = "a benchmark without memory ends")]
    #[inline(always)]
    fn allocate(&self, bytes: usize) -> PinnedBlock {
        PinnedPool::allocate(self, bytes).expect("the cap is above what is live")
    }

    #[inline(always)]
    fn free(&self, block: PinnedBlock) {
        drop(block);
    }
}

/// A pool over host pages that are not locked: what is measured is the pool.
#[expect(clippy::expect_used, reason = "a benchmark without a pool ends")]
pub(crate) fn pool(config: PinnedPoolConfig) -> PinnedPool {
    PinnedPool::new(HostDevice::new(), Timeline::new(), config).expect("a valid configuration")
}

/// What is done with each of the subjects.
pub(crate) trait Visit {
    /// Measures one subject.
    fn visit<S: Subject>(&mut self, name: &'static str, subject: &S);
}

/// Has each subject measured, the pool first.
pub(crate) fn visit_all(visit: &mut impl Visit) {
    visit.visit("piton", &pool(PinnedPoolConfig::default()));
    visit.visit("mimalloc", &general::Mimalloc);
    visit.visit("jemalloc", &general::Jemalloc);
    visit.visit("mutex TLSF", &locked::MutexTlsf::new());
    visit.visit("ArrayQueue a class", &locked::QueuePerClass::new());
    visit.visit("map and lock", &locked::MapAndLock);
}

/// The middle one.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
