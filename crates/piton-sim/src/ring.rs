//! A queue's ring of commands, and who may touch a slot.
//!
//! # Protocol
//! One producer at a time (whoever has the queue's producer lock), one consumer at a time (the owner of the queue's
//! front, see `queue`). Command n lives in slot n modulo the capacity, from its publication until it has ended.
//!
//! | word | written by | order |
//! |---|---|---|
//! | slot n | the producer, before it publishes n; the consumer, until n has ended | plain: `submitted` and the queue's counter hand it over |
//! | `submitted` | [`publish`](Ring::publish) | Release store; pairs with the consumer's Acquire load, which then sees the slot |
//! | `is_scheduled` | [`ring`](Ring::ring), after the publication; [`retire`](Ring::retire), before it looks at `submitted` again | AcqRel swaps on both sides |
//!
//! A slot is written again only when the command that was there has ended: the producer has read the queue's counter
//! with Acquire, and the consumer raises it with Release after its last look at the slot.
//!
//! Of two swaps of `is_scheduled` one comes first. If the retiring consumer's does, the producer's finds `false` and
//! schedules the queue. If the producer's does, the consumer's reads from it, and so sees what was published. A load
//! in place of the producer's swap would not do: it could be satisfied before the publication is visible.

#![expect(
    unsafe_code,
    reason = "slots are handed between threads by the protocol above"
)]

use piton_sync::{
    CachePadded, UnsafeCell,
    atomic::{AtomicBool, AtomicU64, Ordering},
    prefetch_for_write,
};
use std::{fmt, mem::MaybeUninit};

/// How many slots before it is written a slot's line is asked for: the consumer has read it a round ago, maybe on another
/// core, and it takes as long to come from there as a few launches take.
const AHEAD: u64 = 8;

/// The ring. Positions count from 1.
pub(crate) struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    tail: CachePadded<Tail>,
}

/// What a producer writes with each command, together: a consumer that looks for more takes one line from it.
struct Tail {
    submitted: AtomicU64,
    is_scheduled: AtomicBool,
}

// SAFETY: a slot is touched by one thread at a time, as the protocol says; what is in it moves between threads.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("capacity", &self.slots.len())
            .field("submitted", &self.submitted())
            .finish_non_exhaustive()
    }
}

impl<T> Ring<T> {
    /// An empty ring of `capacity` slots, a power of two.
    pub(crate) fn new(capacity: u32) -> Self {
        // One at least: `slot` relies on it.
        let slots = (0..capacity.max(1)).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
        Self {
            slots: slots.collect(),
            tail: CachePadded::new(Tail {
                submitted: AtomicU64::new(0),
                is_scheduled: AtomicBool::new(false),
            }),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The last position published. What was in its slot then is visible to the consumer.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.tail.submitted.load(Ordering::Acquire)
    }

    /// Puts a command into the next slot and returns its position.
    ///
    /// # Safety
    /// The caller is the only producer, and the command one capacity before has ended.
    #[inline]
    pub(crate) unsafe fn publish(&self, value: T) -> u64 {
        let position = self.tail.submitted.load(Ordering::Relaxed) + 1;
        self.slot(position).with_mut(|slot| {
            // SAFETY: nobody else touches the slot: its last command has ended.
            unsafe { (*slot).write(value) };
        });
        self.tail.submitted.store(position, Ordering::Release);
        prefetch_for_write(self.slot(position + AHEAD));
        position
    }

    /// Says that something was published. `true`: nobody owns the front, and the caller must schedule the queue.
    #[inline]
    #[must_use = "a queue that nobody schedules never runs"]
    pub(crate) fn ring(&self) -> bool {
        !self.tail.is_scheduled.swap(true, Ordering::AcqRel)
    }

    /// The command at `position`.
    ///
    /// # Safety
    /// The caller owns the front; the position was seen in `submitted`, and its command neither taken nor ended.
    /// The reference is not used once it is.
    pub(crate) unsafe fn peek(&self, position: u64) -> &T {
        self.slot(position).with(|slot| {
            // SAFETY: valid, and the caller's alone.
            let slot = unsafe { &*slot };
            // SAFETY: published and not taken, so initialised.
            unsafe { slot.assume_init_ref() }
        })
    }

    /// Takes the command at `position` out.
    ///
    /// # Safety
    /// As [`peek`](Self::peek), and nobody asks for the position again.
    pub(crate) unsafe fn take(&self, position: u64) -> T {
        self.slot(position).with(|slot| {
            // SAFETY: valid, and the caller's alone.
            let slot = unsafe { &*slot };
            // SAFETY: initialised as in `peek`, and read once.
            unsafe { slot.assume_init_read() }
        })
    }

    /// Gives up the front when `next` is not published. `false`: it was just now, and the front is the caller's again.
    /// Others may have had it in between and have run what was there, so the caller asks anew how far the queue is.
    pub(crate) fn retire(&self, next: u64) -> bool {
        self.tail.is_scheduled.swap(false, Ordering::AcqRel);
        if self.submitted() < next {
            return true;
        }
        // Take it back, unless its producer has found nobody and scheduled the queue.
        self.tail.is_scheduled.swap(true, Ordering::AcqRel)
    }

    #[inline]
    fn slot(&self, position: u64) -> &UnsafeCell<MaybeUninit<T>> {
        let mask = self.slots.len() - 1;
        // Only the low bits count, so it does not matter what a narrow machine cuts off.
        #[expect(clippy::cast_possible_truncation, reason = "masked")]
        let at = position as usize & mask;
        // SAFETY: there is a slot at least, so what is masked with one less than their number is a slot's. A check that
        // may panic would keep the command on the stack for the panic, to be moved from there: that costs a submission
        // five nanoseconds.
        unsafe { self.slots.get_unchecked(at) }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{Mutex, model, thread};
    use std::sync::Arc;

    struct Model {
        ring: Ring<u64>,
        completed: AtomicU64,
        ran: Mutex<Vec<u64>>,
    }

    /// Owns the front: runs what is there until it retires.
    fn run(model: &Model) {
        let mut next = model.completed.load(Ordering::Relaxed) + 1;
        loop {
            while next <= model.ring.submitted() {
                // SAFETY: the front is ours and the position published.
                let value = unsafe { model.ring.take(next) };
                model.ran.lock().push(value);
                model.completed.store(next, Ordering::Release);
                next += 1;
            }
            if model.ring.retire(next) {
                return;
            }
            next = model.completed.load(Ordering::Relaxed) + 1;
        }
    }

    #[test]
    fn every_published_command_runs_once_and_in_order() {
        model(|| {
            let shared = Arc::new(Model {
                ring: Ring::new(2),
                completed: AtomicU64::new(0),
                ran: Mutex::new(Vec::new()),
            });
            let mut owners = Vec::new();
            for value in [10, 20] {
                // SAFETY: one producer, and two slots for two commands.
                unsafe { shared.ring.publish(value) };
                if shared.ring.ring() {
                    let owner = Arc::clone(&shared);
                    owners.push(thread::spawn(move || run(&owner)));
                }
            }
            for owner in owners {
                owner.join().unwrap();
            }
            assert_eq!(*shared.ran.lock(), [10, 20]);
        });
    }

    /// A host thread takes the front of an empty ring, and gives it back; a command comes meanwhile.
    #[test]
    fn what_comes_while_the_front_is_held_runs_once() {
        model(|| {
            let shared = Arc::new(Model {
                ring: Ring::new(2),
                completed: AtomicU64::new(0),
                ran: Mutex::new(Vec::new()),
            });
            let holder = Arc::clone(&shared);
            let holder = thread::spawn(move || {
                if holder.ring.ring() && !holder.ring.retire(1) {
                    run(&holder);
                }
            });
            // SAFETY: one producer and an empty ring.
            unsafe { shared.ring.publish(10) };
            if shared.ring.ring() {
                run(&shared);
            }
            holder.join().unwrap();
            assert_eq!(*shared.ran.lock(), [10]);
        });
    }

    #[test]
    fn a_slot_is_written_again_only_when_its_command_has_ended() {
        model(|| {
            let shared = Arc::new(Model {
                ring: Ring::new(1),
                completed: AtomicU64::new(0),
                ran: Mutex::new(Vec::new()),
            });
            // SAFETY: one producer and an empty ring.
            unsafe { shared.ring.publish(1) };
            assert!(shared.ring.ring());
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || run(&shared))
            };
            if shared.completed.load(Ordering::Acquire) == 1 {
                // SAFETY: one producer; the command before has ended.
                unsafe { shared.ring.publish(2) };
                if shared.ring.ring() {
                    owner.join().unwrap();
                    run(&shared);
                } else {
                    owner.join().unwrap();
                }
                assert_eq!(*shared.ran.lock(), [1, 2]);
            } else {
                owner.join().unwrap();
            }
        });
    }
}
