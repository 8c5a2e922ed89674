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

/// log2 of the bytes of offsets that share a word of `Blocks::recent`.
const STRETCH_BITS: u32 = 24;
/// Words of `Blocks::recent`.
const STRETCHES: usize = 1024;

/// All Blocks in the index.
#[derive(Debug)]
pub(crate) struct Blocks {
    by_offset: Vec<Block>,
    by_address: Vec<Block>,
    /// By stretch of offsets, the position in `by_offset` where one was found last: a guess, to be looked at.
    recent: Box<[u32]>,
    /// Where those look who have no lock.
    directory: Arc<Directory>,
}

impl Blocks {
    pub(crate) fn new(directory: Arc<Directory>) -> Self {
        Self {
            by_offset: Vec::new(),
            by_address: Vec::new(),
            recent: vec![0; STRETCHES].into(),
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
        self.directory.publish_blocks(&self.by_address);
    }

    pub(crate) fn remove(&mut self, offset: u64) -> Option<Block> {
        let at = self
            .by_offset
            .binary_search_by_key(&offset, |block| block.offset)
            .ok()?;
        let block = self.by_offset.remove(at);
        self.by_address.retain(|other| other.offset != offset);
        self.directory.publish_blocks(&self.by_address);
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

    /// The same in fewer steps, where the Block is the one that offsets close by were found in.
    #[inline]
    pub(crate) fn find_address(&mut self, offset: u64) -> Option<DevicePtr> {
        let stretch = usize::try_from(offset >> STRETCH_BITS).unwrap_or(0) % STRETCHES;
        let guess = self.recent.get(stretch).map_or(0, |guess| *guess as usize);
        match self.by_offset.get(guess) {
            Some(block) if offset.wrapping_sub(block.offset) < block.range.bytes => {
                block.range.start.checked_add(offset - block.offset)
            }
            _ => self.find_new_address(offset, stretch),
        }
    }

    #[cold]
    fn find_new_address(&mut self, offset: u64, stretch: usize) -> Option<DevicePtr> {
        let above = self
            .by_offset
            .partition_point(|block| block.offset <= offset);
        let found = above.checked_sub(1)?;
        if let Some(guess) = self.recent.get_mut(stretch) {
            *guess = u32::try_from(found).unwrap_or(0);
        }
        self.address_of(offset)
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
