//! The lock of the books: cheap for a search, and a lock to sleep on for whatever takes longer.
//!
//! # Idea
//! An allocation or a free holds the books for some twenty nanoseconds. An ordinary lock costs half as much again,
//! most of it to find out at the end whether anybody sleeps. [`Brief`] does not ask. But a recovery or a report walks
//! the books and may ask a lane what is done, and nobody should spin for that long. So there are two ways in.
//!
//! # Protocol
//! - `inside` guards the books, and is all that [`lock_briefly`](BooksLock::lock_briefly) takes if it is free.
//! - `queue` is taken first by those who need the books for long ([`lock`](BooksLock::lock)), and kept until they
//!   have finished; and by those who want the books briefly and found them taken. So threads that come while somebody
//!   holds the books for long sleep on `queue`, and whoever holds `queue` spins on `inside` for one brief holder at
//!   most.
//! - Order: `queue`, then `inside`. Nobody who holds `inside` takes `queue`.

use std::ops::{Deref, DerefMut};

use piton_sync::{Brief, BriefGuard, Mutex, MutexGuard};

/// See the module.
pub(crate) struct BooksLock<T> {
    inside: Brief<T>,
    queue: Mutex<()>,
}

impl<T> BooksLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            inside: Brief::new(value),
            queue: Mutex::new(()),
        }
    }

    /// For a search or what is as short, and calls nobody.
    #[inline]
    pub(crate) fn lock_briefly(&self) -> BriefGuard<'_, T> {
        match self.inside.try_lock() {
            Some(guard) => guard,
            None => self.queue_up(),
        }
    }

    #[cold]
    fn queue_up(&self) -> BriefGuard<'_, T> {
        let _turn = self.queue.lock();
        self.inside.lock()
    }

    /// For as long as it takes; the others sleep.
    pub(crate) fn lock(&self) -> LongGuard<'_, T> {
        let queue = self.queue.lock();
        LongGuard {
            inside: self.inside.lock(),
            _queue: queue,
        }
    }

    /// Of who has the pool for themselves.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.inside.get_mut()
    }
}

/// The books for long. Fields go in this order: the books first.
pub(crate) struct LongGuard<'a, T> {
    inside: BriefGuard<'a, T>,
    _queue: MutexGuard<'a, ()>,
}

impl<T> Deref for LongGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inside
    }
}

impl<T> DerefMut for LongGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inside
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Those who come briefly and those who stay, at once.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    #[test]
    fn brief_and_long_holders_come_one_at_a_time_and_none_waits_for_ever() {
        model(|| {
            let lock = Arc::new(BooksLock::new(0));
            let others = [true, false].map(|is_long| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    if is_long {
                        *lock.lock() += 1;
                    } else {
                        // The model's locks are never found taken by who only tries: this is the way of who did.
                        *lock.queue_up() += 1;
                    }
                })
            });
            *lock.lock_briefly() += 1;
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(*lock.lock(), 3);
        });
    }
}
