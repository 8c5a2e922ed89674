//! A counter that grows, and who waits for it.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `reached` | [`advance`](Progress::advance); one thread at a time | Release store; pairs with the Acquire load in [`reached`](Progress::reached) |
//! | `listeners` | [`watch`](Progress::watch) and [`Sleeper`] join before they look at `reached` again; `advance` asks for them after it has written `reached` | AcqRel RMW on both sides |
//! | `list` | both, under its lock | |
//!
//! So no listener is left behind; why is told in [`Listeners`].
//!
//! A listener is a watcher in the list, or a host thread that is about to sleep: that one is only counted, and whoever
//! advances is told to ring the bell it sleeps at.

use crate::listeners::Listeners;
use piton_sync::{
    Brief, CachePadded,
    atomic::{AtomicU64, Ordering},
};
use smallvec::SmallVec;

/// Watchers woken at once that need no allocation. Few wait for one number, except where one stream feeds many.
const AT_ONCE: usize = 4;

/// A counter with watchers of type `W`, each woken once when the counter has reached its number.
///
/// All of it in one place of its own: whoever looks at the counter or advances it touches no line that others write.
#[derive(Debug)]
pub(crate) struct Progress<W>(CachePadded<Words<W>>);

#[derive(Debug)]
struct Words<W> {
    reached: AtomicU64,
    listeners: Listeners,
    list: Brief<List<W>>,
}

#[derive(Debug)]
struct List<W> {
    watchers: Vec<(u64, W)>,
    sleepers: usize,
}

/// Who is to be told that a counter has grown.
#[must_use = "watchers that are dropped are never woken"]
#[derive(Debug)]
pub(crate) struct Due<W> {
    /// To be woken by the caller, under no lock.
    pub(crate) watchers: SmallVec<[W; AT_ONCE]>,
    /// Host threads sleep until the counter has grown.
    pub(crate) has_sleepers: bool,
}

impl<W> Progress<W> {
    pub(crate) fn new(initial: u64) -> Self {
        Self(CachePadded::new(Words {
            reached: AtomicU64::new(initial),
            listeners: Listeners::new(),
            list: Brief::new(List {
                watchers: Vec::new(),
                sleepers: 0,
            }),
        }))
    }

    /// The counter. What happened before it grew to the number read is visible.
    #[inline]
    pub(crate) fn reached(&self) -> u64 {
        self.0.reached.load(Ordering::Acquire)
    }

    /// Leaves `watcher` to be returned by the call of [`advance`](Self::advance) that reaches `number`, or
    /// hands it back if that has happened.
    pub(crate) fn watch(&self, number: u64, watcher: W) -> Result<(), W> {
        if self.reached() >= number {
            return Err(watcher);
        }
        let mut list = self.0.list.lock();
        self.0.listeners.join();
        if self.reached() >= number {
            self.0.listeners.leave(1);
            return Err(watcher);
        }
        list.watchers.push((number, watcher));
        Ok(())
    }

    /// What `choose` makes of each watcher and its number.
    pub(crate) fn pick<R>(&self, choose: impl Fn(u64, &W) -> Option<R>) -> Vec<R> {
        let list = self.0.list.lock();
        list.watchers
            .iter()
            .filter_map(|(number, watcher)| choose(*number, watcher))
            .collect()
    }

    /// Counts a host thread that is about to sleep. It looks at the counter once more before it does.
    pub(crate) fn sleeper(&self) -> Sleeper<'_, W> {
        self.0.list.lock().sleepers += 1;
        self.0.listeners.join();
        Sleeper(self)
    }

    /// Raises the counter to `number`, which is above it, and says who is to be told. Called by one thread at a
    /// time.
    #[inline]
    pub(crate) fn advance(&self, number: u64) -> Option<Due<W>> {
        self.0.reached.store(number, Ordering::Release);
        if !self.0.listeners.are_there() {
            return None;
        }
        Some(self.due(number))
    }

    fn due(&self, number: u64) -> Due<W> {
        let mut list = self.0.list.lock();
        let watchers: SmallVec<[W; AT_ONCE]> = list
            .watchers
            .extract_if(.., |(awaited, _)| *awaited <= number)
            .map(|(_, watcher)| watcher)
            .collect();
        let woken = watchers.len();
        self.0.listeners.leave(woken);
        let has_sleepers = list.sleepers > 0;
        Due {
            watchers,
            has_sleepers,
        }
    }
}

/// A host thread counted as a listener, until it is dropped.
#[derive(Debug)]
pub(crate) struct Sleeper<'a, W>(&'a Progress<W>);

impl<W> Drop for Sleeper<'_, W> {
    fn drop(&mut self) {
        let words = &self.0.0;
        let mut list = words.list.lock();
        list.sleepers -= 1;
        words.listeners.leave(1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{Condvar, Mutex, model, thread};
    use std::sync::Arc;

    fn woken<W>(due: Option<Due<W>>) -> usize {
        due.map_or(0, |due| due.watchers.len())
    }

    #[test]
    fn no_watcher_is_left_behind() {
        model(|| {
            let progress = Arc::new(Progress::new(0));
            let other = Arc::clone(&progress);
            let advancer = thread::spawn(move || woken(other.advance(1)));
            let seen_at_once = progress.watch(1, ()).is_err();
            let woken = advancer.join().unwrap();
            assert!(seen_at_once || woken == 1, "the watcher is lost");
        });
    }

    #[test]
    fn each_watcher_is_woken_once_for_its_own_number() {
        model(|| {
            let progress = Arc::new(Progress::new(0));
            progress.watch(2, "two").unwrap();
            let other = Arc::clone(&progress);
            let advancer = thread::spawn(move || {
                let first = woken(other.advance(1));
                (first, woken(other.advance(2)))
            });
            let was_late = progress.watch(1, "one").is_err();
            let (first, second) = advancer.join().unwrap();
            assert_eq!(first + second, 2 - usize::from(was_late));
            assert!(second >= 1, "the watcher of two was woken at one");
        });
    }

    #[test]
    fn a_sleeper_sees_the_counter_or_is_rung() {
        model(|| {
            let shared = Arc::new((Progress::<()>::new(0), Mutex::new(()), Condvar::new()));
            let other = Arc::clone(&shared);
            let advancer = thread::spawn(move || {
                let (progress, lock, bell) = &*other;
                if progress.advance(1).is_some_and(|due| due.has_sleepers) {
                    let held = lock.lock();
                    bell.notify_all();
                    drop(held);
                }
            });
            let (progress, lock, bell) = &*shared;
            let sleeper = progress.sleeper();
            let mut held = lock.lock();
            // A lost wake is a deadlock, which the model reports.
            while progress.reached() < 1 {
                bell.wait(&mut held);
            }
            drop(held);
            drop(sleeper);
            advancer.join().unwrap();
        });
    }
}
