//! The Blocks a pool holds: from offsets of the index to addresses and back.
//!
//! Each Block, or range of reserved addresses, is one range of the index. Blocks are few (the pool asks for large
//! ones), so they are kept in sorted vectors: a look-up is a binary search, and adding or removing one is a move. An
//! allocation does not search: a Block keeps its place in a slab for as long as it exists, and the place where nearby
//! offsets were found is tried first.

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

/// No Block: no offset lies in it.
const NOWHERE: Block = Block {
    offset: 0,
    range: DeviceRange {
        start: DevicePtr::new(0),
        bytes: 0,
    },
};

/// log2 of the bytes of offsets that share a word of `Blocks::recent`: as large as Blocks come at the least.
const STRETCH_BITS: u32 = 21;
/// Words of `Blocks::recent` at first, and at the most. Powers of two.
const STRETCHES: (usize, usize) = (1 << 13, 1 << 16);

/// All Blocks in the index.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// The slab; a vacant place is [`NOWHERE`].
    places: Vec<Block>,
    vacant: Vec<u32>,
    /// Places, in order of offset.
    by_offset: Vec<u32>,
    by_address: Vec<Block>,
    /// By stretch of offsets, the place where a Block was found last: a guess, to be looked at.
    recent: Vec<u32>,
    /// Where those look who have no lock.
    directory: Arc<Directory>,
}

impl Blocks {
    pub(crate) fn new(directory: Arc<Directory>) -> Self {
        Self {
            places: Vec::new(),
            vacant: Vec::new(),
            by_offset: Vec::new(),
            by_address: Vec::new(),
            recent: vec![0; STRETCHES.0],
            directory,
        }
    }

    pub(crate) fn insert(&mut self, block: Block) {
        let at = self.count_up_to(block.offset);
        let place = self.occupy(block);
        self.expect(&block, place);
        self.by_offset.insert(at, place);
        let at = self.count_below(block.range.start);
        self.by_address.insert(at, block);
        self.directory.publish_blocks(&self.by_address);
    }

    pub(crate) fn remove(&mut self, offset: u64) -> Option<Block> {
        let at = self.count_up_to(offset).checked_sub(1)?;
        let place = *self.by_offset.get(at)?;
        let block = self.at(place).filter(|block| block.offset == offset)?;
        self.by_offset.remove(at);
        self.places[place as usize] = NOWHERE;
        self.vacant.push(place);
        let at = self.count_below(block.range.start);
        self.by_address.remove(at);
        self.directory.publish_blocks(&self.by_address);
        Some(block)
    }

    /// Makes the Block the guess for its own offsets. One with more than fit is found as it is used.
    fn expect(&mut self, block: &Block, place: u32) {
        let last = block.offset + block.range.bytes.saturating_sub(1);
        let stretches = block.offset >> STRETCH_BITS..=last >> STRETCH_BITS;
        if stretches.end() - stretches.start() >= STRETCHES.1 as u64 / 2 {
            return;
        }
        while self.recent.len() < STRETCHES.1 && *stretches.end() >= self.recent.len() as u64 {
            // What was guessed is as good a guess for what comes out at the same word.
            self.recent.extend_from_within(..);
        }
        let (first, last) = (self.stretch_of(block.offset), self.stretch_of(last));
        if first <= last {
            self.recent[first..=last].fill(place);
        } else {
            self.recent[first..].fill(place);
            self.recent[..=last].fill(place);
        }
    }

    /// The word of `recent` for an offset.
    #[inline]
    fn stretch_of(&self, offset: u64) -> usize {
        usize::try_from(offset >> STRETCH_BITS).unwrap_or(0) & (self.recent.len() - 1)
    }

    fn occupy(&mut self, block: Block) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.places[place as usize] = block;
            return place;
        }
        // Fewer than there are offsets.
        let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(block);
        place
    }

    #[inline]
    fn at(&self, place: u32) -> Option<Block> {
        self.places.get(place as usize).copied()
    }

    /// How many Blocks begin at the offset or below.
    #[inline]
    fn count_up_to(&self, offset: u64) -> usize {
        let begins = |place: &u32| self.at(*place).is_some_and(|block| block.offset <= offset);
        self.by_offset.partition_point(begins)
    }

    /// How many Blocks lie at lower addresses.
    fn count_below(&self, start: DevicePtr) -> usize {
        self.by_address
            .partition_point(|block| block.range.start < start)
    }

    /// The last Block that begins at the offset or below, and its place.
    fn reaching(&self, offset: u64) -> Option<(u32, Block)> {
        let at = self.count_up_to(offset).checked_sub(1)?;
        let place = *self.by_offset.get(at)?;
        Some((place, self.at(place)?))
    }

    /// The address of an offset of the index.
    #[inline]
    pub(crate) fn address_of(&self, offset: u64) -> Option<DevicePtr> {
        let (_, block) = self.reaching(offset)?;
        block.range.start.checked_add(offset - block.offset)
    }

    /// The same in fewer steps, where the Block is the one that offsets close by were found in.
    #[inline]
    pub(crate) fn find_address(&mut self, offset: u64) -> Option<DevicePtr> {
        let stretch = self.stretch_of(offset);
        let guess = *self.recent.get(stretch)?;
        match self.places.get(guess as usize) {
            Some(block) if offset.wrapping_sub(block.offset) < block.range.bytes => {
                block.range.start.checked_add(offset - block.offset)
            }
            _ => self.find_new_address(offset, stretch),
        }
    }

    #[cold]
    fn find_new_address(&mut self, offset: u64, stretch: usize) -> Option<DevicePtr> {
        let (place, block) = self.reaching(offset)?;
        if let Some(guess) = self.recent.get_mut(stretch) {
            *guess = place;
        }
        block.range.start.checked_add(offset - block.offset)
    }

    /// Where the Block that an offset lies in ends among the offsets.
    pub(crate) fn end_of(&self, offset: u64) -> Option<u64> {
        let (_, block) = self.reaching(offset)?;
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
        self.by_offset
            .iter()
            .map(|place| &self.places[*place as usize])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Blocks smaller than a stretch and larger than all of them, some far up, that come and go.
        #[test]
        fn the_address_of_an_offset_is_that_of_its_block_whatever_was_guessed(
            steps in prop::collection::vec((0_u64..40, 0_usize..4, 0_u64..u64::MAX), 1..80),
        ) {
            let mut blocks = Blocks::new(Arc::new(Directory::of_nothing()));
            let mut there: Vec<Block> = Vec::new();
            let mut next_address = 1 << 21;
            for (at, size, inside) in steps {
                let bytes = [1_u64 << 19, 3 << 20, 1 << 26, 1 << 37][size];
                // Those of a size have a stretch of offsets of their own, a Block long each.
                let offset = ((size as u64) << 44) + at * bytes;
                if let Some(known) = there.iter().position(|block| block.offset == offset) {
                    prop_assert_eq!(blocks.remove(offset), Some(there.swap_remove(known)));
                } else {
                    let start = DevicePtr::new(next_address);
                    next_address += bytes;
                    let block = Block { offset, range: DeviceRange { start, bytes } };
                    blocks.insert(block);
                    there.push(block);
                }
                for block in &there {
                    let inside = inside % block.range.bytes;
                    let expected = block.range.start.checked_add(inside);
                    prop_assert_eq!(blocks.find_address(block.offset + inside), expected);
                    prop_assert_eq!(blocks.address_of(block.offset + inside), expected);
                }
            }
        }
    }
}
