//! The counting allocator: how often the program asks for memory, and how much it holds.
//!
//! Counting is off while times are measured, when the counter is a predicted branch, and on for the rows that count.
//! Allocations of 2 KiB and more are counted apart: they are the rings of streams.

#![expect(
    unsafe_code,
    reason = "a global allocator promises what the system's does"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

/// An allocation of so many bytes is a ring.
const RING: usize = 2 << 10;

/// The system's allocator, counted.
pub(crate) struct Counting {
    is_on: AtomicBool,
    allocations: AtomicU64,
    small_bytes: AtomicI64,
    ring_bytes: AtomicI64,
}

thread_local! {
    // GLOBAL: what one thread asks for is counted where it asks, and an allocator is passed no argument.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heap {
    /// Allocations by all threads.
    pub(crate) allocations: u64,
    /// Allocations by the calling thread.
    pub(crate) own: u64,
    /// Bytes taken and not given back, of allocations below 2 KiB.
    pub(crate) small_bytes: i64,
    /// Bytes taken and not given back, of larger ones.
    pub(crate) ring_bytes: i64,
}

impl Counting {
    pub(crate) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            allocations: AtomicU64::new(0),
            small_bytes: AtomicI64::new(0),
            ring_bytes: AtomicI64::new(0),
        }
    }

    /// What `work` asks of the heap, on all threads, until it returns.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Heap) {
        let before = self.look();
        self.is_on.store(true, Ordering::SeqCst);
        let result = work();
        self.is_on.store(false, Ordering::SeqCst);
        let after = self.look();
        let heap = Heap {
            allocations: after.allocations - before.allocations,
            own: after.own - before.own,
            small_bytes: after.small_bytes - before.small_bytes,
            ring_bytes: after.ring_bytes - before.ring_bytes,
        };
        (result, heap)
    }

    fn look(&self) -> Heap {
        Heap {
            allocations: self.allocations.load(Ordering::SeqCst),
            own: OWN.get(),
            small_bytes: self.small_bytes.load(Ordering::SeqCst),
            ring_bytes: self.ring_bytes.load(Ordering::SeqCst),
        }
    }

    fn took(&self, bytes: usize) {
        if self.is_on.load(Ordering::Relaxed) {
            self.allocations.fetch_add(1, Ordering::Relaxed);
            // A thread that is ending has no counter any more.
            let _counted = OWN.try_with(|own| own.set(own.get() + 1));
            self.hold(bytes, 1);
        }
    }

    fn gave(&self, bytes: usize) {
        if self.is_on.load(Ordering::Relaxed) {
            self.hold(bytes, -1);
        }
    }

    fn hold(&self, bytes: usize, sign: i64) {
        let held = if bytes < RING {
            &self.small_bytes
        } else {
            &self.ring_bytes
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        held.fetch_add(sign * bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is the system allocator's, with the arguments given; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.took(layout.size());
        // SAFETY: the caller promised what `System` asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.gave(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.gave(layout.size());
        self.took(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }
}
