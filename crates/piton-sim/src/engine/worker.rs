//! A worker thread: runs what is ready, and rests in between as `idle` says.

use super::Shared;
use crate::{
    idle::{Idleness, Rest},
    runner::Runner,
};
use piton_sync::{MutexGuard, atomic::Ordering};
use std::time::Instant;

impl Shared {
    /// Runs what is ready until the engine closes and nothing is left.
    pub(super) fn run_worker(&self) {
        let (mut idleness, mut runner) = (Idleness::default(), Runner::worker());
        loop {
            if self.run_one(&mut runner) {
                idleness.end();
                continue;
            }
            let has_work = || self.pending.load(Ordering::Relaxed) > 0;
            if idleness.may_spin() && self.spinners.spin(has_work) {
                continue;
            }
            let state = self.state.lock();
            if has_work() {
                continue;
            }
            if state.is_closing {
                return;
            }
            self.rest(state, idleness.rest());
        }
    }

    fn rest(&self, mut state: MutexGuard<'_, super::State>, rest: Rest) {
        self.resting.fetch_add(1, Ordering::Relaxed);
        match rest {
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
    }
}
