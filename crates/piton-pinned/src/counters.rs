//! What the pool counts as it goes. Statistics only: nothing is decided by these numbers.

use crate::span::Span;
use piton_sync::{
    CachePadded,
    atomic::{AtomicU64, Ordering},
};

/// Counters shared by all threads; Relaxed, since they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    hits: CachePadded<AtomicU64>,
    cuts: AtomicU64,
    misses: AtomicU64,
    failures: AtomicU64,
    live_blocks: CachePadded<AtomicU64>,
    live_bytes: AtomicU64,
    requested_bytes: AtomicU64,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) cuts: u64,
    pub(crate) misses: u64,
    pub(crate) failures: u64,
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    pub(crate) requested_bytes: u64,
}

impl Counters {
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handed_out(&self, span: &Span, requested: u64) {
        self.live_blocks.fetch_add(1, Ordering::Relaxed);
        self.live_bytes.fetch_add(span.bytes, Ordering::Relaxed);
        self.requested_bytes.fetch_add(requested, Ordering::Relaxed);
    }

    pub(crate) fn taken_back(&self, span: &Span, requested: u64) {
        self.live_blocks.fetch_sub(1, Ordering::Relaxed);
        self.live_bytes.fetch_sub(span.bytes, Ordering::Relaxed);
        self.requested_bytes.fetch_sub(requested, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            hits: load(&self.hits),
            cuts: load(&self.cuts),
            misses: load(&self.misses),
            failures: load(&self.failures),
            live_blocks: load(&self.live_blocks),
            live_bytes: load(&self.live_bytes),
            requested_bytes: load(&self.requested_bytes),
        }
    }
}
