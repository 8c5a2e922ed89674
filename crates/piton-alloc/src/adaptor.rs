//! Adaptors: what a program wants from a pool besides memory, stacked around any pool.
//!
//! # The idea
//! A pool allocates and frees memory: [`MemoryPool`]. Everything else is a pool around a pool, which passes on what
//! it does not refuse. So limits, counts, logs and faults can be combined in any order, a test can put faults under a
//! limit or over it, and the pool itself knows nothing about them.
//!
//! | I want to … | take |
//! |---|---|
//! | bound what one part of a program uses | [`Limited`] |
//! | bound what each tag uses, and see it | [`Tagged`] |
//! | count what passes by | [`Counted`] |
//! | write down a trace that `piton replay` reads | [`Logged`] |
//! | see what a program does without memory | [`Failing`] |
//!
//! # Guarantees
//! - An adaptor refuses before it asks the pool, so a refusal costs the pool nothing. What the pool refuses leaves
//!   the adaptor as if it had not been asked.
//! - Free through the adaptor what was allocated through it: memory that is freed directly in the inner pool still
//!   counts as in use.
//! - No adaptor holds a lock while it calls the pool inside.

mod counted;
mod failing;
mod limited;
mod logged;
mod quota;
mod tagged;

pub use counted::{Counted, RequestCounts, SIZE_BUCKETS};
pub use failing::{FailWhen, Failing};
pub use limited::Limited;
pub use logged::Logged;
pub use quota::Usage;
pub use tagged::{Tag, Tagged};

use std::fmt;
use std::sync::Arc;

use piton_driver::DevicePtr;
use piton_timeline::Frontier;

use crate::allocation::{Allocation, AllocationInfo};
use crate::error::{AllocError, FreeError};
use crate::pool::DevicePool;
use crate::request::Request;
use crate::stats::PoolStats;

/// Something that hands out device memory in stream order: a [`DevicePool`], or an adaptor around one.
pub trait MemoryPool: fmt::Debug + Send + Sync {
    /// Allocates memory; see [`DevicePool::allocate`].
    ///
    /// # Errors
    /// As [`DevicePool::allocate`], and whatever an adaptor refuses.
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError>;

    /// Frees memory; see [`DevicePool::free`].
    ///
    /// # Errors
    /// [`FreeError`] with the allocation if it belongs to another pool.
    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError>;

    /// Gives idle memory back to the device; see [`DevicePool::trim`].
    fn trim(&self, keep: u64) -> u64;

    /// The counters of the pool inside.
    fn stats(&self) -> PoolStats;

    /// What lies at an address; see [`DevicePool::lookup`].
    fn lookup(&self, address: DevicePtr) -> Option<AllocationInfo>;
}

impl MemoryPool for DevicePool {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        Self::allocate(self, request)
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        Self::free(self, allocation, last_uses)
    }

    fn trim(&self, keep: u64) -> u64 {
        Self::trim(self, keep)
    }

    fn stats(&self) -> PoolStats {
        Self::stats(self)
    }

    fn lookup(&self, address: DevicePtr) -> Option<AllocationInfo> {
        Self::lookup(self, address)
    }
}

/// So that several adaptors can stand around one pool.
impl<P: MemoryPool + ?Sized> MemoryPool for Arc<P> {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        (**self).allocate(request)
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        (**self).free(allocation, last_uses)
    }

    fn trim(&self, keep: u64) -> u64 {
        (**self).trim(keep)
    }

    fn stats(&self) -> PoolStats {
        (**self).stats()
    }

    fn lookup(&self, address: DevicePtr) -> Option<AllocationInfo> {
        (**self).lookup(address)
    }
}

/// What an adaptor passes on unseen.
macro_rules! pass_on {
    () => {
        fn trim(&self, keep: u64) -> u64 {
            self.pool.trim(keep)
        }

        fn stats(&self) -> crate::stats::PoolStats {
            self.pool.stats()
        }

        fn lookup(
            &self,
            address: piton_driver::DevicePtr,
        ) -> Option<crate::allocation::AllocationInfo> {
            self.pool.lookup(address)
        }
    };
}
use pass_on;
