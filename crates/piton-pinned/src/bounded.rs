//! The bounded queue under each free list: crossbeam's lock-free one, or a plain one the model checker can see.
//!
//! The model checker cannot look into crossbeam's atomics. Under `cfg(loom)` a deque behind a lock stands in with
//! the same promises (first in first out, full is an answer, what was pushed happens before its pop), so that
//! what this crate builds on a queue can be modelled. The queue itself is crossbeam's to prove.

#[cfg(not(loom))]
pub(crate) use crossbeam_queue::ArrayQueue as BoundedQueue;

#[cfg(loom)]
pub(crate) use modelled::BoundedQueue;

#[cfg(loom)]
mod modelled {
    use piton_sync::Mutex;
    use std::collections::VecDeque;

    /// A queue of at most `capacity` items.
    #[derive(Debug)]
    pub(crate) struct BoundedQueue<T> {
        items: Mutex<VecDeque<T>>,
        capacity: usize,
    }

    impl<T> BoundedQueue<T> {
        pub(crate) fn new(capacity: usize) -> Self {
            Self {
                items: Mutex::new(VecDeque::new()),
                capacity,
            }
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock();
            if items.len() == self.capacity {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().pop_front()
        }

        pub(crate) fn capacity(&self) -> usize {
            self.capacity
        }
    }
}
