//! What any thread may take: a bounded lock-free queue of stacks, and a locked overflow for what it cannot hold.
//!
//! # The idea
//! Taking and returning a stack of blocks is one operation of the [queue](crate::exchange) as long as that is neither empty nor
//! full. Freeing must not fail, so what finds the queue full goes to the overflow; when the queue runs empty, half a queue is
//! carried back at once. See the magazines, which exchange the stacks.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `overflowed`: how many stacks the overflow holds | whoever holds the overflow's lock, before giving it up | Release; pairs with the Acquire load in `pop` |
//!
//! # Invariants
//! - A stack is in the queue, in the overflow, or out; never in two of them.
//! - While nobody holds the lock, `overflowed` is the overflow's length. Written outside the lock it could be set to zero by a
//!   slow thread after another had put a stack there, and that one would be found by nobody.
//!
//! `pop` may find none while another thread carries stacks back, or is about to put one. The caller then takes its slower path;
//! nothing is lost.

use crate::exchange::Exchange;
use piton_sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

/// Stacks that anybody may take.
#[derive(Debug)]
pub(crate) struct FreeList<T> {
    queue: Exchange<T>,
    overflow: Mutex<Vec<Vec<T>>>,
    overflowed: AtomicUsize,
}

impl<T> FreeList<T> {
    /// An empty list whose lock-free part holds so many stacks; at least one.
    pub(crate) fn new(stacks: usize) -> Self {
        Self {
            queue: Exchange::new(stacks),
            overflow: Mutex::new(Vec::new()),
            overflowed: AtomicUsize::new(0),
        }
    }

    /// Takes a stack, and leaves `room`, which is empty. Whether there was one.
    pub(crate) fn pop(&self, room: &mut Vec<T>) -> bool {
        if self.queue.take(room) {
            return true;
        }
        self.overflowed.load(Ordering::Acquire) > 0 && self.pop_overflow(room)
    }

    /// Adds a stack, and hands out an emptied one in its place, or none.
    pub(crate) fn push(&self, stack: &mut Vec<T>) {
        if !self.queue.put(stack) {
            let mut overflow = self.overflow.lock();
            overflow.push(std::mem::take(stack));
            self.publish(overflow);
        }
    }

    /// Takes everything that is there.
    pub(crate) fn drain(&self) -> Vec<Vec<T>> {
        let mut stacks = Vec::new();
        let mut stack = Vec::new();
        while self.queue.take(&mut stack) {
            stacks.push(std::mem::take(&mut stack));
        }
        let mut overflow = self.overflow.lock();
        stacks.append(&mut overflow);
        self.publish(overflow);
        stacks
    }

    #[cold]
    fn pop_overflow(&self, room: &mut Vec<T>) -> bool {
        let mut overflow = self.overflow.lock();
        let taken = overflow.pop();
        self.refill(&mut overflow);
        self.publish(overflow);
        match taken {
            Some(taken) => {
                *room = taken;
                true
            }
            // Somebody else carried everything into the queue before this thread had the lock.
            None => self.queue.take(room),
        }
    }

    /// Carries up to half a queue back.
    fn refill(&self, overflow: &mut Vec<Vec<T>>) {
        for _ in 0..self.queue.slots() / 2 {
            let Some(mut stack) = overflow.pop() else {
                return;
            };
            if !self.queue.put(&mut stack) {
                overflow.push(stack);
                return;
            }
        }
    }

    fn publish(&self, overflow: MutexGuard<'_, Vec<Vec<T>>>) {
        self.overflowed.store(overflow.len(), Ordering::Release);
        drop(overflow);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pop(list: &FreeList<i32>) -> Option<Vec<i32>> {
        let mut stack = Vec::new();
        list.pop(&mut stack).then_some(stack)
    }

    #[test]
    fn what_the_queue_cannot_hold_is_found_again() {
        let list = FreeList::new(4);
        (0..20).for_each(|item| list.push(&mut vec![item]));
        let mut out: Vec<i32> = std::iter::from_fn(|| pop(&list)).flatten().collect();
        out.sort_unstable();
        assert_eq!(out, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_list_of_no_capacity_still_holds_everything() {
        let list = FreeList::new(0);
        list.push(&mut vec![1]);
        list.push(&mut vec![2]);
        assert_eq!(list.drain().len(), 2);
        assert_eq!(pop(&list), None);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Queue full and queue empty against the overflow: nothing is lost, nothing is handed out twice.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    fn push(list: &FreeList<u32>, item: u32) {
        list.push(&mut vec![item]);
    }

    fn pop(list: &FreeList<u32>) -> Option<u32> {
        let mut stack = Vec::new();
        list.pop(&mut stack).then(|| stack[0])
    }

    fn sorted(mut items: Vec<u32>) -> Vec<u32> {
        items.sort_unstable();
        items
    }

    #[test]
    fn a_full_queue_loses_nothing_to_a_thread_that_empties_it() {
        model(|| {
            let list = Arc::new(FreeList::new(1));
            push(&list, 1);
            push(&list, 2);
            let other = Arc::clone(&list);
            let pusher = thread::spawn(move || {
                push(&other, 3);
                push(&other, 4);
            });
            let mut seen: Vec<u32> = [pop(&list), pop(&list)].into_iter().flatten().collect();
            pusher.join().unwrap();
            seen.extend(std::iter::from_fn(|| pop(&list)));
            assert_eq!(sorted(seen), [1, 2, 3, 4]);
        });
    }

    #[test]
    fn two_takers_never_get_the_same_item() {
        model(|| {
            let list = Arc::new(FreeList::new(2));
            (1..=4).for_each(|item| push(&list, item));
            let other = Arc::clone(&list);
            let taker = thread::spawn(move || [pop(&other), pop(&other)]);
            let mine = [pop(&list), pop(&list)];
            let theirs = taker.join().unwrap();
            let mut seen: Vec<u32> = mine.into_iter().chain(theirs).flatten().collect();
            seen.extend(std::iter::from_fn(|| pop(&list)));
            assert_eq!(sorted(seen), [1, 2, 3, 4]);
        });
    }

    #[test]
    fn a_queue_filled_while_items_are_carried_back_loses_none() {
        model(|| {
            let list = Arc::new(FreeList::new(2));
            (1..=4).for_each(|item| push(&list, item));
            let mut seen: Vec<u32> = [pop(&list), pop(&list)].into_iter().flatten().collect();
            let other = Arc::clone(&list);
            let pusher = thread::spawn(move || {
                push(&other, 5);
                push(&other, 6);
            });
            seen.extend(pop(&list));
            pusher.join().unwrap();
            seen.extend(std::iter::from_fn(|| pop(&list)));
            assert_eq!(sorted(seen), [1, 2, 3, 4, 5, 6]);
        });
    }
}
