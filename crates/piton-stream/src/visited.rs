//! A value that is taken away one day, and one visitor at a time who uses it without a lock.
//!
//! # The idea
//! Whoever uses a value that may go away must keep it there: by a lock and a handle of its own, which are four
//! read-modify-writes, or by counting itself in and out, which are two. Here is one place for a visitor, entered by one and
//! left by a store. **Nobody waits for the place**: who finds it occupied goes by the lock, and a value that is to go away
//! while somebody visits goes later. So a visitor may take its time and call whom it likes.
//!
//! # Protocol
//! The owner has a lock, under which the value is taken and looked at by everybody but the visitor.
//!
//! | word | written by | order |
//! |---|---|---|
//! | `place` | a visitor, from `FREE` to `OCCUPIED` by a compare-exchange | Acquire |
//! | | the visitor who leaves, with `FREE` | Release, after its last look at the value |
//! | | [`take`](Visited::take), from `FREE` to `GONE` by a compare-exchange, for good | Acquire: the last visitor is through |
//! | `value` | whoever has made the place `GONE`, under the lock | plain |

#![expect(unsafe_code, reason = "a value is handed out by the protocol above")]

use piton_sync::{
    UnsafeCell,
    atomic::{AtomicU8, Ordering},
};
use std::ops::Deref;

const FREE: u8 = 0;
const OCCUPIED: u8 = 1;
const GONE: u8 = 2;

/// See the module.
pub(crate) struct Visited<T> {
    place: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: several threads look at the value at once, and one of them takes it when no other can look, as the protocol
// says.
unsafe impl<T: Send + Sync> Sync for Visited<T> {}

impl<T> Visited<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            place: AtomicU8::new(FREE),
            value: UnsafeCell::new(Some(value)),
        }
    }

    /// The value, without the lock; `None` where somebody visits already or it is gone.
    #[inline]
    pub(crate) fn visit(&self) -> Option<Visit<'_, T>> {
        let entered =
            self.place
                .compare_exchange(FREE, OCCUPIED, Ordering::Acquire, Ordering::Relaxed);
        entered.ok()?;
        self.value.with(|value| {
            // SAFETY: the place is the caller's, so nobody takes the value until the visit is over.
            let value = unsafe { &*value };
            // Never `None`: a place that was free is not gone.
            value.as_ref().map(|value| Visit {
                place: &self.place,
                value,
            })
        })
    }

    /// The value, until it is taken.
    ///
    /// # Safety
    /// The caller has the owner's lock for as long as the reference lives.
    pub(crate) unsafe fn get(&self) -> Option<&T> {
        self.value.with(|value| {
            // SAFETY: it is taken under the lock that the caller has.
            unsafe { &*value }.as_ref()
        })
    }

    /// Takes the value; `None` if it is gone already, or cannot go now since somebody visits.
    ///
    /// # Safety
    /// The caller has the owner's lock, and no reference from [`get`](Self::get).
    pub(crate) unsafe fn take(&self) -> Option<T> {
        let emptied = self
            .place
            .compare_exchange(FREE, GONE, Ordering::Acquire, Ordering::Relaxed);
        emptied.ok()?;
        self.value.with_mut(|value| {
            // SAFETY: no visitor is there and none will come; whoever else looks has the lock, which is the caller's.
            unsafe { &mut *value }.take()
        })
    }
}

/// A visit. Its end leaves the place to the next.
pub(crate) struct Visit<'a, T> {
    place: &'a AtomicU8,
    value: &'a T,
}

impl<T> Deref for Visit<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for Visit<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.place.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{Mutex, model, thread};
    use std::sync::Arc;

    /// The value is a cell, so that looks at it and its end are seen by the model.
    struct Owner {
        lock: Mutex<()>,
        value: Visited<UnsafeCell<u32>>,
    }

    impl Owner {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                lock: Mutex::new(()),
                value: Visited::new(UnsafeCell::new(7)),
            })
        }

        fn take(&self) -> bool {
            let held = self.lock.lock();
            // SAFETY: the lock is held.
            let taken = unsafe { self.value.take() };
            drop(held);
            taken.is_some_and(|cell| {
                // SAFETY: taken, so nobody else's.
                cell.with_mut(|value| unsafe { *value = 0 });
                true
            })
        }
    }

    fn look(cell: &UnsafeCell<u32>) {
        // SAFETY: written only once it was taken.
        cell.with(|value| assert_eq!(unsafe { *value }, 7));
    }

    #[test]
    fn nobody_looks_at_a_value_that_was_taken() {
        model(|| {
            let owner = Owner::new();
            let visitor = {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    owner.value.visit().is_some_and(|cell| {
                        look(&cell);
                        true
                    })
                })
            };
            let was_taken = owner.take();
            let has_visited = visitor.join().unwrap();
            assert!(was_taken || has_visited, "nobody was in the way");
            assert!(was_taken || owner.take(), "it goes once nobody visits");
            assert!(owner.value.visit().is_none());
        });
    }

    #[test]
    fn of_two_visitors_one_may_have_to_go_by_the_lock() {
        model(|| {
            let owner = Owner::new();
            let other = {
                let owner = Arc::clone(&owner);
                thread::spawn(move || owner.take())
            };
            if let Some(cell) = owner.value.visit() {
                look(&cell);
                assert!(owner.value.visit().is_none());
            } else {
                let held = owner.lock.lock();
                // SAFETY: the lock is held until after the look.
                if let Some(cell) = unsafe { owner.value.get() } {
                    look(cell);
                }
                drop(held);
            }
            other.join().unwrap();
        });
    }
}
