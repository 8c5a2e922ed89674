//! Allocations without their pages: suspended, and resumed at the same addresses.
//!
//! # The idea
//! A server that sleeps, or a step that needs the device for something else, gives its pages back and keeps its
//! addresses, so that pointers in tables and recorded graphs stay valid. Contents are lost; whoever needs them copies
//! them away before and back afterwards.
//!
//! The allocations' handles go into [`Suspended`], so no safe program can name the memory meanwhile.
//!
//! # What can go
//! A mapping goes as a whole, so it goes if each byte of it belongs to a suspended allocation or is free for all. The
//! free bytes are claimed with it (a *filling*) and come back with the pages. So what is missing is always whole
//! pages, and unbacked extents of the index still begin and end at pages.
//!
//! # Calls that fail
//! Each call is counted in the books when it has succeeded, and there is no undo. A suspension that was cut short has
//! some of its pages left; a resumption has some of them back already. [`Suspended`] is valid in either state, and
//! can be resumed or discarded whatever happened before.

#![expect(
    unsafe_code,
    reason = "unmapping is unsafe: nothing may use the memory any more"
)]

mod apart;

use piton_driver::{DeviceRange, DriverError, VirtualMemory};
use piton_suballoc::Chunk;
use piton_timeline::{Frontier, Timepoint};

use super::VirtualRange;
use super::policy::Policy;
use super::supply::Supply;
use crate::allocation::{Allocation, PoolId};
use crate::error::{ResumeError, ResumeErrorKind, SuspendError, SuspendErrorKind};
use crate::events::MemoryEventKind;
use crate::ladder::Growth;
use crate::placement::Placement;
use crate::pool::DevicePool;
use crate::recovery::Recovery;
use crate::region::Region;
use crate::reuse::{self, Disposal};

/// What is suspended, as the books count it. All in bytes but the number of fillings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SuspendedBytes {
    /// Of allocations, without pages.
    pub(crate) live: u64,
    /// Fillings: chunks of the index that are no allocations.
    pub(crate) fillings: u64,
    /// Of those, with pages and without.
    pub(crate) backed: u64,
    pub(crate) hollow: u64,
}

/// Free memory that shares a mapping with suspended allocations.
#[derive(Debug)]
struct Filling {
    chunk: Chunk,
    region: Region,
}

/// Allocations whose pages have gone back to the device, or some of them. They keep their addresses.
/// [`DevicePool::resume`] brings them back; [`DevicePool::discard`] frees them. If this is dropped instead, the pool
/// loses their addresses.
#[derive(Debug)]
#[must_use = "what is neither resumed nor discarded keeps its addresses for ever"]
pub struct Suspended {
    pool: PoolId,
    allocations: Vec<Allocation>,
    fillings: Vec<Filling>,
    released: u64,
    error: Option<DriverError>,
}

impl Suspended {
    /// Bytes of the pages that went back. Less than the allocations have where they share mappings with others.
    #[must_use]
    pub const fn released(&self) -> u64 {
        self.released
    }

    /// The error of the call that cut the suspension short, if one failed. The pages of that call, and of those that
    /// would have followed, are still mapped.
    #[must_use]
    pub const fn error(&self) -> Option<DriverError> {
        self.error
    }

    /// The addresses of the allocations, which they have again when they are resumed.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = DeviceRange> {
        self.allocations.iter().map(Allocation::range)
    }

    /// Bytes of the fillings that lie in `start..end`.
    fn filled(&self, start: u64, end: u64) -> u64 {
        let overlap = |filling: &Filling| {
            let chunk = &filling.chunk;
            let upto = end.min(chunk.offset + chunk.bytes);
            upto.saturating_sub(start.max(chunk.offset))
        };
        self.fillings.iter().map(overlap).sum()
    }
}

impl DevicePool {
    /// Gives the pages of allocations back to the device and keeps their addresses. Their contents are lost. Calls
    /// the source, which may block.
    ///
    /// `last_uses` must cover every command that names the memory, and all of them must be complete. A mapping that
    /// also backs other live memory stays, so suspend together what was allocated together.
    ///
    /// # Errors
    /// [`SuspendError`] with the allocations, and nothing has changed: where the pool holds Blocks, for allocations
    /// of another pool, and where a use is not complete. [`Suspended::error`] reports a call that fails later.
    pub fn suspend(
        &self,
        allocations: Vec<Allocation>,
        last_uses: &Frontier,
    ) -> Result<Suspended, SuspendError> {
        let refused = |kind, allocations| SuspendError { allocations, kind };
        let (Placement::Virtual(range), Some(memory)) =
            (&self.placement, self.source.virtual_memory())
        else {
            return Err(refused(SuspendErrorKind::NoVirtualAddressing, allocations));
        };
        if let Some(kind) = self.why_not_suspended(&allocations, last_uses) {
            return Err(refused(kind, allocations));
        }
        let _turn = self.turn.lock();
        let _closed = self.fronts.close();
        self.recall();
        let mut books = self.books.lock();
        books.drain(&self.timeline);
        let mut suspended = Suspended {
            pool: self.id,
            allocations,
            fillings: Vec::new(),
            released: 0,
            error: None,
        };
        let going = books.set_apart(range.page, &mut suspended);
        drop(books);
        let unmapped = going.into_iter().try_for_each(|(first, pages)| {
            self.unmap_suspended(range, memory, first, pages, &mut suspended)
        });
        suspended.error = unmapped.and_then(|()| self.destroy_spares(memory)).err();
        Ok(suspended)
    }

    /// Maps pages under suspended allocations again. They are as they were, except for their contents. Calls the
    /// source, which may block.
    ///
    /// # Errors
    /// [`ResumeError`] with what is suspended, so that it can be tried again: for allocations of another pool, where
    /// the pool's limit leaves no room, and when the source fails or has no memory. The pages mapped until then stay.
    pub fn resume(&self, mut suspended: Suspended) -> Result<Vec<Allocation>, ResumeError> {
        match self.map_suspended(&mut suspended) {
            Err(kind) => Err(ResumeError {
                suspended: Box::new(suspended),
                kind,
            }),
            Ok(()) => {
                let mut books = self.books.lock();
                for filling in suspended.fillings {
                    books.suspended.fillings -= 1;
                    books.suspended.backed -= filling.chunk.bytes;
                    let shared = books.everyones(filling.region);
                    let freed = books.index.free(filling.chunk.id, shared, 0);
                    debug_assert!(freed.is_ok());
                }
                Ok(suspended.allocations)
            }
        }
    }

    /// Frees suspended allocations: their addresses, and whatever pages they still have. Does not call the source.
    ///
    /// # Errors
    /// The argument, if it belongs to another pool.
    pub fn discard(&self, suspended: Suspended) -> Result<(), Box<Suspended>> {
        if suspended.pool != self.id {
            return Err(Box::new(suspended));
        }
        let mut books = self.books.lock();
        for allocation in &suspended.allocations {
            books.discard(allocation);
        }
        for filling in suspended.fillings {
            let chunk = &filling.chunk;
            let hollow = books.hollow_in(chunk.offset, chunk.bytes);
            books.suspended.fillings -= 1;
            books.suspended.hollow -= hollow;
            books.suspended.backed -= filling.chunk.bytes - hollow;
            books.give_back_stretches(filling.chunk, filling.region, || Disposal::Anyone);
        }
        Ok(())
    }

    fn why_not_suspended(
        &self,
        allocations: &[Allocation],
        last_uses: &Frontier,
    ) -> Option<SuspendErrorKind> {
        let is_pending = |point: &Timepoint| !self.timeline.is_complete(*point);
        for allocation in allocations {
            if allocation.pool != self.id {
                return Some(SuspendErrorKind::ForeignPool {
                    belongs: allocation.pool,
                    asked: self.id,
                });
            }
            let uses = reuse::uses_to_respect(allocation, last_uses.clone(), &self.timeline);
            if let Some(pending) = uses.points().iter().copied().find(is_pending) {
                return Some(SuspendErrorKind::InUse { pending });
            }
        }
        None
    }

    fn unmap_suspended(
        &self,
        range: &VirtualRange,
        memory: &dyn VirtualMemory,
        first: u64,
        pages: u64,
        suspended: &mut Suspended,
    ) -> Result<(), DriverError> {
        let (offset, bytes) = (first * range.page, pages * range.page);
        let mut books = self.books.lock();
        let Some(start) = books.blocks.address_of(offset) else {
            return Ok(());
        };
        books.counters.page_calls += 1;
        drop(books);
        let pages_at = DeviceRange { start, bytes };
        // SAFETY: each byte is a suspended allocation's or was free for all, and is claimed. The former's handles lie in
        // `suspended`, whose owner has named their last uses, as whoever frees does; all are complete.
        unsafe { memory.unmap(pages_at) }?;
        let filled = suspended.filled(offset, offset + bytes);
        let mut books = self.books.lock();
        books.note(MemoryEventKind::PagesUnmapped, pages_at, None);
        books.set_aside(first, pages);
        books.outside += bytes;
        books.suspended.live += bytes - filled;
        books.suspended.hollow += filled;
        books.suspended.backed -= filled;
        suspended.released += bytes;
        Ok(())
    }

    fn destroy_spares(&self, memory: &dyn VirtualMemory) -> Result<(), DriverError> {
        while self.destroy_spare(memory)? {}
        Ok(())
    }

    fn map_suspended(&self, suspended: &mut Suspended) -> Result<(), ResumeErrorKind> {
        let (Placement::Virtual(range), Some(memory)) =
            (&self.placement, self.source.virtual_memory())
        else {
            return Err(foreign(suspended, self));
        };
        if suspended.pool != self.id {
            return Err(foreign(suspended, self));
        }
        let _turn = self.turn.lock();
        let _closed = self.fronts.close();
        self.recall();
        let mut books = self.books.lock();
        books.drain(&self.timeline);
        let missing = books.missing_pages(range.page, suspended);
        let policy = Policy::now(&books, &self.settings, 0, Growth::Usual);
        drop(books);
        let mut left: u64 = missing.iter().map(|(_, pages)| pages).sum();
        let mut supply = Supply {
            pool: self,
            range,
            memory,
            policy,
            recovery: &mut Recovery::default(),
        };
        if !supply.prepare(left)? {
            return Err(ResumeErrorKind::NoRoom {
                missing: left * range.page,
                held: self.books.lock().held,
                limit: self.settings.limit,
            });
        }
        for (first, pages) in missing {
            left -= pages;
            supply.map_noting(first, pages, left, |books, mapping| {
                let (start, end) = (
                    mapping.first * range.page,
                    (mapping.first + mapping.pages) * range.page,
                );
                let filled = suspended.filled(start, end);
                books.suspended.live -= end - start - filled;
                books.suspended.hollow -= filled;
                books.suspended.backed += filled;
            })?;
        }
        Ok(())
    }
}

fn foreign(suspended: &Suspended, pool: &DevicePool) -> ResumeErrorKind {
    ResumeErrorKind::ForeignPool {
        belongs: suspended.pool,
        asked: pool.id,
    }
}
