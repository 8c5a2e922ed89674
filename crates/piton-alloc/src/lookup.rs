//! From an address to the allocation that it lies in, without a lock.
//!
//! # Problem
//! Whoever has an address and nothing else (a sanitizer, a message of a driver, a foreign library that hands a pointer
//! back) asks whose it is, from any thread, as often as it likes. It may not hold up those who allocate.
//!
//! # Idea
//! Three tables that readers walk as they are, written by those who allocate anyway:
//!
//! - [`Ranges`]: the Blocks, by address. Few, and changed only beside a call to the source.
//! - [`Starts`]: where live chunks begin, filed by their size and place. A unit is looked for twice in each class of sizes,
//!   whatever there is.
//! - [`Entries`]: by the number of a chunk's record, what its allocation is. An entry names its own address, so that no
//!   answer is put together from two allocations.
//!
//! # Protocol
//! - `Ranges` and `Starts` have one writer at a time: whoever holds `books`. A chunk's entry is written by its owner: who
//!   holds `books` and hands it out or takes it back, who is inside the front it lies in, or who has just taken it from
//!   there. Ownership passes through `books` or a gate, which orders the writers.
//! - *Hand out*: the entry first, then the start. *Take back*: the entry is retired first, then the start goes. A chunk on
//!   a shelf keeps its start, and its entry is retired.
//! - Readers write nothing and wait for nobody. Each store that publishes is a Release and each load an Acquire, so whoever
//!   knows of an allocation finds its start, its entry and its Block, whatever other threads add and take at that moment.
//! - A reader of an entry looks at its *version* before and after: it says whether anybody has the entry, and one that changed
//!   says that another allocation got it meanwhile. Such an answer is none, as is one whose bytes do not hold the address: the
//!   allocation asked for came or went during the call, and either answer is right.

mod arena;
mod entries;
mod ranges;
mod starts;
mod walk;

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::ExtentId;
use piton_timeline::LaneId;

use crate::adaptor::Tag;

use crate::allocation::{AllocationId, AllocationInfo, PoolId};
use crate::block::Block;
use crate::config::Settings;
use entries::Entries;
pub(crate) use entries::Record;
pub(crate) use ranges::Ranges;
use starts::{Place, Starts};

/// The live allocations of a pool, by address.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) ranges: Ranges,
    starts: Starts,
    entries: Entries,
    /// Bytes of a unit, as a power of two.
    unit_bits: u32,
    /// Whether allocations are noted at all.
    is_kept: bool,
}

impl Directory {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            ranges: Ranges::default(),
            starts: Starts::new(),
            entries: Entries::default(),
            unit_bits: settings.unit.trailing_zeros(),
            is_kept: settings.has_directory,
        }
    }

    /// One that notes no allocation.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_nothing() -> Self {
        Self {
            ranges: Ranges::default(),
            starts: Starts::new(),
            entries: Entries::default(),
            unit_bits: 0,
            is_kept: false,
        }
    }

    /// These are the Blocks now, in order of address. The caller holds `books`.
    pub(crate) fn publish_blocks(&self, blocks: &[Block]) {
        if self.is_kept {
            self.ranges.publish(blocks);
        }
    }

    #[inline]
    fn unit_of(&self, offset: u64) -> u32 {
        // Offsets of the index are below so many units.
        u32::try_from(offset >> self.unit_bits).unwrap_or(u32::MAX)
    }

    #[inline]
    fn units_of(&self, bytes: u64) -> u32 {
        let units = bytes.div_ceil(1 << self.unit_bits);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// An allocation is handed out. The caller holds `books`.
    #[inline]
    pub(crate) fn publish(&self, id: ExtentId, offset: u64, record: &Record) {
        if !self.is_kept {
            return;
        }
        let place = Place {
            number: id.parts().0,
            unit: self.unit_of(offset),
            units: self.units_of(record.bytes),
        };
        // There is room for every record that the index can have.
        if let Some(entry) = self.entries.publish(id, place, record) {
            self.starts.insert(place, entry, &self.entries);
        }
    }

    #[inline]
    fn entry(&self, number: u32) -> Option<&entries::Entry> {
        if self.is_kept {
            self.entries.at(number)
        } else {
            None
        }
    }

    /// An allocation is taken back by the index. The caller holds `books`.
    #[inline]
    pub(crate) fn withdraw(&self, id: ExtentId) {
        let number = id.parts().0;
        if let Some(entry) = self.entry(number) {
            entry.end(id);
            self.starts
                .remove(entry.place(number), entry, &self.entries);
        }
    }

    /// An allocation is taken back to a shelf. The caller is inside its front.
    #[inline]
    pub(crate) fn retire(&self, id: ExtentId) {
        if let Some(entry) = self.entry(id.parts().0) {
            entry.retire();
        }
    }

    /// A chunk from a shelf is handed out again, of the size it had. The caller has just taken it.
    #[inline]
    pub(crate) fn renew(&self, id: ExtentId, lane: LaneId, tag: Option<Tag>) {
        if let Some(entry) = self.entry(id.parts().0) {
            entry.renew(lane, tag);
        }
    }

    /// A chunk from a shelf goes to the index. The caller holds `books`.
    #[inline]
    pub(crate) fn unlist(&self, id: ExtentId) {
        let number = id.parts().0;
        if let Some(entry) = self.entry(number) {
            self.starts
                .remove(entry.place(number), entry, &self.entries);
        }
    }

    /// What is live at an address. Waits for nobody.
    pub(crate) fn lookup(&self, pool: PoolId, address: DevicePtr) -> Option<AllocationInfo> {
        let (block, offset) = self.ranges.containing(address)?;
        let inside = address.checked_offset_from(block.start)?;
        let unit = self.unit_of(offset + inside);
        self.starts.find(unit, &self.entries, |number| {
            let place = self.entries.place_of(number)?;
            if unit.checked_sub(place.unit)? >= place.units {
                return None;
            }
            let (id, record) = self.entries.get(number)?;
            let rounded_bytes = record.bytes.next_multiple_of(1 << self.unit_bits);
            let offset = address.checked_offset_from(record.ptr)?;
            (offset < rounded_bytes).then_some(AllocationInfo {
                id: AllocationId::new(pool, id),
                ptr: record.ptr,
                offset,
                bytes: record.bytes,
                rounded_bytes,
                lane: record.lane,
                tag: record.tag,
                block,
            })
        })
    }

    /// Whether a chunk is found where it begins, if any are kept; for `check`.
    pub(crate) fn lists(&self, id: ExtentId, offset: u64) -> bool {
        let unit = self.unit_of(offset);
        let found = self.starts.find(unit, &self.entries, |number| {
            let place = self.entries.place_of(number)?;
            (place.unit == unit).then_some(number)
        });
        found == Some(id.parts().0)
    }

    /// Whether allocations are noted at all.
    pub(crate) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Chunks listed; for `check`.
    pub(crate) fn listed(&self) -> u64 {
        self.starts.count()
    }
}

/// A Block, and where its range starts in the index.
pub(crate) type Placed = (DeviceRange, u64);
