//! The only door to atomics, locks, cells and threads.
//!
//! Every concurrent structure of piton takes its primitives from here, so that one switch decides what
//! they are: std's atomics and parking_lot's locks normally, the [loom](https://docs.rs/loom) model
//! checker under `cfg(loom)`. The two faces have the same names and signatures; code above does not know
//! which it got.
//!
//! Locks do not poison: a panic under a lock leaves the data as the panicking code left it, so piton calls
//! no user code (kernels, host functions, wakers) under a lock. Who unlocks a [`Mutex`] may look at it once more when another
//! thread has it already, so memory that holds one lives until the unlocking has returned: as in an `Arc` that the thread has,
//! and not on a stack that the next thread gives up.
//!
//! | I want to … | take |
//! |---|---|
//! | count or publish | [`atomic`] |
//! | have one thread at a time | [`Mutex`], [`Condvar`] |
//! | have one thread at a time for a few dozen instructions | [`Brief`] |
//! | read or write a word of a device's memory | [`foreign`] |
//! | have several processes raise a number and sleep on it | [`SharedNumber`] |
//! | hand out memory that a protocol guards | [`UnsafeCell`] |
//! | start a thread | [`thread`] |
//! | keep two counters on different cache lines | [`CachePadded`] |
//! | fetch a cache line before it is written | [`prefetch_for_write`] |
//! | order two threads at the cost of the rarer one | [`light_fence`], [`heavy_fence`] |
//! | know a fork from the process it came from | [`ForkMark`], [`WipedFlag`] |
//! | prove a protocol | [`model`] |
//!
//! Reference counts that guard nothing but a lifetime are `std::sync::Arc` everywhere: its handles cross
//! crate boundaries, and piton's models are not about its own ordering.
//!
//! The switch is `cfg(loom)` alone. A dependency is never built with `cfg(test)`, so a door that also asked
//! for `test` would hand std primitives to the model.

#[cfg(not(loom))]
mod asymmetric;
#[cfg(any(not(loom), test))]
mod brief;
pub mod foreign;
#[cfg(not(loom))]
mod fork;
mod prefetch;
mod shared_number;

#[cfg(not(loom))]
#[path = "native.rs"]
mod imp;

#[cfg(loom)]
#[path = "modelled.rs"]
mod imp;
#[cfg(not(loom))]
mod wiped;

#[cfg(not(loom))]
pub use asymmetric::{heavy_fence, light_fence};
#[cfg(not(loom))]
pub use brief::{Brief, BriefGuard};
#[cfg(not(loom))]
pub use fork::ForkMark;
pub use imp::{
    Condvar, Mutex, MutexGuard, UnsafeCell, WaitTimeoutResult, atomic, hint, model, thread,
};
#[cfg(loom)]
pub use imp::{
    ForkMark, Mutex as Brief, MutexGuard as BriefGuard, WipedFlag, heavy_fence, light_fence,
};

pub use crossbeam_utils::CachePadded;
pub use prefetch::prefetch_for_write;
pub use shared_number::{Listening, SharedNumber};
#[cfg(not(loom))]
pub use wiped::WipedFlag;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_condvar_hands_the_lock_back() {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let setter = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_all();
        });
        let mut ready = shared.0.lock();
        while !*ready {
            shared.1.wait(&mut ready);
        }
        drop(ready);
        setter.join().unwrap();
    }

    #[test]
    fn a_panic_under_a_lock_does_not_poison_it() {
        let lock = Arc::new(Mutex::new(7));
        let other = Arc::clone(&lock);
        let panicked = thread::spawn(move || {
            let _guard = other.lock();
            panic!("on purpose");
        })
        .join();
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 7);
    }
}
