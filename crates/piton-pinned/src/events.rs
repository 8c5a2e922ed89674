//! What happens rarely and is counted once for all threads. Statistics only: nothing is decided by these numbers.

use piton_sync::{
    CachePadded,
    atomic::{AtomicU64, Ordering},
};

/// Counters shared by all threads; Relaxed, since they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Events {
    cuts: CachePadded<AtomicU64>,
    misses: AtomicU64,
    failures: AtomicU64,
    tend_failures: AtomicU64,
    /// Bytes of blocks of no size class that are out.
    exact_bytes: AtomicU64,
}

impl Events {
    pub(crate) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tend_failure(&self) {
        self.tend_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn exact_out(&self, bytes: u64) {
        self.exact_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn exact_back(&self, bytes: u64) {
        self.exact_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn tend_failures(&self) -> u64 {
        self.tend_failures.load(Ordering::Relaxed)
    }

    pub(crate) fn exact_bytes(&self) -> u64 {
        self.exact_bytes.load(Ordering::Relaxed)
    }
}
