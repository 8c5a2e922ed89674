//! A bounded lock-free queue of stacks, in which a stack that is taken leaves an emptied one in its place.
//!
//! # The problem
//! Where one thread gives back what another takes, full stacks go one way and the room for more goes the other. By a queue for
//! each, every stack costs two lines on their way between the cores, one after the other, and a count that both sides write costs
//! as much again.
//!
//! # The idea
//! A slot always holds a stack. Who puts a full one takes the emptied one that lies there, and who takes a full one leaves an
//! emptied one: one line brings both. Each end is a number that only those who are at it write.
//!
//! # Protocol
//! A slot's *turn* counts what was done with it: even, its stack is empty and it is to be put to; odd, its stack is to be taken.
//! In lap *n* around the slots it is put to at turn *2n* and taken from at *2n + 1*.
//!
//! | word | written by | order |
//! |---|---|---|
//! | `put`, `taken`: how often that was done, and so which slot is next | who begins to, by an exchange | Relaxed: nothing is learnt from it but whose turn it is |
//! | a slot's `turn` | who has begun, when the slot's stack was swapped | Release; pairs with the Acquire load of the next |
//! | a slot's stack | who has begun | behind that Acquire load |
//!
//! # Invariants
//! 1. A slot's turn goes up by one, and only by the thread that has moved an end past the slot at that turn. An end goes past a slot
//!    once a lap, so that there is one such thread.
//! 2. A stack in a slot to be put to is empty.
//!
//! `put` and `take` may answer no while another thread is at the slot that is next. Ends do not wrap: 64 bits last a lifetime.

#![expect(
    unsafe_code,
    reason = "a slot's stack belongs to the thread whose turn it is"
)]

use piton_sync::{
    CachePadded, UnsafeCell,
    atomic::{AtomicUsize, Ordering},
    prefetch_for_write,
};
use std::{fmt, mem};

/// Turns of a lap, as they are added to twice its number.
const TO_PUT: usize = 0;
const TO_TAKE: usize = 1;

/// A place for a stack. Two fill a line; with a line for each nothing was faster.
#[repr(align(32))]
struct Slot<T> {
    turn: AtomicUsize,
    stack: UnsafeCell<Vec<T>>,
}

/// A queue of at most so many stacks.
pub(crate) struct Exchange<T> {
    slots: Box<[Slot<T>]>,
    put: CachePadded<AtomicUsize>,
    taken: CachePadded<AtomicUsize>,
}

// SAFETY: ends and turns are atomic, and a stack is reached by one thread at a time, each of which sees what the one before has
// done (the protocol). What is in it goes from thread to thread, and must be `Send`.
unsafe impl<T: Send> Sync for Exchange<T> {}

impl<T> Exchange<T> {
    /// An empty one of so many slots, at least one.
    pub(crate) fn new(slots: usize) -> Self {
        // INVARIANT: 2 holds, all is empty.
        let slot = |_| Slot {
            turn: AtomicUsize::new(TO_PUT),
            stack: UnsafeCell::new(Vec::new()),
        };
        Self {
            slots: (0..slots.max(1)).map(slot).collect(),
            put: CachePadded::new(AtomicUsize::new(0)),
            taken: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Puts a stack and hands out an emptied one in its place, if one was left. Whether there was room.
    pub(crate) fn put(&self, stack: &mut Vec<T>) -> bool {
        self.swap(&self.put, TO_PUT, stack)
    }

    /// Takes the stack that was put first, and leaves `room`, which is empty. Whether there was one.
    pub(crate) fn take(&self, room: &mut Vec<T>) -> bool {
        // Invariant 2 is not the caller's.
        room.clear();
        self.swap(&self.taken, TO_TAKE, room)
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Swaps the stack with that of the slot that is next at this end, if it is that end's turn there.
    fn swap(&self, end: &AtomicUsize, whose: usize, stack: &mut Vec<T>) -> bool {
        let mut at = end.load(Ordering::Relaxed);
        loop {
            let (lap, index) = (at / self.slots.len(), at % self.slots.len());
            let Some(slot) = self.slots.get(index) else {
                return false;
            };
            let (mine, turn) = (2 * lap + whose, slot.turn.load(Ordering::Acquire));
            if turn < mine {
                return false;
            }
            if turn > mine {
                // Somebody has been here. The end was moved before, and the turn has brought that along.
                at = end.load(Ordering::Relaxed);
                continue;
            }
            let moved = end.compare_exchange_weak(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
            if let Err(now) = moved {
                at = now;
                continue;
            }
            slot.stack.with_mut(|there| {
                // SAFETY: this thread has moved the end past the slot at this turn, and is the only one to (invariant 1); the
                // Acquire load has brought what the one before did.
                mem::swap(unsafe { &mut *there }, stack);
            });
            slot.turn.store(turn + 1, Ordering::Release);
            self.expect_next(index, whose);
            return true;
        }
    }

    /// Asks for the line of the slot that is put to next.
    fn expect_next(&self, index: usize, whose: usize) {
        if whose == TO_PUT {
            let next = self.slots.get(index + 1).or(self.slots.first());
            next.into_iter().for_each(prefetch_for_write);
        }
    }
}

impl<T> fmt::Debug for Exchange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("slots", &self.slots.len())
            .field("put", &self.put)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn stacks_come_out_in_the_order_in_which_they_went_in_however_many_slots() {
        for slots in [1, 2, 3] {
            let exchange = Exchange::new(slots);
            for first in 0..10 {
                for item in 0..slots {
                    assert!(exchange.put(&mut vec![first + item]));
                }
                assert!(!exchange.put(&mut vec![0]), "{slots} are full");
                for item in 0..slots {
                    let mut taken = Vec::new();
                    assert!(exchange.take(&mut taken));
                    assert_eq!(taken, [first + item]);
                }
                assert!(!exchange.take(&mut Vec::new()), "{slots} are empty");
            }
        }
    }

    #[test]
    fn who_puts_gets_the_room_that_was_left_by_who_took() {
        let exchange = Exchange::new(2);
        let mut given = vec![1];
        assert!(exchange.put(&mut given));
        assert_eq!(given.capacity(), 0, "nobody has left any");
        let mut room = Vec::with_capacity(77);
        assert!(exchange.take(&mut room));
        assert!(exchange.put(&mut vec![2]));
        assert!(exchange.put(&mut given));
        assert!(given.capacity() >= 77);
        // What is said to be empty and is not is no room: it would be handed out as if it were.
        let mut full = vec![8, 9];
        assert!(exchange.take(&mut full));
        assert_eq!(full, [2]);
        let mut next = vec![3];
        assert!(exchange.put(&mut next));
        assert_eq!(next, Vec::<i32>::new());
    }

    #[test]
    fn what_lies_in_it_ends_with_it() {
        let item = std::sync::Arc::new(());
        let exchange = Exchange::new(3);
        (0..2).for_each(|_| assert!(exchange.put(&mut vec![item.clone()])));
        drop(exchange);
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Two who put, two who take, and one slot: every stack is had once, by one who sees what was done before.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    /// The model checker panics where two threads' uses of it are not ordered.
    type Item = Arc<UnsafeCell<u32>>;

    fn item() -> Item {
        let item = Arc::new(UnsafeCell::new(0));
        item.with_mut(|_| ());
        item
    }

    fn take(exchange: &Exchange<Item>) -> Vec<Item> {
        let mut taken = Vec::new();
        exchange.take(&mut taken);
        taken.iter().for_each(|item| item.with_mut(|_| ()));
        taken
    }

    #[test]
    fn a_stack_is_had_once_by_who_sees_what_was_done_with_it() {
        for slots in [1, 2] {
            model(move || {
                let exchange = Arc::new(Exchange::new(slots));
                let other = Arc::clone(&exchange);
                let gives = thread::spawn(move || {
                    let (mut first, mut second) = (vec![item()], vec![item()]);
                    [other.put(&mut first), other.put(&mut second)]
                });
                let mut taken = take(&exchange);
                taken.extend(take(&exchange));
                let put = gives.join().unwrap();
                taken.extend((0..2).flat_map(|_| take(&exchange)));
                assert_eq!(taken.len(), put.iter().filter(|put| **put).count());
            });
        }
    }

    #[test]
    fn of_two_who_put_and_two_who_take_each_has_its_own() {
        model(|| {
            let exchange = Arc::new(Exchange::new(2));
            assert!(exchange.put(&mut vec![item()]));
            let other = Arc::clone(&exchange);
            let their = thread::spawn(move || {
                let put = other.put(&mut vec![item()]);
                (put, take(&other))
            });
            let mine = exchange.put(&mut vec![item()]);
            let taken = take(&exchange);
            let (theirs, also_taken) = their.join().unwrap();
            let left = (0..3).flat_map(|_| take(&exchange)).count();
            let put = 1 + usize::from(mine) + usize::from(theirs);
            assert_eq!(taken.len() + also_taken.len() + left, put);
        });
    }
}
