//! A lock for sections of some tens of nanoseconds.
//!
//! # The idea
//! An ordinary lock is let go by a read-modify-write, which must find out whether anybody sleeps for it. Where sections
//! are so short that nobody should sleep, a store does, and the lock costs half where nobody is in the way. Whoever
//! finds it taken spins for longer than a section takes; then its holder has lost its core, and gets this one.
//!
//! Under it: loads, stores and moves, now and then a block from the heap. Nothing that waits, no system call, no call
//! of anybody else's code, and no other lock that is not as brief. Who runs at a real-time priority above the
//! holder's on the same core would keep the core from it for ever.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `is_taken` | [`lock`](Brief::lock) and [`try_lock`](Brief::try_lock), by a compare-exchange from `false` | Acquire; pairs with the store of the holder before |
//! | | the guard's drop, with `false` | Release, after the last look at the value |
//! | the value | whoever holds the lock | plain |
//!
//! Models of what is built on it use the model checker's own lock, which blocks and does not spin; the models here are
//! of this one.

#![expect(unsafe_code, reason = "a lock hands out what it guards")]
#![cfg_attr(
    loom,
    expect(
        unreachable_pub,
        reason = "models of what is built on it take another lock"
    )
)]

use crate::imp::{
    UnsafeCell,
    atomic::{AtomicBool, Ordering},
    hint, thread,
};
use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

/// Looks before a thread gives its core away: two microseconds or more.
const LOOKS: u32 = 100;

/// See the module.
pub struct Brief<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, as the protocol says; it moves between threads.
unsafe impl<T: Send> Sync for Brief<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Brief<T> {}

impl<T> fmt::Debug for Brief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brief").finish_non_exhaustive()
    }
}

impl<T: Default> Default for Brief<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Brief<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> BriefGuard<'_, T> {
        while !self.take() {
            self.wait();
        }
        BriefGuard {
            lock: self,
            stays: PhantomData,
        }
    }

    /// The lock if nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<BriefGuard<'_, T>> {
        self.take().then(|| BriefGuard {
            lock: self,
            stays: PhantomData,
        })
    }

    /// The value, of who has the lock for themselves.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: borrowed alone, so there is no guard.
            unsafe { &mut *value }
        })
    }

    #[inline]
    fn take(&self) -> bool {
        let taken =
            self.is_taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        while self.is_taken.load(Ordering::Relaxed) {
            looks += 1;
            if looks < LOOKS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

/// A held lock.
pub struct BriefGuard<'a, T> {
    lock: &'a Brief<T>,
    /// A guard is shared only where the value is, and ends where it began.
    stays: PhantomData<*mut T>,
}

// SAFETY: a shared guard gives shared references to the value and no more.
unsafe impl<T: Sync> Sync for BriefGuard<'_, T> {}

impl<T> fmt::Debug for BriefGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BriefGuard").finish_non_exhaustive()
    }
}

impl<T> Deref for BriefGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.lock.value.with(|value| {
            // SAFETY: the guard has the lock, so nobody else has the value; borrowed as long as the guard is.
            unsafe { &*value }
        })
    }
}

impl<T> DerefMut for BriefGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.lock.value.with_mut(|value| {
            // SAFETY: as in `deref`, and the guard is borrowed alone.
            unsafe { &mut *value }
        })
    }
}

impl<T> Drop for BriefGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::model;
    use std::sync::Arc;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        model(|| {
            let counter = Arc::new(Brief::new(0_u32));
            let others = [(); 2].map(|()| {
                let counter = Arc::clone(&counter);
                thread::spawn(move || *counter.lock() += 1)
            });
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(*counter.lock(), 2);
        });
    }

    #[test]
    fn who_has_it_next_sees_what_was_done_before_and_outside() {
        model(|| {
            let shared = Arc::new((Brief::new(false), UnsafeCell::new(0_u32)));
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.1.with_mut(|outside| {
                        // SAFETY: read only by who finds the mark, which is set after this.
                        unsafe { *outside = 7 };
                    });
                    *shared.0.lock() = true;
                })
            };
            let is_done = *shared.0.lock();
            if is_done {
                // SAFETY: the writer is through with it.
                shared.1.with(|outside| assert_eq!(unsafe { *outside }, 7));
            }
            writer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_only_tries_has_it_when_nobody_else_does() {
        let mut lock = Brief::new(1);
        let held = lock.try_lock();
        assert!(held.is_some() && lock.try_lock().is_none());
        drop(held);
        *lock.get_mut() += 1;
        assert_eq!(lock.try_lock().as_deref(), Some(&2));
    }

    #[test]
    fn many_threads_lose_no_count() {
        let counter = Arc::new(Brief::new(0_u32));
        let threads = [(); 4].map(|()| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || (0..10_000).for_each(|_| *counter.lock() += 1))
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(*counter.lock(), 40_000);
    }

    #[test]
    fn a_panic_under_the_lock_lets_it_go() {
        let lock = Arc::new(Brief::new(7));
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
