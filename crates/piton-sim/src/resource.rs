//! A countable part of a device that queues take turns on: a hardware queue, a copy engine.
//!
//! A queue that finds none free is kept here and returned by a later [`release`](Resource::release), the most urgent
//! first and none passed over for ever (see `ready`); it then asks again. In virtual time nothing runs beside anything, so what is kept is the time it is free from.

use crate::ready::Ready;
use piton_sync::{
    Brief,
    atomic::{AtomicU64, Ordering},
};

#[derive(Debug)]
struct State<T> {
    free: u32,
    waiting: Ready<T>,
}

/// `count` equal things, and who waits for one.
#[derive(Debug)]
pub(crate) struct Resource<T> {
    state: Brief<State<T>>,
    free_from: AtomicU64,
}

impl<T> Resource<T> {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            state: Brief::new(State {
                free: count,
                waiting: Ready::new(),
            }),
            free_from: AtomicU64::new(0),
        }
    }

    /// Takes one, or keeps `waiter`, whose band is `band`, and says no.
    pub(crate) fn acquire(&self, band: usize, waiter: impl FnOnce() -> T) -> bool {
        let mut state = self.state.lock();
        if state.free == 0 {
            state.waiting.push(band, waiter());
            return false;
        }
        state.free -= 1;
        true
    }

    /// Puts one back and returns who is to ask again.
    #[must_use = "who waits must be scheduled"]
    pub(crate) fn release(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.free += 1;
        state.waiting.pop()
    }

    /// Somebody who may be waiting has become more urgent.
    pub(crate) fn promote(&self, band: usize, is_it: impl Fn(&T) -> bool) {
        self.state.lock().waiting.promote(band, is_it);
    }

    /// Whether anybody waits for one.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// Everybody who waits: they are to ask again.
    #[must_use = "who waits must be scheduled"]
    pub(crate) fn take_waiting(&self) -> impl Iterator<Item = T> + use<T> {
        self.state.lock().waiting.drain()
    }

    /// Takes the thing from virtual time `earliest` for `duration`; returns when that starts.
    pub(crate) fn occupy(&self, earliest: u64, duration: u64) -> u64 {
        let start = self.free_from.load(Ordering::Relaxed).max(earliest);
        self.free_from
            .store(start.saturating_add(duration), Ordering::Relaxed);
        start
    }
}
