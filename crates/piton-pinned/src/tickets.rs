//! Shared ownership that is counted by the batch.
//!
//! # The problem
//! A block keeps its pool alive. With a counted pointer in each block, every request and every drop changes one word
//! that all threads share: 15 ns for the pair on one thread, and no gain from a second thread at all.
//!
//! # The idea
//! A *ticket* is one reference. A thread keeps a *purse* of them: a block that is handed out takes a ticket along, a
//! block that is dropped leaves its ticket in the purse of the thread that drops it. The shared count is changed only
//! when a purse is empty or overfull, by [`BATCH`] at once.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `count` up | who holds a ticket or a purse, so it is not zero | Relaxed: nothing is learnt from it |
//! | `count` down | who gives tickets up | Release: what was done with the value comes before its end |
//! | `count` found zero | the one whose decrement made it zero | Acquire load, pairs with all decrements before |
//!
//! # Invariants
//! 1. `count` is the number of tickets plus, for each purse, its spare ones and its own.
//! 2. The value exists while `count` is not zero.

#![expect(
    unsafe_code,
    reason = "a reference count that is taken and given up many at a time"
)]

use piton_sync::atomic::{AtomicUsize, Ordering};
use std::{
    fmt, marker::PhantomData, mem::ManuallyDrop, num::NonZeroUsize, ops::Deref, ptr::NonNull,
};

/// How many tickets a purse takes or gives up at once.
pub(crate) const BATCH: usize = 64;

struct Shared<T> {
    count: AtomicUsize,
    value: T,
}

/// One reference to a shared value.
pub(crate) struct Ticket<T> {
    shared: NonNull<Shared<T>>,
}

/// Some references to a shared value, at least one, for one thread to give out and take back.
pub(crate) struct Purse<T> {
    shared: NonNull<Shared<T>>,
    /// Tickets to give out, besides the purse's own.
    spare: usize,
}

/// Which value a ticket is of: its address, which nobody follows.
#[derive(Debug)]
pub(crate) struct Key<T> {
    address: NonZeroUsize,
    value: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    #[inline]
    fn of(shared: NonNull<Shared<T>>) -> Self {
        Self {
            address: shared.addr(),
            value: PhantomData,
        }
    }
}

impl<T> Clone for Key<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for Key<T> {}

// SAFETY: `shared` is the only field; as with `Arc`, a ticket gives shared access to the value, and whoever drops the
// last one drops the value.
unsafe impl<T: Send + Sync> Send for Ticket<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Ticket<T> {}
// SAFETY: a purse is some tickets and their number.
unsafe impl<T: Send + Sync> Send for Purse<T> {}

impl<T> Ticket<T> {
    /// Shares `value`.
    pub(crate) fn new(value: T) -> Self {
        // INVARIANT: 1 holds, there is one ticket.
        let shared = Box::new(Shared {
            count: AtomicUsize::new(1),
            value,
        });
        Self {
            shared: NonNull::from(Box::leak(shared)),
        }
    }

    /// What tells this value from others for as long as there is a ticket of it.
    #[inline]
    pub(crate) fn key(&self) -> Key<T> {
        Key::of(self.shared)
    }
}

impl<T> Purse<T> {
    /// A purse whose own ticket is `ticket`.
    pub(crate) fn new(ticket: Ticket<T>) -> Self {
        let ticket = ManuallyDrop::new(ticket);
        // INVARIANT: the ticket is the purse's own from now on.
        Self {
            shared: ticket.shared,
            spare: 0,
        }
    }

    /// Whether it holds tickets of the value with this key.
    #[inline]
    pub(crate) fn is_of(&self, key: Key<T>) -> bool {
        Key::of(self.shared) == key
    }

    /// Gives a ticket out.
    #[inline]
    pub(crate) fn take(&mut self) -> Ticket<T> {
        if self.spare == 0 {
            self.refill();
        }
        self.spare -= 1;
        Ticket {
            shared: self.shared,
        }
    }

    /// Takes a ticket back; one of another value is given up.
    #[inline]
    pub(crate) fn put(&mut self, ticket: Ticket<T>) {
        if !self.is_of(ticket.key()) {
            return;
        }
        // INVARIANT: the ticket becomes a spare one.
        let _spare = ManuallyDrop::new(ticket);
        self.spare += 1;
        if self.spare > 2 * BATCH {
            self.spill();
        }
    }

    #[cold]
    fn refill(&mut self) {
        // SAFETY: the purse has its own ticket.
        let count = unsafe { counter(self.shared) };
        count.fetch_add(BATCH, Ordering::Relaxed);
        self.spare += BATCH;
    }

    #[cold]
    fn spill(&mut self) {
        self.spare -= BATCH;
        // SAFETY: the purse has its own ticket, which remains: the count does not become zero.
        let count = unsafe { counter(self.shared) };
        count.fetch_sub(BATCH, Ordering::Release);
    }
}

/// The count of a value.
///
/// # Safety
/// The caller has a ticket of it for as long as `'a`.
#[inline]
unsafe fn counter<'a, T: 'a>(shared: NonNull<Shared<T>>) -> &'a AtomicUsize {
    // SAFETY: by invariant 2 the value exists while the caller has its ticket.
    &unsafe { shared.as_ref() }.count
}

/// Gives `tickets` tickets up, and ends the value with the last.
///
/// # Safety
/// The caller owns as many, and uses none of them after this.
#[inline]
unsafe fn give_up<T>(shared: NonNull<Shared<T>>, tickets: usize) {
    // SAFETY: the caller owns tickets until the next line, and whoever finds the last decrement owns the value.
    let count = unsafe { counter(shared) };
    if count.fetch_sub(tickets, Ordering::Release) == tickets {
        count.load(Ordering::Acquire);
        // SAFETY: it came out of a box, nobody has a ticket any more, and only one decrement finds the last.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

impl<T> Clone for Ticket<T> {
    fn clone(&self) -> Self {
        // SAFETY: this is a ticket.
        let count = unsafe { counter(self.shared) };
        count.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: self.shared,
        }
    }
}

impl<T> Drop for Ticket<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a ticket is one, and ends here.
        unsafe { give_up(self.shared, 1) }
    }
}

impl<T> Drop for Purse<T> {
    fn drop(&mut self) {
        // SAFETY: these are the purse's, and it ends here.
        unsafe { give_up(self.shared, self.spare + 1) }
    }
}

impl<T> Deref for Ticket<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by invariant 2 it exists for as long as this ticket does.
        &unsafe { self.shared.as_ref() }.value
    }
}

impl<T> Deref for Purse<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by invariant 2 it exists for as long as the purse's own ticket does.
        &unsafe { self.shared.as_ref() }.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&**self).finish()
    }
}

impl<T> fmt::Debug for Purse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purse")
            .field("spare", &self.spare)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn counted() -> (Arc<()>, Ticket<Arc<()>>) {
        let value = Arc::new(());
        (Arc::clone(&value), Ticket::new(value))
    }

    #[test]
    fn the_value_ends_with_the_last_ticket_however_they_moved() {
        let (value, ticket) = counted();
        let mut purse = Purse::new(ticket.clone());
        let out: Vec<_> = (0..3 * BATCH).map(|_| purse.take()).collect();
        drop(ticket);
        drop(purse);
        assert_eq!(Arc::strong_count(&value), 2);
        let mut other = Purse::new(out[0].clone());
        out.into_iter().for_each(|ticket| other.put(ticket));
        assert_eq!(Arc::strong_count(&value), 2);
        drop(other);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_ticket_of_another_value_is_given_up_and_not_mixed_in() {
        let (first, ticket) = counted();
        let (second, other) = counted();
        let mut purse = Purse::new(ticket);
        purse.put(other);
        assert_eq!(Arc::strong_count(&second), 1);
        drop(purse.take());
        drop(purse);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Thread exit against the last block: the value ends once, after everything that was done with it.

    use super::*;
    use piton_sync::{UnsafeCell, model, thread};
    use std::sync::Arc;

    /// The model checker panics where its end is not ordered behind its uses.
    struct Value {
        memory: UnsafeCell<u32>,
        ended: Arc<AtomicUsize>,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            self.memory.with_mut(|_| ());
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_ticket_of_two_threads_ends_the_value_once_and_behind_every_use() {
        model(|| {
            let ended = Arc::new(AtomicUsize::new(0));
            let value = Value {
                memory: UnsafeCell::new(0),
                ended: Arc::clone(&ended),
            };
            let mut mine = Purse::new(Ticket::new(value));
            let block = mine.take();
            let thread = thread::spawn(move || {
                block.memory.with(|_| ());
                let mut theirs = Purse::new(block.clone());
                theirs.put(block);
            });
            mine.memory.with(|_| ());
            drop(mine);
            thread.join().unwrap();
            assert_eq!(ended.load(Ordering::Relaxed), 1);
        });
    }
}
