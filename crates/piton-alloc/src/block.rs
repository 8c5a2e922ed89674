//! The Blocks a pool holds: from offsets of the index to addresses and back.
//!
//! Each Block, or range of reserved addresses, is one range of the index. Blocks are few (the pool asks for large ones), so they are sorted vectors:
//! a look-up is a binary search, adding and removing a move.

use std::sync::Arc;

use piton_driver::{DevicePtr, DeviceRange};

use crate::lookup::Directory;

/// One Block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Where its range starts in the index.
    pub(crate) offset: u64,
    /// Its memory.
    pub(crate) range: DeviceRange,
}

/// All Blocks in the index.
#[derive(Debug)]
pub(crate) struct Blocks {
    by_offset: Vec<Block>,
    by_address: Vec<Block>,
    /// Where those look who have no lock.
    directory: Arc<Directory>,
}

impl Blocks {
    pub(crate) const fn new(directory: Arc<Directory>) -> Self {
        Self {
            by_offset: Vec::new(),
            by_address: Vec::new(),
            directory,
        }
    }

    pub(crate) fn insert(&mut self, block: Block) {
        let at = self
            .by_offset
            .partition_point(|other| other.offset < block.offset);
        self.by_offset.insert(at, block);
        let at = self
            .by_address
            .partition_point(|other| other.range.start < block.range.start);
        self.by_address.insert(at, block);
        self.directory.ranges.publish(&self.by_address);
    }

    pub(crate) fn remove(&mut self, offset: u64) -> Option<Block> {
        let at = self
            .by_offset
            .binary_search_by_key(&offset, |block| block.offset)
            .ok()?;
        let block = self.by_offset.remove(at);
        self.by_address.retain(|other| other.offset != offset);
        self.directory.ranges.publish(&self.by_address);
        Some(block)
    }

    /// The address of an offset of the index.
    #[inline]
    pub(crate) fn address_of(&self, offset: u64) -> Option<DevicePtr> {
        let above = self
            .by_offset
            .partition_point(|block| block.offset <= offset);
        let block = self.by_offset.get(above.checked_sub(1)?)?;
        block.range.start.checked_add(offset - block.offset)
    }

    /// Where the Block that an offset lies in ends among the offsets.
    pub(crate) fn end_of(&self, offset: u64) -> Option<u64> {
        let above = self
            .by_offset
            .partition_point(|block| block.offset <= offset);
        let block = self.by_offset.get(above.checked_sub(1)?)?;
        Some(block.offset + block.range.bytes)
    }

    /// The Block an address lies in.
    pub(crate) fn containing(&self, ptr: DevicePtr) -> Option<&Block> {
        let above = self
            .by_address
            .partition_point(|block| block.range.start <= ptr);
        let block = self.by_address.get(above.checked_sub(1)?)?;
        let inside = ptr.checked_offset_from(block.range.start)? < block.range.bytes;
        inside.then_some(block)
    }

    /// In order of offset.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Block> {
        self.by_offset.iter()
    }
}
