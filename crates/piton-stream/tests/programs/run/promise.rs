//! Futures of events: polled while the work is under way, woken when it has ended, or dropped before.

use super::Run;
use crate::{
    books::{Book, Place},
    wakers::CountingWaker,
};
use piton_stream::{Completion, StreamError};
use piton_sync::thread;
use std::{sync::Arc, task::Poll};

/// Looks at a waker that a thread is about to call. A bound on looks and not on time.
const LOOKS: u32 = 20_000_000;

/// A future, and when it was polled last without being ready.
pub(super) struct Promise {
    future: Completion,
    place: Place,
    waker: Arc<CountingWaker>,
    /// How often it had been woken before that poll.
    pending_since: Option<u32>,
}

impl Promise {
    /// Polls it and holds the answer against the book of its queue.
    fn poll(&mut self, book: &Book) {
        let position = self.place.1;
        let was_done = book.queue.completed().get() >= position;
        let wakes = self.waker.wakes();
        let answer = self.waker.poll(&mut self.future);
        let is_done = book.queue.completed().get() >= position;
        self.pending_since = None;
        match answer {
            Poll::Pending => {
                assert!(!was_done, "it has ended");
                self.pending_since = Some(wakes);
            }
            Poll::Ready(Ok(())) => {
                let is_well = !book.is_spoilt(position);
                assert!(is_done && is_well, "it has not ended well");
            }
            Poll::Ready(Err(StreamError::Poisoned(_))) => {
                assert!(is_done && book.is_spoilt(position), "nothing failed");
            }
            Poll::Ready(Err(other)) => panic!("{other}"),
        }
    }

    fn was_woken(&self) -> bool {
        self.pending_since
            .is_none_or(|wakes| self.waker.wakes() > wakes)
    }

    /// Nothing runs now: if what it waits for has ended, it was woken.
    pub(super) fn is_told(&self, books: &[Book]) {
        let (queue, position) = self.place;
        let is_done = books[queue].queue.completed().get() >= position;
        assert!(!is_done || self.was_woken(), "a future was not woken");
    }
}

impl Run<'_> {
    pub(super) fn promise(&mut self, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        let recorded = &self.events[event];
        let mut promise = Promise {
            future: recorded.event.completion(),
            place: recorded.place,
            waker: CountingWaker::new(),
            pending_since: None,
        };
        promise.poll(&self.books[promise.place.0]);
        self.promises.push(promise);
    }

    pub(super) fn poll(&mut self, promise: usize) {
        if let Some(promise) = promise.checked_rem(self.promises.len()) {
            let promise = &mut self.promises[promise];
            promise.poll(&self.books[promise.place.0]);
        }
    }

    pub(super) fn drop_promise(&mut self, promise: usize) {
        if let Some(promise) = promise.checked_rem(self.promises.len()) {
            drop(self.promises.swap_remove(promise));
        }
    }

    /// Everything has ended: every future that was left waiting was woken, or is about to be, and is ready.
    pub(super) fn promises_are_kept(&mut self) {
        for promise in &mut self.promises {
            let looks = if self.world.is_virtual { 1 } else { LOOKS };
            let mut left = looks;
            while !promise.was_woken() && left > 0 {
                thread::yield_now();
                left -= 1;
            }
            assert!(promise.was_woken(), "a future was not woken");
            promise.poll(&self.books[promise.place.0]);
            assert_eq!(promise.pending_since, None, "it has ended");
        }
    }
}
