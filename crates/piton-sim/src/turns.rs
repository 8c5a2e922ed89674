//! Who submits to a queue: many in turn, each for one command, or one that keeps the right for as long as it likes.
//!
//! # The idea
//! A submission holds the right for some twenty nanoseconds, so it is had by one read-modify-write and given back by a
//! store, and nobody sleeps for it (as for `Brief`). A *keeper*, which is a writer, may hold it for hours: who finds one
//! sleeps until it goes.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `held` | who takes a turn, from `FREE` to `TURN`; a keeper, from `FREE` to `KEPT`; by a compare-exchange | Acquire |
//! | | who ends a turn, with `FREE` | Release |
//! | | a keeper that goes, with `FREE`, under `sleep`, before it rings `gone` | Release |
//! | the value | whoever has the right | plain |
//!
//! Who sleeps looks at `held` under `sleep` first, and a keeper goes under `sleep`: no wake is lost.

#![expect(unsafe_code, reason = "hands out what it guards")]

use piton_sync::{
    Condvar, Mutex, UnsafeCell,
    atomic::{AtomicU8, Ordering},
    hint, thread,
};
use std::{
    fmt,
    ops::{Deref, DerefMut},
};

const FREE: u8 = 0;
const TURN: u8 = 1;
const KEPT: u8 = 2;

/// Looks before a thread gives its core away: who has the turn has probably lost its own.
const LOOKS: u32 = 100;

/// See the module.
#[derive(Default)]
pub(crate) struct Turns<T> {
    held: AtomicU8,
    value: UnsafeCell<T>,
    sleep: Mutex<()>,
    gone: Condvar,
}

// SAFETY: the value is reached by one thread at a time, as the protocol says; it moves between threads.
unsafe impl<T: Send> Sync for Turns<T> {}

impl<T> fmt::Debug for Turns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

impl<T> Turns<T> {
    /// Waits for a turn, which is to be short.
    #[inline]
    pub(crate) fn take(&self) -> Turn<'_, T> {
        while !self.enter(TURN) {
            self.wait();
        }
        Turn(self)
    }

    /// Keeps the right for as long as the result lives; `None` where somebody else has it now.
    pub(crate) fn keep(&self) -> Option<Keeper<'_, T>> {
        self.enter(KEPT).then_some(Keeper(self))
    }

    /// The value, for whoever borrows it alone.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: nobody else can have the right, nor a reference.
        unsafe { self.value_mut() }
    }

    #[inline]
    fn enter(&self, as_what: u8) -> bool {
        let entered =
            self.held
                .compare_exchange(FREE, as_what, Ordering::Acquire, Ordering::Relaxed);
        entered.is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        loop {
            match self.held.load(Ordering::Relaxed) {
                FREE => return,
                KEPT => return self.sleep_out(),
                _ if looks < LOOKS => hint::spin_loop(),
                _ => thread::yield_now(),
            }
            looks += 1;
        }
    }

    fn sleep_out(&self) {
        let mut asleep = self.sleep.lock();
        while self.held.load(Ordering::Relaxed) == KEPT {
            self.gone.wait(&mut asleep);
        }
    }

    /// # Safety
    /// The caller has the right for as long as the reference lives.
    unsafe fn value(&self) -> &T {
        self.value.with(|value| {
            // SAFETY: who has the right has the value alone.
            unsafe { &*value }
        })
    }

    /// # Safety
    /// As [`value`](Self::value), and there is no other reference.
    #[expect(clippy::mut_from_ref, reason = "the caller borrows the right alone")]
    unsafe fn value_mut(&self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: as in `value`, and borrowed alone.
            unsafe { &mut *value }
        })
    }
}

/// A turn.
#[derive(Debug)]
pub(crate) struct Turn<'a, T>(&'a Turns<T>);

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(FREE, Ordering::Release);
    }
}

/// The right, kept.
#[derive(Debug)]
pub(crate) struct Keeper<'a, T>(&'a Turns<T>);

impl<T> Drop for Keeper<'_, T> {
    fn drop(&mut self) {
        let asleep = self.0.sleep.lock();
        self.0.held.store(FREE, Ordering::Release);
        self.0.gone.notify_all();
        drop(asleep);
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it has the right, and is borrowed as long.
        unsafe { self.0.value() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: it has the right, and is borrowed alone as long.
        unsafe { self.0.value_mut() }
    }
}

impl<T> Deref for Keeper<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it has the right, and is borrowed as long.
        unsafe { self.0.value() }
    }
}

impl<T> DerefMut for Keeper<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: it has the right, and is borrowed alone as long.
        unsafe { self.0.value_mut() }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::model;
    use std::sync::Arc;

    #[test]
    fn a_turn_and_a_keeper_never_have_the_right_at_once_and_nobody_sleeps_for_ever() {
        model(|| {
            let turns = Arc::new(Turns::<u32>::default());
            let keeper = {
                let turns = Arc::clone(&turns);
                thread::spawn(move || {
                    let Some(mut kept) = turns.keep() else {
                        return 0;
                    };
                    *kept += 1;
                    1
                })
            };
            // A keeper that is never waited for is a deadlock, which the model reports.
            *turns.take() += 1;
            let kept = keeper.join().unwrap();
            assert_eq!(*turns.take(), 1 + kept);
        });
    }

    #[test]
    fn of_two_turns_the_second_sees_the_first() {
        model(|| {
            let turns = Arc::new(Turns::<u32>::default());
            let other = Arc::clone(&turns);
            let other = thread::spawn(move || *other.take() += 1);
            *turns.take() += 1;
            other.join().unwrap();
            assert_eq!(*turns.take(), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_excludes_keepers_until_it_goes() {
        let turns = Turns::<u32>::default();
        let mut kept = turns.keep().unwrap();
        *kept = 7;
        assert!(turns.keep().is_none());
        drop(kept);
        let turn = turns.take();
        assert_eq!(*turn, 7);
        assert!(turns.keep().is_none());
        drop(turn);
        assert!(turns.keep().is_some());
    }
}
