//! A counter that grows, and who waits for it.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `reached` | [`advance`](Progress::advance), by `fetch_max` | AcqRel; pairs with the Acquire load in [`reached`](Progress::reached) |
//! | `watchers` | `watch` adds before it re-checks; `advance` reads it by RMW after it has written `reached` | AcqRel RMW on both sides |
//! | `list` | both, under its lock | |
//!
//! Either the watcher's addition comes first in `watchers`' order, and `advance` sees it and looks at the list
//! under the lock; or `advance`'s RMW comes first, and the watcher's addition, which reads from it, sees the new
//! `reached` when it re-checks. So no watcher is left behind. A plain load of `watchers` would not do: it could
//! be satisfied before the store of `reached` is visible.

use piton_sync::{
    CachePadded, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// A counter with watchers of type `W`, each woken once when the counter has reached its number.
#[derive(Debug)]
pub(crate) struct Progress<W> {
    reached: CachePadded<AtomicU64>,
    watchers: AtomicUsize,
    list: Mutex<Vec<(u64, W)>>,
}

impl<W> Progress<W> {
    pub(crate) fn new(initial: u64) -> Self {
        Self {
            reached: CachePadded::new(AtomicU64::new(initial)),
            watchers: AtomicUsize::new(0),
            list: Mutex::new(Vec::new()),
        }
    }

    /// The counter. What happened before it grew to the number read is visible.
    pub(crate) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Leaves `watcher` to be returned by the call of [`advance`](Self::advance) that reaches `number`, or
    /// hands it back if that has happened.
    pub(crate) fn watch(&self, number: u64, watcher: W) -> Result<(), W> {
        if self.reached() >= number {
            return Err(watcher);
        }
        let mut list = self.list.lock();
        self.watchers.fetch_add(1, Ordering::AcqRel);
        if self.reached() >= number {
            self.watchers.fetch_sub(1, Ordering::AcqRel);
            return Err(watcher);
        }
        list.push((number, watcher));
        Ok(())
    }

    /// Raises the counter and returns whoever waited for no more than that. They are to be woken by the
    /// caller, under no lock.
    #[must_use = "watchers that are dropped are never woken"]
    pub(crate) fn advance(&self, number: u64) -> Vec<W> {
        self.reached.fetch_max(number, Ordering::AcqRel);
        if self.watchers.fetch_add(0, Ordering::AcqRel) == 0 {
            return Vec::new();
        }
        let mut list = self.list.lock();
        let reached = self.reached();
        let woken: Vec<W> = list
            .extract_if(.., |(number, _)| *number <= reached)
            .map(|(_, w)| w)
            .collect();
        self.watchers.fetch_sub(woken.len(), Ordering::AcqRel);
        woken
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    #[test]
    fn no_watcher_is_left_behind() {
        model(|| {
            let progress = Arc::new(Progress::new(0));
            let other = Arc::clone(&progress);
            let advancer = thread::spawn(move || other.advance(1).len());
            let seen_at_once = progress.watch(1, ()).is_err();
            let woken = advancer.join().unwrap();
            assert!(seen_at_once || woken == 1, "the watcher is lost");
        });
    }

    #[test]
    fn two_advances_wake_each_watcher_once() {
        model(|| {
            let progress = Arc::new(Progress::new(0));
            progress.watch(1, "one").unwrap();
            progress.watch(2, "two").unwrap();
            let other = Arc::clone(&progress);
            let first = thread::spawn(move || other.advance(1).len());
            let second = progress.advance(2).len();
            assert_eq!(first.join().unwrap() + second, 2);
        });
    }
}
