//! A pool with one owner: the same pool, without the price of being shared.
//!
//! Who has the pool for themselves needs no lock: `&mut self` says that nobody else is there, and the books are
//! reached through the lock without locking it. Fronts serve the one owner as well, since taking a chunk of just the right
//! size off a shelf is less than a search. What takes longer than the first look (recovery, the source) is the
//! shared pool's own way.

use std::ops::Deref;

use piton_timeline::Frontier;

use crate::allocation::Allocation;
use crate::error::{AllocError, FreeError};
use crate::pool::DevicePool;
use crate::request::Request;
use crate::reuse::LastUse;

/// A [`DevicePool`] of one owner: its short way takes no lock. It goes from thread to thread, and is used by one at a
/// time; [`OwnedPool::into_shared`] makes it a pool for all.
#[derive(Debug)]
pub struct OwnedPool(DevicePool);

impl OwnedPool {
    /// Hands out memory; see [`DevicePool::allocate`].
    ///
    /// # Errors
    /// As [`DevicePool::allocate`].
    pub fn allocate(&mut self, request: Request) -> Result<Allocation, AllocError> {
        let pool = &mut self.0;
        pool.source.status()?;
        pool.admit(&request)?;
        if let Some(found) = pool.take_from_front(&request) {
            return Ok(found);
        }
        let region = pool.placement.region_of(request.bytes);
        let books = pool.books.get_mut();
        if let Some(found) = books.take_at_once(&request, region, &pool.timeline) {
            books.counters.hits += 1;
            return Ok(found);
        }
        pool.allocate_slowly(&request, region)
    }

    /// Takes memory back; see [`DevicePool::free`].
    ///
    /// # Errors
    /// As [`DevicePool::free`].
    pub fn free(&mut self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        let pool = &mut self.0;
        if allocation.pool != pool.id {
            return Err(pool.refusal(allocation));
        }
        if pool.give_to_front(&allocation, LastUse::of(&allocation, &last_uses)) {
            return Ok(());
        }
        let Some((domain, last)) = pool.place_of(&allocation, &last_uses) else {
            return pool.free_of_several(allocation, last_uses);
        };
        let books = pool.books.get_mut();
        if books.give_back_simply(&allocation, domain, last) {
            Ok(())
        } else {
            Err(pool.refusal(allocation))
        }
    }

    /// The pool, to be shared.
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
