//! Chunks of page-locked memory that a copy goes through, one after the other.
//!
//! # The idea
//! Between memory that a device cannot reach by itself and memory that it can, bytes go through a few chunks of the pool:
//! while one is copied by a device, the next is filled or the last one emptied. Chunks in use are kept in the order of the
//! commands that use them, each with what the end of its use is waited for with: an event where a host waits, a timepoint
//! where a stream does. A copy takes fresh chunks up to a bound, or until the pool has none; from then on, the oldest.
//!
//! # Not here
//! Waiting, submitting, streams: what is to be waited for is the caller's to wait for.

use crate::{PinnedBlock, PinnedError, PinnedPool};
use std::collections::VecDeque;

/// Equal chunks of page-locked memory, taken in turn; `W` is what the end of a chunk's use is waited for with.
///
/// Dropping it gives its chunks back to the pool, which hands them out again when the devices are done.
#[derive(Debug)]
pub struct StagingRing<W> {
    pool: PinnedPool,
    chunk_bytes: usize,
    alignment: usize,
    most: usize,
    /// The one used longest ago. Here, so that a copy of one chunk asks the heap for nothing.
    oldest: Option<(PinnedBlock, W)>,
    /// Those used since, oldest first; none while there is no oldest.
    later: VecDeque<(PinnedBlock, W)>,
}

/// A chunk that a [`StagingRing`] hands out.
#[must_use = "a chunk is taken to be used"]
#[derive(Debug)]
pub enum Chunk<W> {
    /// Nobody uses it.
    Free(PinnedBlock),
    /// It was used longest ago, and is the caller's as soon as this has been waited for.
    InUse(PinnedBlock, W),
}

impl<W> StagingRing<W> {
    /// At most `most` chunks in use at once, of `chunk_bytes` bytes at multiples of `alignment`. Takes none yet.
    pub fn new(pool: &PinnedPool, chunk_bytes: usize, alignment: usize, most: usize) -> Self {
        Self {
            pool: pool.clone(),
            chunk_bytes,
            alignment,
            most,
            oldest: None,
            later: VecDeque::new(),
        }
    }

    /// The next chunk: the oldest if `is_over` says so of its use; else one more of the pool, as long as there may be more
    /// and the pool has any; else the oldest. May block on the driver, never on a device.
    ///
    /// # Errors
    /// As [`PinnedPool::allocate_aligned`], where no chunk is in use.
    pub fn take(&mut self, is_over: impl FnOnce(&W) -> bool) -> Result<Chunk<W>, PinnedError> {
        if self.oldest.as_ref().is_some_and(|(_, wait)| is_over(wait))
            && let Some((chunk, _)) = self.pop()
        {
            return Ok(Chunk::Free(chunk));
        }
        if usize::from(self.oldest.is_some()) + self.later.len() >= self.most
            && let Some(oldest) = self.take_oldest()
        {
            return Ok(oldest);
        }
        let more = self
            .pool
            .allocate_aligned(self.chunk_bytes, self.alignment)
            .map(Chunk::Free);
        more.or_else(|error| self.take_oldest().ok_or(error))
    }

    /// Keeps a chunk whose next use was submitted, and recorded in it.
    pub fn put(&mut self, chunk: PinnedBlock, wait: W) {
        match self.oldest {
            None => self.oldest = Some((chunk, wait)),
            Some(_) => self.later.push_back((chunk, wait)),
        }
    }

    /// The chunk that was used longest ago, of those in use.
    pub fn take_oldest(&mut self) -> Option<Chunk<W>> {
        let (chunk, wait) = self.pop()?;
        Some(Chunk::InUse(chunk, wait))
    }

    fn pop(&mut self) -> Option<(PinnedBlock, W)> {
        let next = self.later.pop_front();
        std::mem::replace(&mut self.oldest, next)
    }
}
