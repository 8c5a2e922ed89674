//! Who sleeps, and who is woken for what.
//!
//! # Protocol
//! - `state` guards what is ready and who sleeps. A thread that found nothing and sleeps under the lock is woken under
//!   it, so it misses nothing.
//! - A host thread that waits for a counter is one of the counter's listeners (`progress`) before it looks a last time
//!   and sleeps; whoever raises the counter is told, and rings the host bell under the lock.
//! - `pending` counts what is ready and offered; it is written under the lock and read without it by threads that decide
//!   whether to take the lock at all. `resting` is read without it too, by a thread that has made something ready before.
//!
//! # Who is woken
//! Waking a thread is dear and spinning ones need no waking (`idle`), so work is handed over as late as can be:
//! - one queue made ready by the host wakes nobody while a worker spins or naps: the host often waits for it next and
//!   then runs it itself, and if not, the worker comes by. When a second queue is ready, or a slice's worth of commands
//!   was submitted meanwhile, or the host flushes, a worker is woken;
//! - a worker that makes a queue ready takes it next itself. If it goes on with its own queue instead, or if it was no
//!   worker, somebody else is woken first ([`Engine::share`](super::Engine::share)).
//!
//! What is ready is a parameter here, so that the models below need no machine.

use super::{Deadlock, Shared, State, offer::Offer};
use crate::{
    config::ClockMode,
    idle::{Rest, Spinners},
    ready::Ready,
    tally::Bell,
};
use piton_driver::WaitOutcome;
use piton_sync::{
    CachePadded, Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use std::time::{Duration, Instant};

/// Submissions that a napping worker is left to find by itself: a slice's worth.
const PATIENCE: u32 = 16;

/// What a worker does that has rested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    ToLook,
    ToEnd,
}

impl<T> Shared<T> {
    pub(super) fn new(clock: ClockMode, spin: Duration) -> Self {
        let seed = match clock {
            ClockMode::Virtual { seed, .. } => seed,
            ClockMode::Real => 0,
        };
        Self {
            state: CachePadded::new(Mutex::new(State {
                ready: Ready::new(),
                offers: Vec::new(),
                asleep: 0,
                napping: 0,
                hosts: 0,
                running: 0,
                is_closing: false,
                random: fastrand::Rng::with_seed(seed),
            })),
            work: Condvar::new(),
            hosts: Condvar::new(),
            guests_left: Bell::default(),
            pending: CachePadded::new(AtomicUsize::new(0)),
            resting: AtomicUsize::new(0),
            unannounced: AtomicU32::new(0),
            spinners: CachePadded::new(Spinners::new(spin)),
            clock,
            started: Instant::now(),
            virtual_now: AtomicU64::new(0),
            host_now: AtomicU64::new(0),
        }
    }

    /// Puts a queue on the list; says whether some worker will come for it.
    pub(super) fn push(&self, state: &mut State<T>, band: usize, item: T) -> bool {
        state.ready.push(band, item);
        let is_only = self.pending.fetch_add(1, Ordering::Relaxed) == 0;
        if is_only && state.napping > 0 {
            self.unannounced.store(1, Ordering::Relaxed);
            return true;
        }
        let has_resting = state.asleep + state.napping > 0;
        if has_resting {
            self.work.notify_one();
        } else if !is_only && state.hosts > 0 {
            self.hosts.notify_one();
        }
        has_resting || !is_only
    }

    /// `count` commands were submitted to a queue that was scheduled already.
    pub(super) fn submitted(&self, count: u32) {
        let unannounced = &self.unannounced;
        let before = unannounced.load(Ordering::Relaxed);
        if before == 0 {
            return;
        }
        // A hint: of two that count at once one may be lost.
        let now = before.saturating_add(count);
        unannounced.store(now, Ordering::Relaxed);
        if now > PATIENCE {
            self.announce();
        }
    }

    /// Wakes a worker for what is ready.
    pub(super) fn announce(&self) {
        self.unannounced.store(0, Ordering::Relaxed);
        if self.pending.load(Ordering::Relaxed) == 0 {
            return;
        }
        let state = self.state.lock();
        if state.asleep + state.napping > 0 {
            self.work.notify_one();
        }
    }

    /// See [`Engine::share`](super::Engine::share).
    pub(super) fn share(&self) {
        if self.pending.load(Ordering::Relaxed) > 0 && self.resting.load(Ordering::Relaxed) > 0 {
            self.wake_one(&self.state.lock());
        }
    }

    /// A worker has found nothing: it rests, unless there is something now or the engine closes. How is asked when that is
    /// sure.
    pub(super) fn rest(&self, how: impl FnOnce() -> Rest) -> Woken {
        let mut state = self.state.lock();
        if self.pending.load(Ordering::Relaxed) > 0 {
            return Woken::ToLook;
        }
        if state.is_closing {
            return Woken::ToEnd;
        }
        self.resting.fetch_add(1, Ordering::Relaxed);
        match how() {
            Rest::Nap(nap) => {
                state.napping += 1;
                // Not a poll for its own sake: see `idle`.
                let _ = self.work.wait_until(&mut state, Instant::now() + nap);
                state.napping -= 1;
            }
            Rest::Sleep => {
                state.asleep += 1;
                self.work.wait(&mut state);
                state.asleep -= 1;
            }
        }
        self.resting.fetch_sub(1, Ordering::Relaxed);
        Woken::ToLook
    }

    /// Workers that find nothing end.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        self.work.notify_all();
    }

    pub(super) fn is_virtual(&self) -> bool {
        matches!(self.clock, ClockMode::Virtual { .. })
    }

    /// Spins for as long as others probably need for what runs; says whether to look again.
    pub(super) fn is_worth_spinning(&self, is_met: &impl Fn() -> bool) -> bool {
        !self.is_virtual()
            && self
                .spinners
                .spin_aside(|| is_met() || self.pending.load(Ordering::Relaxed) > 0)
    }

    /// Sleeps until woken, unless the condition holds or there is something to run.
    pub(super) fn park(
        &self,
        is_met: &impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<Option<WaitOutcome>, Deadlock> {
        let mut state = self.state.lock();
        if let Some(reason) = self.reason_to_stay_awake(&state, is_met, deadline) {
            return reason;
        }
        state.hosts += 1;
        self.resting.fetch_add(1, Ordering::Relaxed);
        match deadline {
            None => self.hosts.wait(&mut state),
            Some(deadline) => {
                let _ = self.hosts.wait_until(&mut state, deadline);
            }
        }
        self.resting.fetch_sub(1, Ordering::Relaxed);
        state.hosts -= 1;
        if is_met() && self.pending.load(Ordering::Relaxed) > 0 {
            // The wake may have been meant for work: hand it on.
            self.wake_one(&state);
        }
        Ok(None)
    }

    /// Why a host thread need not sleep: an outcome, something to run (no outcome yet), or that nothing can ever
    /// happen.
    fn reason_to_stay_awake(
        &self,
        state: &State<T>,
        is_met: &impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Option<Result<Option<WaitOutcome>, Deadlock>> {
        if is_met() {
            return Some(Ok(Some(WaitOutcome::Reached)));
        }
        if !state.ready.is_empty() || state.offers.iter().any(Offer::is_open) {
            return Some(Ok(None));
        }
        if self.is_virtual() && state.running == 0 {
            // Nothing runs and nothing is ready. Time does not pass by itself here.
            return Some(match deadline {
                Some(_) => Ok(Some(WaitOutcome::DeadlinePassed)),
                None => Err(Deadlock),
            });
        }
        None
    }

    pub(super) fn wake_one(&self, state: &MutexGuard<'_, State<T>>) {
        if state.asleep + state.napping > 0 {
            self.work.notify_one();
        } else if state.hosts > 0 {
            self.hosts.notify_one();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    fn shared() -> Arc<Shared<u32>> {
        Arc::new(Shared::new(ClockMode::Real, Duration::ZERO))
    }

    fn take(shared: &Shared<u32>) -> Option<u32> {
        if shared.pending.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taken = shared.state.lock().ready.pop()?;
        shared.pending.fetch_sub(1, Ordering::Relaxed);
        Some(taken)
    }

    fn push(shared: &Shared<u32>, item: u32) {
        shared.push(&mut shared.state.lock(), 0, item);
    }

    /// A thread that takes one thing, resting like this until there is one. A lost wake is a deadlock, which the model
    /// reports; time does not pass, so a nap does not end by itself.
    fn worker(shared: &Arc<Shared<u32>>, how: Rest) -> thread::JoinHandle<u32> {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            loop {
                if let Some(taken) = take(&shared) {
                    return taken;
                }
                assert_eq!(shared.rest(|| how), Woken::ToLook);
            }
        })
    }

    #[test]
    fn a_worker_that_is_about_to_sleep_sees_what_is_ready_or_is_woken() {
        model(|| {
            let shared = shared();
            let worker = worker(&shared, Rest::Sleep);
            push(&shared, 7);
            assert_eq!(worker.join().unwrap(), 7);
        });
    }

    #[test]
    fn a_napping_worker_is_woken_by_an_announcement() {
        model(|| {
            let shared = shared();
            let worker = worker(&shared, Rest::Nap(Duration::ZERO));
            push(&shared, 7);
            shared.announce();
            assert_eq!(worker.join().unwrap(), 7);
        });
    }

    #[test]
    fn a_host_that_sleeps_is_woken_for_what_a_busy_worker_shares() {
        model(|| {
            let shared = shared();
            let other = Arc::clone(&shared);
            let host = thread::spawn(move || {
                loop {
                    if let Some(taken) = take(&other) {
                        return taken;
                    }
                    assert!(matches!(other.park(&|| false, None), Ok(None)));
                }
            });
            push(&shared, 7);
            shared.share();
            assert_eq!(host.join().unwrap(), 7);
        });
    }

    #[test]
    fn a_worker_that_rests_when_the_engine_closes_ends() {
        model(|| {
            let shared = shared();
            let other = Arc::clone(&shared);
            let worker = thread::spawn(move || while other.rest(|| Rest::Sleep) != Woken::ToEnd {});
            shared.close();
            worker.join().unwrap();
        });
    }
}
