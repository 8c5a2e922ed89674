//! Shared ownership that is counted by the batch.
//!
//! # The problem
//! A block keeps its pool alive. With a counted pointer in each block, every request and every drop changes one word
//! that all threads share: 15 ns for the pair on one thread, and no gain from a second thread at all.
//!
//! # The idea
//! A *ticket* is one reference. A thread keeps a *purse* of them: a block that is handed out takes a ticket along, a
//! block that is dropped leaves its ticket in the purse of the thread that drops it. The shared count is changed only
//! when a purse is empty or overfull, by [`BATCH`] at once. Or tickets are *set aside* with what they are tickets for, many at
//! a time: whoever takes one such thing takes its ticket up, and nothing is counted.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `count` up | who holds a ticket or a purse, so it is not zero | Relaxed: nothing is learnt from it |
//! | `count` down | who gives tickets up | Release: what was done with the value comes before its end |
//! | `count` found zero | the one whose decrement made it zero | Acquire load, pairs with all decrements before |
//!
//! # Invariants
//! 1. `count` is the number of tickets plus, for each purse, its spare ones and its own, plus those set aside.
//! 2. The value exists while `count` is not zero.

#![expect(
    unsafe_code,
    reason = "a reference count that is taken and given up many at a time"
)]

use piton_sync::atomic::{AtomicUsize, Ordering};
use std::{
    fmt, marker::PhantomData, mem::ManuallyDrop, num::NonZeroUsize, ops::Deref, ptr::NonNull,
};

/// How many tickets a purse takes or gives up at once: those of many halves of a magazine, so that threads that pass blocks on
/// seldom meet at the count.
pub(crate) const BATCH: usize = 1024;

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

impl<T> Key<T> {
    /// As a number, which is not zero.
    #[inline]
    pub(crate) fn address(self) -> usize {
        self.address.get()
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

    /// Another ticket: one that was set aside.
    ///
    /// # Safety
    /// One of this value was, and the caller takes it up by this and by nothing else.
    #[inline]
    pub(crate) unsafe fn take_up(&self) -> Self {
        // INVARIANT: 1 holds, what was set aside is a ticket again.
        Self {
            shared: self.shared,
        }
    }

    /// Sets it aside. The value does not end before it is taken up, or given back to a purse.
    #[inline]
    pub(crate) fn set_aside(self) {
        // INVARIANT: 1 holds, it is one of those set aside.
        let _aside = ManuallyDrop::new(self);
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

    /// Gives a ticket out.
    pub(crate) fn take(&mut self) -> Ticket<T> {
        self.set_aside(1);
        // SAFETY: the one just set aside.
        unsafe { self.take_up() }
    }

    /// A ticket that was set aside.
    ///
    /// # Safety
    /// As [`Ticket::take_up`].
    #[inline]
    pub(crate) unsafe fn take_up(&self) -> Ticket<T> {
        // INVARIANT: 1 holds, what was set aside is a ticket again.
        Ticket {
            shared: self.shared,
        }
    }

    /// Sets tickets aside.
    pub(crate) fn set_aside(&mut self, tickets: usize) {
        if self.spare < tickets {
            let more = tickets.max(BATCH);
            // SAFETY: the purse has its own ticket.
            let count = unsafe { counter(self.shared) };
            count.fetch_add(more, Ordering::Relaxed);
            self.spare += more;
        }
        // INVARIANT: 1 holds, they were spare ones.
        self.spare -= tickets;
    }

    /// Takes back what was set aside.
    ///
    /// # Safety
    /// So many of this value were set aside, and the caller gives them back by this and by nothing else.
    pub(crate) unsafe fn give_back(&mut self, tickets: usize) {
        // INVARIANT: 1 holds, they are spare ones.
        self.spare += tickets;
        if self.spare > 2 * BATCH {
            self.spill();
        }
    }

    /// Gives up all spare tickets but a batch.
    #[cold]
    fn spill(&mut self) {
        let surplus = self.spare - BATCH;
        self.spare = BATCH;
        // SAFETY: the purse has its own ticket, which remains: the count does not become zero.
        let count = unsafe { counter(self.shared) };
        count.fetch_sub(surplus, Ordering::Release);
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
        let given_back = out.len();
        out.into_iter().for_each(Ticket::set_aside);
        // SAFETY: those just set aside.
        unsafe { other.give_back(given_back) };
        assert_eq!(Arc::strong_count(&value), 2);
        drop(other);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn what_is_set_aside_keeps_the_value_until_it_is_taken_up_and_dropped() {
        let (value, ticket) = counted();
        let mut purse = Purse::new(ticket);
        purse.set_aside(2 * BATCH);
        // SAFETY: three of those set aside, which nobody else takes.
        let mut taken = [(); 3].map(|()| unsafe { purse.take_up() });
        // SAFETY: the others.
        unsafe { purse.give_back(2 * BATCH - 3) };
        drop(purse);
        taken.swap(0, 2);
        let [first, second, third] = taken;
        second.set_aside();
        drop(first);
        assert_eq!(Arc::strong_count(&value), 2);
        // SAFETY: the second, which nobody else takes.
        drop([unsafe { third.take_up() }, third]);
        assert_eq!(Arc::strong_count(&value), 1);
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
                block.set_aside();
                // SAFETY: the one just set aside.
                unsafe { theirs.give_back(1) };
            });
            mine.memory.with(|_| ());
            drop(mine);
            thread.join().unwrap();
            assert_eq!(ended.load(Ordering::Relaxed), 1);
        });
    }
}
