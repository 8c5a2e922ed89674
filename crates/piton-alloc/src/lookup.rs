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
//! - [`Starts`]: a set of the units at which live chunks begin, a tree of 64 branches a node with one bit a branch. The
//!   greatest start at or below a unit is the only chunk that the unit can lie in. Six steps, whatever there is.
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
//!   knows of an allocation finds its start, its entry and its Block. What other threads do at that moment adds and takes
//!   other bits: between the start of a live allocation and its end there are none.
//! - A reader of an entry looks at its *version* before and after: odd means that nobody has it, and one that changed that
//!   it had another allocation meanwhile. Such an answer is none, as is one whose bytes do not hold the address: the
//!   allocation asked for came or went during the call, and either answer is right.

mod arena;
mod entries;
mod ranges;
mod starts;

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::ExtentId;
use piton_timeline::LaneId;

use crate::adaptor::Tag;
use crate::allocation::{AllocationId, AllocationInfo, PoolId};
use entries::Entries;
pub(crate) use entries::Record;
pub(crate) use ranges::Ranges;
use starts::Starts;

/// The live allocations of a pool, by address.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) ranges: Ranges,
    starts: Starts,
    entries: Entries,
    /// Bytes of a unit, as a power of two.
    unit_bits: u32,
}

impl Directory {
    pub(crate) fn new(unit: u64) -> Self {
        Self {
            ranges: Ranges::default(),
            starts: Starts::new(),
            entries: Entries::default(),
            unit_bits: unit.trailing_zeros(),
        }
    }

    #[inline]
    fn unit_of(&self, offset: u64) -> u32 {
        // Offsets of the index are below so many units.
        u32::try_from(offset >> self.unit_bits).unwrap_or(u32::MAX)
    }

    /// An allocation is handed out. The caller holds `books`.
    #[inline]
    pub(crate) fn publish(&self, id: ExtentId, offset: u64, record: &Record) {
        let unit = self.unit_of(offset);
        self.entries.publish(id, unit, record);
        self.starts.insert(unit, id.parts().0);
    }

    /// A chunk from a shelf is handed out again, of the size it had. The caller has just taken it.
    #[inline]
    pub(crate) fn renew(&self, id: ExtentId, lane: LaneId, tag: Option<Tag>) {
        self.entries.renew(id.parts().0, lane, tag);
    }

    /// An allocation is taken back, to a shelf or by the index. The caller owns it.
    #[inline]
    pub(crate) fn retire(&self, id: ExtentId) {
        self.entries.retire(id.parts().0);
    }

    /// The chunk of a retired allocation goes to the index. The caller holds `books`.
    #[inline]
    pub(crate) fn unlist(&self, id: ExtentId) {
        if let Some(unit) = self.entries.start_of(id.parts().0) {
            self.starts.remove(unit);
        }
    }

    /// What is live at an address. Waits for nobody.
    pub(crate) fn lookup(&self, pool: PoolId, address: DevicePtr) -> Option<AllocationInfo> {
        let (block, offset) = self.ranges.containing(address)?;
        let inside = address.checked_offset_from(block.start)?;
        let number = self.starts.at_or_below(self.unit_of(offset + inside))?;
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
    }

    /// Whether a chunk begins at an offset, by the number of its record; for `check`.
    pub(crate) fn lists(&self, id: ExtentId, offset: u64) -> bool {
        let number = id.parts().0;
        let unit = self.unit_of(offset);
        self.starts.at_or_below(unit) == Some(number) && self.entries.start_of(number) == Some(unit)
    }

    /// Chunks listed, counted one by one; for `check`.
    pub(crate) fn listed(&self) -> u64 {
        self.starts.count()
    }
}

/// A Block, and where its range starts in the index.
pub(crate) type Placed = (DeviceRange, u64);
