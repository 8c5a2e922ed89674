//! Ways to place chunks, as others wrote them, under one face.

#![allow(dead_code, reason = "each bench uses a part")]
#![expect(unsafe_code, reason = "freeing in a pool of host memory is unsafe")]

use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr::NonNull;

/// One way to place chunks.
pub(crate) trait Index {
    type Chunk;
    fn new(units: u32, chunks: u32) -> Self;
    fn allocate(&mut self, units: u32) -> Option<Self::Chunk>;
    fn free(&mut self, chunk: Self::Chunk);
}

impl Index for offset_allocator::Allocator<u32> {
    type Chunk = offset_allocator::Allocation<u32>;

    fn new(units: u32, chunks: u32) -> Self {
        Self::with_max_allocs(units, 4 * chunks)
    }

    fn allocate(&mut self, units: u32) -> Option<Self::Chunk> {
        Self::allocate(self, units)
    }

    fn free(&mut self, chunk: Self::Chunk) {
        Self::free(self, chunk);
    }
}

/// First best hole in a list.
impl Index for range_alloc::RangeAllocator<u32> {
    type Chunk = Range<u32>;

    fn new(units: u32, _chunks: u32) -> Self {
        Self::new(0..units)
    }

    fn allocate(&mut self, units: u32) -> Option<Range<u32>> {
        self.allocate_range(units).ok()
    }

    fn free(&mut self, chunk: Range<u32>) {
        self.free_range(chunk);
    }
}

/// TLSF with its headers in the memory itself, which device memory cannot have: a unit stands for 32 bytes of the host's.
pub(crate) struct InPlace(rlsf::Tlsf<'static, u32, u32, 32, 32>);

impl InPlace {
    const UNIT: usize = 32;
    /// Bytes of a header.
    const HEADER: usize = 16;
}

impl Index for InPlace {
    type Chunk = NonNull<u8>;

    fn new(units: u32, _chunks: u32) -> Self {
        let mut index = rlsf::Tlsf::new();
        // Untouched pages cost nothing; a bench does not end before its memory.
        let memory = Box::leak(Box::new_uninit_slice(units as usize * Self::UNIT));
        let _whole = index.insert_free_block(memory);
        Self(index)
    }

    fn allocate(&mut self, units: u32) -> Option<NonNull<u8>> {
        let bytes = units as usize * Self::UNIT - Self::HEADER;
        let layout = Layout::from_size_align(bytes, Self::HEADER).ok()?;
        self.0.allocate(layout)
    }

    fn free(&mut self, chunk: NonNull<u8>) {
        // SAFETY: `allocate` of this index gave it with this alignment, and it is freed once, since it is moved here.
        unsafe { self.0.deallocate(chunk, Self::HEADER) };
    }
}

/// Best fit as one writes it first: holes by size and by offset.
pub(crate) struct BestFit {
    by_size: BTreeSet<(u32, u32)>,
    by_offset: BTreeMap<u32, u32>,
}

impl BestFit {
    fn take_hole(&mut self, offset: u32, units: u32) {
        self.by_size.remove(&(units, offset));
        self.by_offset.remove(&offset);
    }

    fn add_hole(&mut self, offset: u32, units: u32) {
        self.by_size.insert((units, offset));
        self.by_offset.insert(offset, units);
    }
}

impl Index for BestFit {
    type Chunk = (u32, u32);

    fn new(units: u32, _chunks: u32) -> Self {
        let mut index = Self {
            by_size: BTreeSet::new(),
            by_offset: BTreeMap::new(),
        };
        index.add_hole(0, units);
        index
    }

    fn allocate(&mut self, units: u32) -> Option<(u32, u32)> {
        let &(length, offset) = self.by_size.range((units, 0)..).next()?;
        self.take_hole(offset, length);
        if length > units {
            self.add_hole(offset + units, length - units);
        }
        Some((offset, units))
    }

    fn free(&mut self, (mut offset, mut units): (u32, u32)) {
        let below = self.by_offset.range(..offset).next_back();
        if let Some((&start, &length)) = below.filter(|&(&start, &length)| start + length == offset)
        {
            self.take_hole(start, length);
            offset = start;
            units += length;
        }
        if let Some(&length) = self.by_offset.get(&(offset + units)) {
            self.take_hole(offset + units, length);
            units += length;
        }
        self.add_hole(offset, units);
    }
}
