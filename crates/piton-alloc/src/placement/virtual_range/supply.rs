//! Handles for pages that are to be mapped: spare ones, new ones, and what is done when the device has none.

#![expect(
    unsafe_code,
    reason = "mapping is unsafe: nothing may use the addresses yet"
)]

use piton_driver::{DeviceRange, DriverError, PhysicalHandle, VirtualMemory};

use super::VirtualRange;
use super::policy::Policy;
use super::table::Mapping;
use crate::books::Books;
use crate::events::MemoryEventKind;
use crate::pool::DevicePool;
use crate::recovery::Recovery;

/// One growth's way to the source.
pub(super) struct Supply<'a> {
    pub(super) pool: &'a DevicePool,
    pub(super) range: &'a VirtualRange,
    pub(super) memory: &'a dyn VirtualMemory,
    pub(super) policy: Policy,
    pub(super) recovery: &'a mut Recovery,
}

impl Supply<'_> {
    /// Sees to it that `wanted` pages can be had: from spare handles, by new ones below the soft limit, from holes, by
    /// new ones below the limit, in this order. `false`, with nothing
    /// taken, if there are not so many.
    pub(super) fn prepare(&mut self, wanted: u64) -> Result<bool, DriverError> {
        let (spare, held) = self.spare_and_held();
        let room = self.policy.soft.saturating_sub(held);
        let most = self.policy.limit.saturating_sub(held);
        if spare + most < wanted && self.stealable() + spare + most < wanted {
            return Ok(false);
        }
        if spare + room < wanted {
            let short = wanted - spare - room;
            let taken = self
                .pool
                .steal(self.range, self.memory, short.max(self.policy.step))?;
            self.recovery.stolen += taken * self.range.page;
        }
        let (spare, held) = self.spare_and_held();
        Ok(spare + self.policy.limit.saturating_sub(held) >= wanted)
    }

    /// Maps the pages from `first` on, all of them claimed; `left` more are wanted after these.
    pub(super) fn map(&mut self, first: u64, pages: u64, left: u64) -> Result<(), DriverError> {
        let page = self.range.page;
        self.map_noting(first, pages, left, |books, mapping| {
            books.claims.hollow -= mapping.pages * page;
            books.claims.backed += mapping.pages * page;
        })
    }

    /// The same for pages that are counted otherwise: `note` does so for each mapping.
    pub(super) fn map_noting(
        &mut self,
        first: u64,
        pages: u64,
        left: u64,
        note: impl Fn(&mut Books, &Mapping),
    ) -> Result<(), DriverError> {
        let mut at = first;
        let end = first + pages;
        while at < end {
            let (handle, got) = self.handle(end - at, left + end - at)?;
            self.map_one(at, handle, got, &note)?;
            at += got;
        }
        Ok(())
    }

    fn map_one(
        &self,
        first: u64,
        handle: PhysicalHandle,
        pages: u64,
        note: impl Fn(&mut Books, &Mapping),
    ) -> Result<(), DriverError> {
        let bytes = pages * self.range.page;
        let mut books = self.pool.books.lock();
        books.counters.page_calls += 1;
        let start = books.blocks.address_of(first * self.range.page);
        drop(books);
        let mapped = match start {
            // SAFETY: no command names the addresses. They are unbacked in the index and claimed by this growth, and
            // handed out after this call at the earliest; or of suspended allocations, whose handles are kept away
            // from everybody until it has returned. The handle is one that this pool created, mapped here alone.
            Some(start) => unsafe { self.memory.map(start, handle) },
            None => Ok(()),
        };
        let mut books = self.pool.books.lock();
        if let Err(error) = mapped {
            books.pages.put_spare(handle, pages);
            return Err(error);
        }
        let mapping = Mapping {
            handle,
            first,
            pages,
        };
        books.pages.insert(mapping);
        if let Some(start) = start {
            let range = DeviceRange { start, bytes };
            books.note(MemoryEventKind::PagesMapped, range, None);
        }
        books.outside -= bytes;
        note(&mut books, &mapping);
        Ok(())
    }

    /// A handle of at most `most` pages, of `left` that are still wanted in all. It counts as outside the index.
    fn handle(&mut self, most: u64, left: u64) -> Result<(PhysicalHandle, u64), DriverError> {
        let size = most.min(self.policy.handle).max(1);
        loop {
            let mut books = self.pool.books.lock();
            let fits = books.pages.largest_spare(most);
            if fits.is_some_and(|pages| pages >= size || 2 * pages >= most)
                && let Some(found) = books.pages.take_spare(most)
            {
                return Ok(found);
            }
            let (spare, held) = (books.pages.spare_pages(), books.held / self.range.page);
            drop(books);
            let needed = (held + left).saturating_sub(spare).min(self.policy.limit);
            if held + size > self.policy.soft.max(needed) && self.destroy()? {
                continue;
            }
            match self.create(size) {
                Ok(handle) => return Ok((handle, size)),
                Err(error) if error.is_out_of_memory() => self.make_room(size, error)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn create(&mut self, pages: u64) -> Result<PhysicalHandle, DriverError> {
        let bytes = pages * self.range.page;
        self.pool.books.lock().counters.page_calls += 1;
        let handle = self.memory.create(bytes)?;
        let mut books = self.pool.books.lock();
        books.held += bytes;
        books.outside += bytes;
        books.counters.peak_held = books.counters.peak_held.max(books.held);
        Ok(handle)
    }

    /// The device has less than the limit says: others use it. Gives it something back, or gives up.
    fn make_room(&mut self, pages: u64, refusal: DriverError) -> Result<(), DriverError> {
        self.recovery.refused += 1;
        if self.destroy()? {
            return Ok(());
        }
        let taken = self.pool.steal(self.range, self.memory, pages)?;
        self.recovery.stolen += taken * self.range.page;
        if taken > 0 { Ok(()) } else { Err(refusal) }
    }

    fn destroy(&self) -> Result<bool, DriverError> {
        self.pool.destroy_spare(self.memory)
    }

    /// Pages that can be taken from holes.
    fn stealable(&self) -> u64 {
        let books = self.pool.books.lock();
        books.stealable(self.range.page) / self.range.page - books.pages.spare_pages()
    }

    fn spare_and_held(&self) -> (u64, u64) {
        let books = self.pool.books.lock();
        (books.pages.spare_pages(), books.held / self.range.page)
    }
}
