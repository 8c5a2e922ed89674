//! Access to a front: one thread at a time, entering by one exchange and leaving by a store.
//!
//! # Protocol
//! To enter, exchange `busy` for `true`; to leave, store `false`. The store is a Release and the exchange an Acquire,
//! so whoever enters sees everything that was done inside before. There is no queue of waiters. Threads for which the
//! front is a shortcut turn away ([`Gate::try_enter`]); the rare one that must get in ([`Gate::enter`]) yields until
//! it does. A thread inside takes bounded steps and waits at most for the pool's `books`, whose holders never wait
//! for a gate.

#![expect(
    unsafe_code,
    reason = "what is inside is reached through a cell that the gate guards"
)]

use piton_sync::atomic::{AtomicBool, Ordering};
use piton_sync::{UnsafeCell, thread};

/// A value for one at a time.
#[derive(Debug)]
pub(super) struct Gate<T> {
    busy: AtomicBool,
    inside: UnsafeCell<T>,
}

// SAFETY: the value is reached only through `Entered`, of which there is one at a time: see the protocol. It goes from
// thread to thread, and so must be `Send`.
unsafe impl<T: Send> Sync for Gate<T> {}

impl<T> Gate<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            busy: AtomicBool::new(false),
            inside: UnsafeCell::new(value),
        }
    }

    /// Enters unless somebody is inside.
    #[inline]
    pub(super) fn try_enter(&self) -> Option<Entered<'_, T>> {
        let entered = self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        entered.is_ok().then(|| Entered(self))
    }

    /// Enters once nobody is inside.
    pub(super) fn enter(&self) -> Entered<'_, T> {
        loop {
            if let Some(entered) = self.try_enter() {
                return entered;
            }
            thread::yield_now();
        }
    }
}

/// Being inside. Dropping it leaves.
#[derive(Debug)]
pub(super) struct Entered<'a, T>(&'a Gate<T>);

impl<T> Entered<'_, T> {
    /// Does something inside.
    #[inline]
    pub(super) fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        self.0.inside.with_mut(|inside| {
            // SAFETY: there is one `Entered` of a gate at a time, it is borrowed mutably here, and what the last one did
            // happened before by the Release and the Acquire of `busy`.
            let inside = unsafe { &mut *inside };
            f(inside)
        })
    }
}

impl<T> Drop for Entered<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! One inside at a time, who sees what was done before; and one who must get in.

    use super::*;
    use piton_sync::model;
    use std::sync::Arc;

    #[test]
    fn whoever_enters_is_alone_and_sees_what_was_done_inside() {
        model(|| {
            let gate = Arc::new(Gate::new(0));
            let other = {
                let gate = Arc::clone(&gate);
                thread::spawn(move || gate.try_enter().map(|mut inside| inside.with(|n| *n += 1)))
            };
            gate.enter().with(|n| *n += 1);
            let entered = other.join().unwrap().is_some();
            assert_eq!(gate.enter().with(|n| *n), 1 + i32::from(entered));
        });
    }
}
