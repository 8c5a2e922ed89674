//! A pool with one owner: the same pool, without the cost of sharing.
//!
//! A single owner needs no lock: `&mut self` proves that nobody else is there, and the books are reached through the
//! lock without locking it. Fronts serve the owner as well, because taking a chunk of exactly the right size off a
//! shelf costs less than a search. What takes longer than the first search (recovery, the source) uses the shared
//! pool's path.

use std::ops::Deref;

use piton_timeline::Frontier;

use crate::allocation::{Allocation, Taken};
use crate::error::{AllocError, FreeError};
use crate::pool::DevicePool;
use crate::request::Request;
use crate::reuse::LastUse;

/// A [`DevicePool`] with one owner, whose fast path takes no lock. It can move between threads, and one uses it at a
/// time. [`OwnedPool::into_shared`] turns it into a pool for all.
#[derive(Debug)]
pub struct OwnedPool(DevicePool);

impl OwnedPool {
    /// Allocates memory; see [`DevicePool::allocate`].
    ///
    /// # Errors
    /// As [`DevicePool::allocate`].
    #[inline]
    pub fn allocate(&mut self, request: Request) -> Result<Allocation, AllocError> {
        match self.take_quickly(&request) {
            Some(taken) => Ok(taken.handle(self.0.id, &request)),
            None => self
                .0
                .allocate_carefully(&request)
                .map(|found| *found)
                .map_err(|error| *error),
        }
    }

    fn take_quickly(&mut self, request: &Request) -> Option<Taken> {
        let pool = &mut self.0;
        if !pool.may_serve(request) {
            return None;
        }
        if let Some(found) = pool.take_from_front(request) {
            return Some(found);
        }
        let region = pool.settings.region_of(request.bytes);
        let books = pool.books.get_mut();
        if books.is_crowded_for(region) {
            return None;
        }
        let found = books.take_at_once(request, region)?;
        books.counters.hits += 1;
        Some(found)
    }

    /// Frees memory; see [`DevicePool::free`].
    ///
    /// # Errors
    /// As [`DevicePool::free`].
    // In the caller's code: a frontier that is moved waits for the words it was written in.
    #[inline(always)]
    pub fn free(&mut self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        if self.take_back(&allocation, &last_uses) {
            return Ok(());
        }
        self.0.free_carefully(allocation, last_uses)
    }

    fn take_back(&mut self, allocation: &Allocation, last_uses: &Frontier) -> bool {
        let last = LastUse::of(allocation, last_uses);
        let pool = &mut self.0;
        if allocation.pool != pool.id || matches!(last, LastUse::Several) {
            return false;
        }
        if pool.give_to_front(allocation, last) {
            return true;
        }
        pool.books.get_mut().give_back_simply(allocation, last)
    }

    /// Turns this into a pool that threads can share.
    #[must_use]
    pub fn into_shared(self) -> DevicePool {
        self.0
    }
}

impl From<DevicePool> for OwnedPool {
    fn from(pool: DevicePool) -> Self {
        Self(pool)
    }
}

/// Everything that is no matter of nanoseconds.
impl Deref for OwnedPool {
    type Target = DevicePool;

    fn deref(&self) -> &DevicePool {
        &self.0
    }
}
