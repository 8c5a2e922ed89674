//! Bytes in use, with a limit.
//!
//! # Protocol
//! `in_use` is changed by single read-modify-writes. A charge that would exceed the limit changes nothing, so at no
//! moment are more than `limit` bytes in use, however many threads charge at once. `peak` and `allocations` follow,
//! and order nothing.

use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::Frontier;

use super::MemoryPool;
use crate::allocation::Allocation;
use crate::error::{AllocError, FreeError};
use crate::request::Request;

/// What part of a program uses of a pool at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes asked for by allocations in use.
    pub live_bytes: u64,
    /// Most bytes in use at once.
    pub peak_live_bytes: u64,
    /// Allocations in use.
    pub allocations: u64,
    /// Requests refused because of the limit.
    pub refused: u64,
    /// Most bytes that may be in use; `u64::MAX` without a limit.
    pub limit_bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: u64,
    in_use: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    refused: AtomicU64,
}

impl Quota {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes `bytes` of what is left, or says how much is in use.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), u64> {
        let charged = |in_use: u64| in_use.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let changed = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        match changed {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                self.allocations.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(in_use) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(in_use)
            }
        }
    }

    /// Gives back what was charged.
    pub(crate) fn refund(&self, bytes: u64) {
        let reduced = |number: u64, by: u64| Some(number.saturating_sub(by));
        let (relaxed, count) = (Ordering::Relaxed, &self.allocations);
        // Neither fails: both closures always answer. Memory that never came through here must not wrap the count.
        let _ = self
            .in_use
            .fetch_update(relaxed, relaxed, |number| reduced(number, bytes));
        let _ = count.fetch_update(relaxed, relaxed, |number| reduced(number, 1));
    }

    /// Charges a request, asks the pool for it, and gives the charge back if the pool refuses. `refusal` makes the error of
    /// a full quota from the bytes in use.
    pub(crate) fn allocate(
        &self,
        pool: &impl MemoryPool,
        request: Request,
        refusal: impl FnOnce(u64) -> AllocError,
    ) -> Result<Allocation, AllocError> {
        self.charge(request.bytes).map_err(refusal)?;
        let served = pool.allocate(request);
        if served.is_err() {
            self.refund(request.bytes);
        }
        served
    }

    /// Gives memory back to the pool, and its charge with it if the pool takes it.
    pub(crate) fn free(
        &self,
        pool: &impl MemoryPool,
        allocation: Allocation,
        last_uses: Frontier,
    ) -> Result<(), FreeError> {
        let bytes = allocation.bytes();
        pool.free(allocation, last_uses)?;
        self.refund(bytes);
        Ok(())
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            live_bytes: self.in_use.load(Ordering::Relaxed),
            peak_live_bytes: self.peak.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            limit_bytes: self.limit,
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    #[test]
    fn two_that_charge_at_once_never_pass_the_limit() {
        model(|| {
            let quota = Arc::new(Quota::new(10));
            let other = Arc::clone(&quota);
            let second = thread::spawn(move || other.charge(6).is_ok());
            let first = quota.charge(6).is_ok();
            let second = second.join().unwrap();
            assert!(first != second, "one of them has the room");
            assert_eq!(quota.usage().live_bytes, 6);
            quota.refund(6);
            assert_eq!((quota.usage().live_bytes, quota.usage().refused), (0, 1));
        });
    }
}
