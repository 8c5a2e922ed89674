//! Counts what a test program asks the heap for.
//!
//! # The problem
//! "Takes nothing from the heap" is a promise that only the program's allocator can check.
//!
//! # The idea
//! A test that uses this crate has its allocator: the system's, which counts what each thread asks for, and all
//! together.
//!
//! | I want to know what is asked for … | take |
//! |---|---|
//! | by one thread, during some work | [`during`] |
//! | by workers too, between two looks | [`by_all_threads`] |
//!
//! # Not here
//! What is held, and by what size: the benchmarks count that with an allocator of their own, which can be off while
//! time is measured.

#![expect(
    unsafe_code,
    reason = "a global allocator promises what the system's does"
)]

use piton_sync::atomic::{AtomicU64, Ordering};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// How often.
    pub allocations: u64,
    /// Bytes in all, whatever was given back.
    pub bytes: u64,
}

impl Asked {
    /// Nothing at all.
    pub const NOTHING: Self = Self {
        allocations: 0,
        bytes: 0,
    };
}

thread_local! {
    // GLOBAL: what one thread asks for is counted where it asks, and an allocator is passed no argument.
    static OWN: Cell<Asked> = const { Cell::new(Asked::NOTHING) };
}

// GLOBAL: an allocator is passed no argument.
static ALL: AtomicU64 = AtomicU64::new(0);

/// What `work` asks for on this thread.
pub fn during(work: impl FnOnce()) -> Asked {
    let before = OWN.get();
    work();
    let after = OWN.get();
    Asked {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    }
}

/// How often any thread of the program has asked so far; the test runner's own are among them.
pub fn by_all_threads() -> u64 {
    ALL.load(Ordering::Relaxed)
}

struct Counting;

// GLOBAL: an allocator is the program's by its nature.
#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALL.fetch_add(1, Ordering::Relaxed);
        // A thread that is ending has no counter any more.
        let _counted = OWN.try_with(|own| {
            let Asked { allocations, bytes } = own.get();
            own.set(Asked {
                allocations: allocations + 1,
                bytes: bytes + layout.size() as u64,
            });
        });
        // SAFETY: the caller promised it for the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller promised it for the start and the layout.
        unsafe { System.dealloc(start, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, by_all_threads, during};
    use std::hint::black_box;

    #[test]
    fn a_box_is_one_allocation_of_its_bytes() {
        let all = by_all_threads();
        let asked = during(|| drop(black_box(Box::new([0_u8; 100]))));
        let expected = Asked {
            allocations: 1,
            bytes: 100,
        };
        assert_eq!(asked, expected);
        assert!(by_all_threads() > all);
        assert_eq!(during(|| ()), Asked::NOTHING);
    }

    #[test]
    fn what_another_thread_asks_for_is_its_own() {
        let mut theirs = Asked::NOTHING;
        let ours = during(|| {
            std::thread::scope(|scope| {
                let thread = || during(|| drop(black_box(vec![0_u8; 1 << 20])));
                // A panic of the thread would leave nothing, and fail the test.
                theirs = scope.spawn(thread).join().unwrap_or_default();
            });
        });
        assert_eq!(theirs.allocations, 1);
        assert!(ours.bytes < theirs.bytes);
    }
}
