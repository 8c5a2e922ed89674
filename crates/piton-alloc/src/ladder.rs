//! The recovery ladder: everything that is tried after the first search has found nothing, and the error at its end.
//!
//! First, in a crowded pool, the place that fits best (`crowd`). Then in this order, each step followed by a search:
//!
//! 1. what is complete by now; runs of neighbouring memory without a wait, then with one (`recovery`);
//! 2. the source: pages from holes, new pages, Blocks (`placement`);
//! 3. runs with a wait, if the configuration keeps them for last;
//! 4. memory of the other region;
//! 5. the program's callback, after which everything is tried once more;
//! 6. the error, which says where the memory is and what each step yielded.
//!
//! All of it runs under `turn`, except the callback.

use piton_driver::DriverError;

use crate::allocation::Allocation;
use crate::config::CrossLane;
use crate::error::{AllocError, FullNow};
use crate::placement::Placement;
use crate::pool::DevicePool;
use crate::recovery::Recovery;
use crate::region::Region;
use crate::request::Request;

/// How far the pool may grow for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// As its policy says, up to the limit.
    Usual,
    /// Up to the limit, and beyond what was ever held only for want of pages in holes and of Blocks that are idle.
    Sparing,
    /// Until so many bytes are held; no further, and not at all where that would not do.
    Within(u64),
}

impl Growth {
    /// Most bytes the pool may hold.
    pub(crate) fn most(self, limit: u64) -> u64 {
        match self {
            Self::Usual | Self::Sparing => limit,
            Self::Within(most) => most.min(limit),
        }
    }
}

impl DevicePool {
    #[cold]
    pub(crate) fn allocate_slowly(
        &self,
        request: &Request,
        region: Region,
    ) -> Result<Allocation, AllocError> {
        if let Some(found) = self.take_tightly(request, region) {
            return Ok(found);
        }
        let mut recovery = Recovery::default();
        let full = match self.climb(request, region, Growth::Usual, &mut recovery) {
            Err(AllocError::FullNow(full)) => full,
            served => return served,
        };
        if !self.ask_program(&full) {
            self.books.lock().note_out_of_memory(request);
            return Err(AllocError::FullNow(full));
        }
        recovery.callbacks += 1;
        let served = self.climb(request, region, Growth::Usual, &mut recovery);
        if matches!(served, Err(AllocError::FullNow(_))) {
            self.books.lock().note_out_of_memory(request);
        }
        served
    }

    /// Serves a large request by steps 1 to 4 alone, growing no further than told. `request` is one that makes sense.
    pub(crate) fn allocate_growing(
        &self,
        request: &Request,
        growth: Growth,
    ) -> Result<Allocation, AllocError> {
        self.source.status()?;
        self.climb(request, Region::Large, growth, &mut Recovery::default())
    }

    /// Steps 1 to 4.
    fn climb(
        &self,
        request: &Request,
        region: Region,
        growth: Growth,
        recovery: &mut Recovery,
    ) -> Result<Allocation, AllocError> {
        let turn = self.turn.lock();
        let _closed = self.fronts.close();
        self.recall();
        let waits = self.settings.cross_lane == CrossLane::Wait;
        self.books.lock().counters.misses += 1;
        if let Some(found) = self.recover_in(request, region, waits, recovery) {
            return Ok(found);
        }
        // Where memory comes as Blocks there is no other.
        let is_mapped = matches!(self.placement, Placement::Virtual(_));
        let other = is_mapped.then(|| region.other());
        if self.lives_on_its_reserve()
            && let Some(other) = other
            && let Some(found) = self.recover_in(request, other, waits, recovery)
        {
            return Ok(found);
        }
        let grown = self.grow(request, region, growth, recovery);
        let refusal = match grown {
            Ok(Some(found)) => {
                self.note_growth();
                return Ok(found);
            }
            Ok(None) => None,
            Err(error) if error.is_out_of_memory() => Some(error),
            Err(error) => return Err(AllocError::Driver(error)),
        };
        let may_wait = self.settings.cross_lane != CrossLane::Never;
        for region in [Some(region), other].into_iter().flatten() {
            if let Some(found) = self.recover_in(request, region, may_wait, recovery) {
                return Ok(found);
            }
        }
        drop(turn);
        Err(self.full_now(request, *recovery, refusal))
    }

    /// Grows until `bytes` bytes are held; returns how many are.
    pub(crate) fn hold(&self, bytes: u64) -> Result<u64, AllocError> {
        let turn = self.turn.lock();
        let mut recovery = Recovery::default();
        let held = self.books.lock().held;
        let Some(short) = bytes.checked_sub(held).filter(|short| *short > 0) else {
            return Ok(held);
        };
        let grown = match &self.placement {
            Placement::Blocks => self.add_idle_block(short, &mut recovery),
            Placement::Virtual(range) => self.map_ahead(range, short, &mut recovery),
        };
        drop(turn);
        let refusal = match grown {
            Ok(true) => return Ok(self.books.lock().held),
            Ok(false) => None,
            Err(error) if error.is_out_of_memory() => Some(error),
            Err(error) => return Err(AllocError::Driver(error)),
        };
        Err(self.full_now(&Request::new(short), recovery, refusal))
    }

    fn recover_in(
        &self,
        request: &Request,
        region: Region,
        waits: bool,
        recovery: &mut Recovery,
    ) -> Option<Allocation> {
        let mut books = self.books.lock();
        books.recover(request, region, &self.timeline, waits, recovery)
    }

    fn grow(
        &self,
        request: &Request,
        region: Region,
        growth: Growth,
        recovery: &mut Recovery,
    ) -> Result<Option<Allocation>, DriverError> {
        match &self.placement {
            Placement::Blocks => self.grow_blocks(request, region, growth, recovery),
            Placement::Virtual(range) => self.grow_range(range, request, region, growth, recovery),
        }
    }

    /// Whether the program reserved memory and the pool holds no more than that: then a small request takes a large
    /// one's memory before the source is asked.
    fn lives_on_its_reserve(&self) -> bool {
        let books = self.books.lock();
        books.reserved > 0 && books.held <= books.reserved
    }

    fn full_now(
        &self,
        request: &Request,
        recovery: Recovery,
        source_error: Option<DriverError>,
    ) -> AllocError {
        let books = self.books.lock();
        let stats = books.stats();
        let free = books.fragmentation(&self.placement);
        let rounded = request.bytes.next_multiple_of(self.settings.unit);
        AllocError::FullNow(Box::new(FullNow {
            requested: request.bytes,
            rounded,
            held: stats.held_bytes,
            live: stats.live_bytes,
            padding: stats.padding_bytes,
            cached: stats.cached_bytes,
            largest_hole: free.largest_hole,
            stealable: free.stealable,
            pending: stats.pending_bytes,
            frees_at: books.awaited(rounded, &free.pending),
            pending_on: free.pending,
            in_transit: stats.in_transit_bytes,
            suspended: stats.suspended_bytes,
            limit: self.settings.limit,
            recovery,
            source_error,
        }))
    }
}
