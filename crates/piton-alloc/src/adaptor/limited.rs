//! A limit on the bytes in use through one adaptor.

use piton_timeline::Frontier;

use super::quota::{Quota, Usage};
use super::{MemoryPool, pass_on};
use crate::allocation::Allocation;
use crate::error::{AllocError, FreeError};
use crate::request::Request;

/// A pool with a limit on the bytes in use at once, counted as they were asked for.
///
/// Requests that reach the same pool another way (through an [`Arc`](std::sync::Arc) of it) are not counted here.
#[derive(Debug)]
pub struct Limited<P> {
    pool: P,
    quota: Quota,
}

impl<P: MemoryPool> Limited<P> {
    /// Wraps `pool`, with at most `limit` bytes in use. A limit of 0 refuses everything.
    pub fn new(pool: P, limit: u64) -> Self {
        Self {
            pool,
            quota: Quota::new(limit),
        }
    }

    /// What is in use through this adaptor.
    pub fn usage(&self) -> Usage {
        self.quota.usage()
    }

    /// The pool inside.
    pub fn inner(&self) -> &P {
        &self.pool
    }
}

impl<P: MemoryPool> MemoryPool for Limited<P> {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        let refusal = |in_use| AllocError::LimitReached {
            requested: request.bytes,
            in_use,
            limit: self.quota.limit(),
        };
        self.quota.allocate(&self.pool, request, refusal)
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        self.quota.free(&self.pool, allocation, last_uses)
    }

    pass_on!();
}
