//! One range of addresses, and pages that move under it.
//!
//! # Idea
//! A chunk needs an address, and pages only while it lives. Addresses are plenty: the range has a few times the pool's
//! limit. So a hole that no request fits costs nothing but its pages, and those are unmapped and mapped where they are
//! needed. What the pool holds comes close to the pages that hold a live byte.
//!
//! # States
//! A free extent of the index either has all its pages or none: *unbacked* is a domain of its own (`region`). The usual
//! search looks at backed memory only and costs no call. When it finds nothing, the run of backed and unbacked memory
//! that misses the fewest pages is claimed, its pages are mapped, and the request is served from it.
//!
//! # Physical handles
//! A mapping covers a whole handle, so a handle can move only while no byte of it is live: small handles move freely
//! and cost a call each, large ones cost little and are pinned by any survivor. `policy` chooses the size.
//!
//! # What may be unmapped
//! Memory free for all, which the *host* has seen complete: the domains of lanes and deferred chunks are never looked
//! at. A wait on a queue is not enough before an unmap.
//!
//! # Transactions
//! Growing claims its bytes in the index first, so nobody else is given them; then it calls the source, page table in
//! hand; then it gives every part back to where it belongs by what is mapped *now*. A call that fails leaves the pages
//! mapped so far as free memory: there is nothing to undo, and so no undoing that could fail.

mod grow;
mod policy;
mod steal;
mod supply;
mod suspend;
mod table;

pub use suspend::Suspended;
pub(crate) use suspend::SuspendedBytes;
pub(crate) use table::PageTable;
pub use table::Translation;

use piton_driver::{DeviceRange, DriverError, VirtualMemory};

use crate::block::Block;
use crate::books::Books;
use crate::config::Settings;
use crate::pool::DevicePool;
use crate::region::Region;

/// Addresses reserved for large requests, as multiples of the limit; less where the device has not so many. Chunks that
/// live long lie scattered among them, and between any two there should be room for the largest request.
const ADDRESS_SHARES: [u64; 3] = [8, 4, 2];
/// The same for small requests, which always find room between others.
const SMALL_ADDRESS_SHARE: u64 = 2;
/// The share of the index's units that large requests may have at most.
const LARGE_UNITS: (u64, u64) = (4, 5);

/// The reserved addresses.
#[derive(Debug)]
pub(crate) struct VirtualRange {
    /// Bytes of a page.
    pub(crate) page: u64,
    ranges: Vec<DeviceRange>,
}

impl VirtualRange {
    /// Reserves the addresses and makes them known to the books, unbacked.
    pub(crate) fn reserve(
        memory: &dyn VirtualMemory,
        settings: &Settings,
        books: &mut Books,
    ) -> Result<Self, DriverError> {
        let page = settings.block_multiple;
        let mut reserved = Self {
            page,
            ranges: Vec::new(),
        };
        let mut pages = 0;
        for region in Region::ALL {
            let range = match reserve_for(region, memory, settings) {
                Ok(range) => range,
                Err(error) => {
                    reserved.release(memory);
                    return Err(error);
                }
            };
            reserved.ranges.push(range);
            books.add_addresses(range, region);
            pages += range.bytes / page;
        }
        books.pages = PageTable::new(page, pages);
        Ok(reserved)
    }

    /// Gives the addresses back; nothing may be mapped in them. Errors leave them reserved, which costs no memory.
    #[expect(
        unsafe_code,
        reason = "releasing addresses is unsafe: nothing may name them any more"
    )]
    pub(crate) fn release(&self, memory: &dyn VirtualMemory) -> Option<DriverError> {
        let mut first = None;
        for range in &self.ranges {
            // SAFETY: the range was reserved by `reserve` and is released once. The caller has unmapped everything in
            // it, so no allocation is live there; commands name memory only through allocations, whose owners promise
            // to give them back with their last uses.
            if let Err(error) = unsafe { memory.release(*range) } {
                first.get_or_insert(error);
            }
        }
        first
    }
}

/// Addresses for a region: as many as are useful, fewer where the device has not so many.
fn reserve_for(
    region: Region,
    memory: &dyn VirtualMemory,
    settings: &Settings,
) -> Result<DeviceRange, DriverError> {
    let page = settings.block_multiple;
    let units = u64::from(piton_suballoc::Tlsf::MAX_UNITS);
    let large = units / LARGE_UNITS.1 * LARGE_UNITS.0;
    let (shares, units) = match region {
        Region::Large => (&ADDRESS_SHARES[..], large),
        Region::Small => (&[SMALL_ADDRESS_SHARE][..], units - large),
    };
    let most = units * settings.unit / page * page;
    let bytes = |share: &u64| {
        let wanted = settings.limit.saturating_mul(*share);
        wanted.next_multiple_of(page).min(most)
    };
    let (last, larger) = shares.split_last().unwrap_or((&SMALL_ADDRESS_SHARE, &[]));
    let mut tried = larger.iter().map(|share| memory.reserve(bytes(share)));
    tried
        .find_map(Result::ok)
        .map_or_else(|| memory.reserve(bytes(last)), Ok)
}

impl Books {
    /// Makes a range of addresses known, all of it unbacked.
    fn add_addresses(&mut self, range: DeviceRange, region: Region) {
        // The ranges have all units between them at most, so each has a place among the offsets.
        let Ok(offset) = self.index.add_range(range.bytes) else {
            return;
        };
        self.give_to(offset, region.unbacked());
        self.blocks.insert(Block { offset, range });
    }
}

impl DevicePool {
    /// Gives pages back until `wanted` bytes are returned or none can be; returns how many bytes. The caller holds
    /// `turn`. An error of the source ends it and is recorded.
    pub(crate) fn return_pages(&self, range: &VirtualRange, wanted: u64) -> u64 {
        let Some(memory) = self.source.virtual_memory() else {
            return 0;
        };
        let before = self.books.lock().held;
        loop {
            let returned = before - self.books.lock().held;
            if returned >= wanted {
                return returned;
            }
            let step = self.destroy_spare(memory).and_then(|destroyed| {
                Ok(destroyed
                    || self.steal(range, memory, (wanted - returned).div_ceil(range.page))? > 0)
            });
            match step {
                Ok(true) => {}
                Ok(false) => return returned,
                Err(error) => {
                    self.record(error);
                    return before - self.books.lock().held;
                }
            }
        }
    }

    /// Releases the addresses if nothing is mapped in them any more.
    pub(crate) fn release_addresses(&self, range: &VirtualRange) {
        if let Some(memory) = self.source.virtual_memory()
            && self.books.lock().held == 0
            && let Some(error) = range.release(memory)
        {
            self.record(error);
        }
    }
}
