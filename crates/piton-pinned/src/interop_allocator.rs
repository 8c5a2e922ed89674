//! The pool as an [`Allocator`] of the `allocator-api2` crate, so that its collections lie in page-locked memory.
//!
//! # The idea
//! In front of what a collection is given lies the handle of its block. Such memory carries no record of what devices do
//! with it, as a collection has no place for it: who names it in a command (unsafe code already) waits for that command
//! before the collection moves, frees or changes the memory. [`PinnedVec`](crate::PinnedVec) keeps a record.

#![expect(
    unsafe_code,
    reason = "collections are given raw memory, and the block's handle lies in front of it"
)]

use crate::{PinnedBlock, PinnedPool};
use allocator_api2::alloc::{AllocError, Allocator, Layout};
use std::ptr::NonNull;

/// How far behind the start of its block a collection's memory begins: room for the handle, and no less aligned.
fn offset(layout: Layout) -> usize {
    const { assert!(size_of::<PinnedBlock>() <= 64 && align_of::<PinnedBlock>() <= 64) };
    layout.align().max(64)
}

// SAFETY: each memory handed out is inside a block that is not given back before `deallocate`, wherever the pool's handles
// are; all handles of a pool are equal, as is asked of clones.
unsafe impl Allocator for PinnedPool {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let offset = offset(layout);
        let bytes = layout.size().checked_add(offset).ok_or(AllocError)?;
        let block = self
            .allocate_aligned(bytes, layout.align())
            .map_err(|_| AllocError)?;
        let start = block.as_ptr();
        // SAFETY: the block has at least 64 bytes in front of `offset`, at a multiple of 64, and nobody else has them.
        unsafe { start.cast::<PinnedBlock>().write(block) };
        // SAFETY: `offset` is inside the block, or at its end if the collection asked for nothing.
        let memory = unsafe { start.add(offset) };
        Ok(NonNull::slice_from_raw_parts(memory, layout.size()))
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `memory` came from `allocate` with this layout (the caller), so its block starts there.
        let start = unsafe { memory.sub(offset(layout)) };
        // SAFETY: `allocate` wrote the handle there, nobody has overwritten it, and it is taken once.
        drop(unsafe { start.cast::<PinnedBlock>().read() });
    }
}
