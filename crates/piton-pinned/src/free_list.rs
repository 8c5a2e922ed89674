//! What any thread may take: a bounded lock-free queue, and a locked overflow for what it cannot hold.
//!
//! # The idea
//! Taking and returning a block is one queue operation as long as the queue is neither empty nor full. Freeing
//! must not fail, so what finds the queue full goes to the overflow; when the queue runs empty, half a queue is
//! carried back at once. An item here is a batch of blocks: see the magazines, which exchange them.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `overflowed`: how many items the overflow holds | whoever holds the overflow's lock, before giving it up | Release; pairs with the Acquire load in `pop` |
//!
//! # Invariants
//! - An item is in the queue, in the overflow, or out; never in two of them.
//! - While nobody holds the lock, `overflowed` is the overflow's length. Written outside the lock it could be set to zero by a
//!   slow thread after another had put an item there, and that item would be found by nobody.
//!
//! `pop` may answer `None` while another thread carries items back. The caller then takes its slower path; no
//! item is lost.

use crate::bounded::BoundedQueue;
use piton_sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

/// Items that anybody may take. Order does not matter.
#[derive(Debug)]
pub(crate) struct FreeList<T> {
    queue: BoundedQueue<T>,
    overflow: Mutex<Vec<T>>,
    overflowed: AtomicUsize,
}

impl<T> FreeList<T> {
    /// An empty list whose lock-free part holds `capacity` items; at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            queue: BoundedQueue::new(capacity.max(1)),
            overflow: Mutex::new(Vec::new()),
            overflowed: AtomicUsize::new(0),
        }
    }

    /// Takes an item.
    pub(crate) fn pop(&self) -> Option<T> {
        if let Some(item) = self.queue.pop() {
            return Some(item);
        }
        if self.overflowed.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.pop_overflow()
    }

    /// Adds an item.
    pub(crate) fn push(&self, item: T) {
        if let Err(item) = self.queue.push(item) {
            let mut overflow = self.overflow.lock();
            overflow.push(item);
            self.publish(overflow);
        }
    }

    /// Takes everything that is there.
    pub(crate) fn drain(&self) -> Vec<T> {
        let mut items: Vec<T> = std::iter::from_fn(|| self.queue.pop()).collect();
        let mut overflow = self.overflow.lock();
        items.append(&mut overflow);
        self.publish(overflow);
        items
    }

    #[cold]
    fn pop_overflow(&self) -> Option<T> {
        let mut overflow = self.overflow.lock();
        let taken = overflow.pop();
        self.refill(&mut overflow);
        self.publish(overflow);
        // Somebody else carried everything into the queue before this thread had the lock.
        taken.or_else(|| self.queue.pop())
    }

    /// Carries up to half a queue back.
    fn refill(&self, overflow: &mut Vec<T>) {
        for _ in 0..self.queue.capacity() / 2 {
            let Some(item) = overflow.pop() else { return };
            if let Err(item) = self.queue.push(item) {
                overflow.push(item);
                return;
            }
        }
    }

    fn publish(&self, overflow: MutexGuard<'_, Vec<T>>) {
        self.overflowed.store(overflow.len(), Ordering::Release);
        drop(overflow);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_cannot_hold_is_found_again() {
        let list = FreeList::new(4);
        for item in 0..20 {
            list.push(item);
        }
        let mut out: Vec<i32> = std::iter::from_fn(|| list.pop()).collect();
        out.sort_unstable();
        assert_eq!(out, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_list_of_no_capacity_still_holds_everything() {
        let list = FreeList::new(0);
        list.push(1);
        list.push(2);
        assert_eq!(list.drain().len(), 2);
        assert_eq!(list.pop(), None);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Queue full and queue empty against the overflow: nothing is lost, nothing is handed out twice.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    fn sorted(mut items: Vec<u32>) -> Vec<u32> {
        items.sort_unstable();
        items
    }

    #[test]
    fn a_full_queue_loses_nothing_to_a_thread_that_empties_it() {
        model(|| {
            let list = Arc::new(FreeList::new(1));
            list.push(1);
            list.push(2);
            let other = Arc::clone(&list);
            let pusher = thread::spawn(move || {
                other.push(3);
                other.push(4);
            });
            let mut seen: Vec<u32> = [list.pop(), list.pop()].into_iter().flatten().collect();
            pusher.join().unwrap();
            seen.extend(std::iter::from_fn(|| list.pop()));
            assert_eq!(sorted(seen), [1, 2, 3, 4]);
        });
    }

    #[test]
    fn two_takers_never_get_the_same_item() {
        model(|| {
            let list = Arc::new(FreeList::new(2));
            (1..=4).for_each(|item| list.push(item));
            let other = Arc::clone(&list);
            let taker = thread::spawn(move || [other.pop(), other.pop()]);
            let mine = [list.pop(), list.pop()];
            let theirs = taker.join().unwrap();
            let mut seen: Vec<u32> = mine.into_iter().chain(theirs).flatten().collect();
            seen.extend(std::iter::from_fn(|| list.pop()));
            assert_eq!(sorted(seen), [1, 2, 3, 4]);
        });
    }

    #[test]
    fn a_queue_filled_while_items_are_carried_back_loses_none() {
        model(|| {
            let list = Arc::new(FreeList::new(2));
            (1..=4).for_each(|item| list.push(item));
            let mut seen: Vec<u32> = [list.pop(), list.pop()].into_iter().flatten().collect();
            let other = Arc::clone(&list);
            let pusher = thread::spawn(move || {
                other.push(5);
                other.push(6);
            });
            seen.extend(list.pop());
            pusher.join().unwrap();
            seen.extend(std::iter::from_fn(|| list.pop()));
            assert_eq!(sorted(seen), [1, 2, 3, 4, 5, 6]);
        });
    }
}
