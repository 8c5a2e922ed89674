//! Where host threads sleep until a counter has grown.
//!
//! # Protocol
//! Counters grow under no lock, and a thread that raises one must not pay for a lock when nobody sleeps.
//!
//! | word | written by | order |
//! |---|---|---|
//! | `sleepers` | [`sleep_unless`](Doorbell::sleep_unless) adds under the caller's lock, then looks at its counter; [`ring`](Doorbell::ring), after its counter was raised by RMW, reads by RMW | AcqRel on both sides |
//!
//! Of two RMWs on `sleepers` one comes first. If the sleeper's does, the ringer sees it and notifies under the
//! lock, which it gets only once the sleeper waits. If the ringer's does, the sleeper's reads from it, so the
//! raised counter is visible when the sleeper looks. A plain load by the ringer would not do: it could be
//! satisfied before the counter's new value is visible.

use piton_sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Instant;

/// A count of sleepers, and the bell that wakes them.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    sleepers: AtomicUsize,
    bell: Condvar,
}

impl Doorbell {
    /// Sleeps until rung or until `deadline`, unless `reason` finds one not to; returns that. A sleeper may wake
    /// for nothing: callers ask again.
    pub(crate) fn sleep_unless<T, R>(
        &self,
        held: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
        reason: impl FnOnce(&T) -> Option<R>,
    ) -> Option<R> {
        self.sleepers.fetch_add(1, Ordering::AcqRel);
        let found = reason(held);
        match deadline {
            _ if found.is_some() => {}
            None => self.bell.wait(held),
            Some(deadline) => {
                let _ = self.bell.wait_until(held, deadline);
            }
        }
        self.sleepers.fetch_sub(1, Ordering::AcqRel);
        found
    }

    /// A counter has grown: whoever sleeps under `lock` looks again.
    pub(crate) fn ring<T>(&self, lock: &Mutex<T>) {
        if self.sleepers.fetch_add(0, Ordering::AcqRel) > 0 {
            let held = lock.lock();
            self.bell.notify_all();
            drop(held);
        }
    }

    /// Wakes everybody; the caller holds the lock they sleep under.
    pub(crate) fn ring_held<T>(&self, _held: &MutexGuard<'_, T>) {
        self.bell.notify_all();
    }

    /// Wakes one sleeper, if there is one; the caller holds the lock they sleep under.
    pub(crate) fn ring_one<T>(&self, _held: &MutexGuard<'_, T>) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.bell.notify_one();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{atomic::AtomicU64, model, thread};
    use std::sync::Arc;

    #[test]
    fn a_sleeper_sees_the_counter_or_is_rung() {
        model(|| {
            let shared = Arc::new((Mutex::new(()), Doorbell::default(), AtomicU64::new(0)));
            let other = Arc::clone(&shared);
            let raiser = thread::spawn(move || {
                other.2.fetch_max(1, Ordering::AcqRel);
                other.1.ring(&other.0);
            });
            let (lock, bell, counter) = &*shared;
            let has_grown = |(): &()| (counter.load(Ordering::Acquire) > 0).then_some(());
            // A lost wake is a deadlock, which the model reports.
            while bell
                .sleep_unless(&mut lock.lock(), None, has_grown)
                .is_none()
            {}
            raiser.join().unwrap();
        });
    }

    #[test]
    fn each_of_two_sleepers_is_rung() {
        model(|| {
            let shared = Arc::new((Mutex::new(()), Doorbell::default(), AtomicU64::new(0)));
            let sleeper = |shared: Arc<(Mutex<()>, Doorbell, AtomicU64)>| {
                let (lock, bell, counter) = &*shared;
                let has_grown = |(): &()| (counter.load(Ordering::Acquire) > 0).then_some(());
                while bell
                    .sleep_unless(&mut lock.lock(), None, has_grown)
                    .is_none()
                {}
            };
            let first = Arc::clone(&shared);
            let first = thread::spawn(move || sleeper(first));
            let second = Arc::clone(&shared);
            let second = thread::spawn(move || sleeper(second));
            shared.2.fetch_max(1, Ordering::AcqRel);
            shared.1.ring(&shared.0);
            first.join().unwrap();
            second.join().unwrap();
        });
    }
}
