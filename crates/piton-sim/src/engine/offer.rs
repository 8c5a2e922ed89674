//! Launches on offer: blocks that idle threads may run beside the launch's owner.
//!
//! # Why the pointer is good
//! A launch lies on its owner's stack. It is on the list, which the engine's lock guards, from
//! [`run_shared`](super::Engine::run_shared)'s beginning until its owner has taken its own part. A thread finds it there
//! under the lock, and is counted as a guest before it lets go of the lock; the owner stays until all guests have left.

#![expect(unsafe_code, reason = "a launch on another thread's stack")]

use super::{Engine, Shared, State};
use crate::{grid::GridJob, tally::Bell};
use piton_driver::ErrorKind;
use piton_sync::atomic::Ordering;
use std::ptr::NonNull;

/// A launch on offer.
pub(super) struct Offer(NonNull<GridJob<'static>>);

// SAFETY: a launch is `Sync`; it outlives the offer, see the module.
unsafe impl Send for Offer {}

impl Offer {
    fn of(job: &GridJob<'_>) -> Self {
        Self(NonNull::from(job).cast())
    }

    /// Becomes a guest of the launch, if it wants one. Called under the engine's lock, on the list.
    pub(super) fn enter(&self) -> Option<Self> {
        // SAFETY: on the list, so its owner has not left.
        let job = unsafe { self.0.as_ref() };
        (job.wanted() > 0).then(|| {
            job.enter();
            Self(self.0)
        })
    }

    /// Whether the launch wants a guest. Called under the engine's lock, on the list.
    pub(super) fn is_open(&self) -> bool {
        // SAFETY: as in `enter`.
        unsafe { self.0.as_ref() }.wanted() > 0
    }

    /// Runs blocks as a guest, and leaves.
    pub(super) fn take_part(self, guests_left: &Bell) {
        // SAFETY: a guest, so the owner stays until `leave`, which is the last use.
        let job = unsafe { self.0.as_ref() };
        job.take_part();
        job.leave(guests_left);
    }
}

impl Shared {
    /// Becomes a guest of a launch that wants one. A launch that wants none now never will: it goes off the list.
    pub(super) fn take_offer(&self, state: &mut State) -> Option<Offer> {
        let before = state.offers.len();
        state.offers.retain(Offer::is_open);
        let closed = before - state.offers.len();
        self.pending.fetch_sub(closed, Ordering::Relaxed);
        state.offers.iter().find_map(Offer::enter)
    }

    fn offer(&self, job: &GridJob<'_>) {
        let mut state = self.state.lock();
        state.offers.push(Offer::of(job));
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.wake_one(&state);
    }

    fn withdraw(&self, job: &GridJob<'_>) {
        let own: NonNull<GridJob<'static>> = NonNull::from(job).cast();
        let mut state = self.state.lock();
        if let Some(at) = state.offers.iter().position(|offer| offer.0 == own) {
            state.offers.swap_remove(at);
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Engine {
    /// Runs a launch on this thread and on others that are idle.
    pub(crate) fn run_shared(&self, job: &GridJob<'_>) -> Result<(), ErrorKind> {
        self.shared.offer(job);
        job.take_part();
        self.shared.withdraw(job);
        job.finish(&self.shared.guests_left)
    }
}
