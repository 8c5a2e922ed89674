//! General allocators as baselines. Their memory is neither locked nor known to a device.

#![expect(
    unsafe_code,
    reason = "global allocators are called by their unsafe methods"
)]

use crate::subject::Subject;
use std::alloc::{GlobalAlloc, Layout};

/// Memory from a general allocator.
pub(crate) struct Claim {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: the memory belongs to no thread, and nobody looks at it.
unsafe impl Send for Claim {}

/// The mimalloc allocator.
pub(crate) struct Mimalloc;

/// The jemalloc allocator.
pub(crate) struct Jemalloc;

impl Subject for Mimalloc {
    type Block = Claim;

    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Claim {
        allocate(&mimalloc::MiMalloc, bytes)
    }

    #[inline(always)]
    fn free(&self, block: Claim) {
        free(&mimalloc::MiMalloc, block);
    }
}

impl Subject for Jemalloc {
    type Block = Claim;

    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Claim {
        allocate(&tikv_jemallocator::Jemalloc, bytes)
    }

    #[inline(always)]
    fn free(&self, block: Claim) {
        free(&tikv_jemallocator::Jemalloc, block);
    }
}

#[expect(clippy::expect_used, reason = "a benchmark without memory ends")]
fn allocate(allocator: &impl GlobalAlloc, bytes: usize) -> Claim {
    let layout = Layout::from_size_align(bytes, 64).expect("a small size");
    // SAFETY: the benchmark asks for no empty block.
    let start = unsafe { allocator.alloc(layout) };
    assert!(!start.is_null());
    Claim { start, layout }
}

fn free(allocator: &impl GlobalAlloc, block: Claim) {
    // SAFETY: it came from this allocator with this layout, and is freed once.
    unsafe { allocator.dealloc(block.start, block.layout) };
}
