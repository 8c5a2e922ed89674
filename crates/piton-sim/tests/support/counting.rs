//! The test program's allocator, which counts what all of its threads ask for.

#![expect(
    unsafe_code,
    reason = "a global allocator promises what the system's does"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

// GLOBAL: an allocator is passed no argument.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// How often any thread has asked for memory.
pub(crate) fn asked() -> u64 {
    ASKED.load(Ordering::Relaxed)
}

struct Counting;

// GLOBAL: an allocator is the program's by its nature.
#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller promised it for the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller promised it for the start and the layout.
        unsafe { System.dealloc(start, layout) }
    }
}
