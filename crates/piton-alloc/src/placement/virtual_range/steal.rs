//! Taking pages out of holes.

#![expect(
    unsafe_code,
    reason = "unmapping is unsafe: nothing may use the memory any more"
)]

use piton_driver::{DeviceRange, DriverError, VirtualMemory};
use piton_suballoc::Extent;

use super::VirtualRange;
use crate::books::Books;
use crate::events::MemoryEventKind;
use crate::pool::DevicePool;
use crate::region::Region;

/// Mappings of a hole that may go.
#[derive(Clone, Copy, Debug)]
struct Loot {
    hole: Extent,
    region: Region,
    first: u64,
    pages: u64,
}

impl DevicePool {
    /// Unmaps whole mappings in holes until at least `wanted` pages are spare that were not; returns how many. The
    /// largest hole goes first: it is the least likely to be filled, and one call unmaps all that is taken of it. The
    /// caller holds `turn`.
    pub(super) fn steal(
        &self,
        range: &VirtualRange,
        memory: &dyn VirtualMemory,
        wanted: u64,
    ) -> Result<u64, DriverError> {
        let mut taken = 0;
        while taken < wanted {
            let mut books = self.books.lock();
            let Some(loot) = books.best_loot(range.page, wanted - taken) else {
                break;
            };
            let (offset, bytes) = (loot.first * range.page, loot.pages * range.page);
            let Some(start) = books.blocks.address_of(offset) else {
                break;
            };
            let Some(chunk) = books.index.claim(offset, bytes, Some(loot.hole.id)) else {
                break;
            };
            books.claims.chunks += 1;
            books.claims.backed += bytes;
            books.counters.page_calls += 1;
            drop(books);
            // SAFETY: the pages were free for all in the index, which is where memory goes once the host has seen
            // every use that its holder named complete; and commands name memory only through allocations whose owners
            // promise to name their last uses. Claimed, no part of them is handed out meanwhile.
            let unmapped = unsafe { memory.unmap(DeviceRange { start, bytes }) };
            let mut books = self.books.lock();
            books.claims.chunks -= 1;
            books.claims.backed -= bytes;
            let domain = match unmapped {
                Ok(()) => {
                    let range = DeviceRange { start, bytes };
                    books.note(MemoryEventKind::PagesUnmapped, range, None);
                    books.set_aside(loot.first, loot.pages);
                    books.outside += bytes;
                    books.counters.stolen += bytes;
                    loot.region.unbacked()
                }
                Err(_) => books.everyones(loot.region),
            };
            let freed = books.index.free(chunk.id, domain, 0);
            debug_assert!(freed.is_ok());
            unmapped?;
            taken += loot.pages;
        }
        Ok(taken)
    }

    /// Gives the largest spare handle back to the device; whether there was one. The caller holds `turn`.
    pub(super) fn destroy_spare(&self, memory: &dyn VirtualMemory) -> Result<bool, DriverError> {
        let mut books = self.books.lock();
        let Some((handle, pages)) = books.pages.take_spare(u64::MAX) else {
            return Ok(false);
        };
        books.counters.page_calls += 1;
        drop(books);
        let destroyed = memory.destroy(handle);
        let mut books = self.books.lock();
        match destroyed {
            Ok(()) => {
                let bytes = pages * self.settings.block_multiple;
                books.held -= bytes;
                books.outside -= bytes;
                Ok(true)
            }
            Err(error) => {
                books.pages.put_spare(handle, pages);
                Err(error)
            }
        }
    }
}

impl Books {
    /// What to unmap next: in the hole with the most pages that may go, at most as many mappings as are wanted.
    fn best_loot(&self, page: u64, wanted: u64) -> Option<Loot> {
        let mut best: Option<Loot> = None;
        for (region, domain) in self.domains_of_all() {
            for hole in self.index.extents_by_size(domain) {
                let least = best.map_or(page, |best| best.pages * page);
                if hole.bytes < least / 2 {
                    break;
                }
                let (first, pages) = self.pages.whole_in(hole.offset, hole.bytes);
                if pages > best.map_or(0, |best| best.pages) && self.is_free_for_all(&hole) {
                    best = Some(Loot {
                        hole,
                        region,
                        first,
                        pages,
                    });
                }
            }
        }
        let mut loot = best?;
        loot.pages = self.pages.prefix(loot.first, loot.pages, wanted);
        Some(loot)
    }

    /// Pages that could be taken from holes.
    pub(crate) fn stealable(&self, page: u64) -> u64 {
        let domains = self.domains_of_all();
        let extents = domains.flat_map(|(_, domain)| self.index.extents_by_size(domain));
        let holes = extents.filter(|hole| self.is_free_for_all(hole));
        let whole = holes.map(|hole| self.pages.whole_in(hole.offset, hole.bytes).1);
        (whole.sum::<u64>() + self.pages.spare_pages()) * page
    }

    /// Makes the mappings of these pages spare handles.
    pub(super) fn set_aside(&mut self, first: u64, pages: u64) {
        let mut at = first;
        while at < first + pages {
            let Some(mapping) = self.pages.remove(at) else {
                return;
            };
            self.pages.put_spare(mapping.handle, mapping.pages);
            at = mapping.first + mapping.pages;
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Pages on their way out of a hole, while others allocate.

    use std::sync::Arc;

    use piton_driver::{
        DevicePtr, DeviceRange, DriverError, PageGranularity, PhysicalHandle, VirtualMemory,
    };
    use piton_sync::{Mutex, model, thread};
    use piton_timeline::{Frontier, Timeline};

    use crate::{
        Allocation, BlockSource, DevicePool, MemoryPoolConfig, Request, VirtualAddressing,
    };

    const PAGE: u64 = 4096;
    const BASE: u64 = 1 << 20;

    /// Knows what is mapped: starts of mappings of one page each.
    #[derive(Debug)]
    struct Source(Mutex<Vec<u64>>);

    // SAFETY: there are no Blocks.
    unsafe impl BlockSource for Source {
        fn capacity(&self) -> u64 {
            2 * PAGE
        }

        fn granularity(&self) -> u64 {
            PAGE
        }

        fn alignment(&self) -> u64 {
            PAGE
        }

        fn status(&self) -> Result<(), DriverError> {
            Ok(())
        }

        fn allocate(&self, _bytes: u64) -> Result<DevicePtr, DriverError> {
            unreachable!("pages are mapped, no Blocks allocated")
        }

        unsafe fn free(&self, _block: DevicePtr) -> Result<(), DriverError> {
            Ok(())
        }

        fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
            Some(self)
        }

        fn record_error(&self, _error: DriverError) {}
    }

    // SAFETY: the pool reserves twice, and the second range lies behind the first.
    unsafe impl VirtualMemory for Source {
        fn granularity(&self) -> PageGranularity {
            PageGranularity {
                minimum: PAGE,
                recommended: PAGE,
            }
        }

        fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError> {
            let mut mapped = self.0.lock();
            // The first entry stands for the first reservation and is never looked for.
            let start = DevicePtr::new(BASE * (mapped.len() as u64 + 1));
            mapped.push(0);
            Ok(DeviceRange { start, bytes })
        }

        unsafe fn release(&self, _range: DeviceRange) -> Result<(), DriverError> {
            Ok(())
        }

        fn create(&self, _bytes: u64) -> Result<PhysicalHandle, DriverError> {
            Ok(PhysicalHandle(0))
        }

        fn destroy(&self, _handle: PhysicalHandle) -> Result<(), DriverError> {
            Ok(())
        }

        unsafe fn map(&self, at: DevicePtr, _handle: PhysicalHandle) -> Result<(), DriverError> {
            self.0.lock().push(at.address());
            Ok(())
        }

        unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError> {
            self.0
                .lock()
                .retain(|start| *start != range.start.address());
            Ok(())
        }
    }

    fn take(pool: &DevicePool) -> Allocation {
        pool.allocate(Request::new(PAGE)).unwrap()
    }

    #[test]
    fn a_page_on_its_way_out_of_a_hole_is_never_handed_out() {
        model(|| {
            let source = Arc::new(Source(Mutex::new(Vec::new())));
            let config = MemoryPoolConfig {
                virtual_addressing: VirtualAddressing::On,
                small_below: Some(0),
                ..MemoryPoolConfig::default()
            };
            let pool = DevicePool::new(source.clone(), Timeline::new(), &config).unwrap();
            let pool = Arc::new(pool);
            let idle = take(&pool);
            pool.free(idle, Frontier::new()).unwrap();
            let trimmer = {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.trim(0))
            };
            let taken = take(&pool);
            trimmer.join().unwrap();
            let page = taken.ptr().address();
            assert!(source.0.lock().contains(&page));
            pool.check().unwrap();
        });
    }
}
