//! A number in page-locked memory that a stream writes and the host reads.
//!
//! # Protocol
//! The device stores with release semantics (the backend asks for a write that fences what came before it in its stream);
//! the host loads with Acquire. The host itself stores only once, [`RELEASED`], when the device will write no more.

#![expect(
    unsafe_code,
    reason = "memory that the device writes, seen as an atomic number"
)]

use piton_sync::atomic::{AtomicU64, Ordering};
use std::ptr::NonNull;

/// What a counter shows when its stream is dead: whoever waits for it goes on.
const RELEASED: u64 = u64::MAX;

/// A counter: a claim on memory, which its owner gives back.
#[derive(Debug)]
pub struct Counter {
    place: NonNull<u64>,
    /// In models, which have no device and no memory of one, the number itself.
    #[cfg(loom)]
    number: AtomicU64,
}

// SAFETY: the address of a number that everybody reads and writes as an atomic.
unsafe impl Send for Counter {}
// SAFETY: as for `Send`.
unsafe impl Sync for Counter {}

impl Counter {
    /// A counter at this place, which shows zero from now on.
    ///
    /// # Safety
    /// The place is aligned, and live for as long as the counter is used; the device and this alone write it, as an atomic
    /// number.
    pub unsafe fn new(place: NonNull<u64>) -> Self {
        #[cfg(not(loom))]
        // SAFETY: the caller's promise; nobody else knows it yet.
        unsafe {
            place.write(0);
        }
        Self {
            place,
            #[cfg(loom)]
            number: AtomicU64::new(0),
        }
    }

    /// Where it is.
    pub const fn place(&self) -> NonNull<u64> {
        self.place
    }

    #[cfg(not(loom))]
    const fn shared(&self) -> &AtomicU64 {
        // SAFETY: `new`'s caller promised that it is aligned, live, and an atomic of eight bytes for everybody.
        unsafe { AtomicU64::from_ptr(self.place.as_ptr()) }
    }

    #[cfg(loom)]
    const fn shared(&self) -> &AtomicU64 {
        &self.number
    }

    /// What the device does.
    #[cfg(all(test, loom))]
    pub(super) fn write(&self, value: u64) {
        self.shared().store(value, Ordering::Release);
    }

    /// What the device wrote last, and nothing once it was released. What it wrote before is visible.
    pub(super) fn shown(&self) -> Option<u64> {
        let shown = self.shared().load(Ordering::Acquire);
        (shown != RELEASED).then_some(shown)
    }

    /// Lets whoever waits for it go on.
    pub(super) fn release(&self) {
        self.shared().store(RELEASED, Ordering::Release);
    }
}
