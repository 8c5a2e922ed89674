//! Counts of the requests that pass through.

use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::Frontier;

use super::quota::{Quota, Usage};
use super::{MemoryPool, pass_on};
use crate::allocation::Allocation;
use crate::error::{AllocError, FreeError};
use crate::request::Request;

/// Buckets of sizes: bucket `n` counts requests of `2^n` to `2^(n+1) - 1` bytes.
pub const SIZE_BUCKETS: usize = 64;

/// What was asked for through a [`Counted`] pool so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCounts {
    /// What is in use.
    pub usage: Usage,
    /// Requests that were served.
    pub served: u64,
    /// Requests that were refused, by the pool or by an adaptor inside.
    pub failed: u64,
    /// Bytes asked for by requests that were served.
    pub served_bytes: u64,
    /// Requests by size, failed ones too; requests of 0 bytes count in bucket 0.
    pub by_size: [u64; SIZE_BUCKETS],
}

/// A pool that counts the requests made to it. The counters are shared: a call takes a few nanoseconds more, and more
/// than that where many threads allocate.
#[derive(Debug)]
pub struct Counted<P> {
    pool: P,
    quota: Quota,
    served: AtomicU64,
    failed: AtomicU64,
    bytes_served: AtomicU64,
    by_size: [AtomicU64; SIZE_BUCKETS],
}

impl<P: MemoryPool> Counted<P> {
    /// Wraps `pool` and counts requests from now on.
    pub fn new(pool: P) -> Self {
        Self {
            pool,
            quota: Quota::new(u64::MAX),
            served: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            bytes_served: AtomicU64::new(0),
            by_size: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The counts now. Each is exact, but while other threads allocate they need not belong to one moment.
    pub fn counts(&self) -> RequestCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestCounts {
            usage: self.quota.usage(),
            served: read(&self.served),
            failed: read(&self.failed),
            served_bytes: read(&self.bytes_served),
            by_size: std::array::from_fn(|bucket| read(&self.by_size[bucket])),
        }
    }

    /// The pool inside.
    pub fn inner(&self) -> &P {
        &self.pool
    }
}

impl<P: MemoryPool> MemoryPool for Counted<P> {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        let add = |counter: &AtomicU64, number| counter.fetch_add(number, Ordering::Relaxed);
        let bucket = request.bytes.checked_ilog2().unwrap_or(0);
        if let Some(counter) = self.by_size.get(bucket as usize) {
            add(counter, 1);
        }
        let served = self.pool.allocate(request);
        // There is no limit to pass, and a count that memory could not reach cannot overflow.
        if served.is_ok() && self.quota.charge(request.bytes).is_ok() {
            add(&self.served, 1);
            add(&self.bytes_served, request.bytes);
        } else {
            add(&self.failed, 1);
        }
        served
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        self.quota.free(&self.pool, allocation, last_uses)
    }

    pass_on!();
}
