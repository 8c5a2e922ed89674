//! A worker thread: runs what is ready, and rests in between as `idle` says.

use super::{Shared, sleep::Woken};
use crate::{idle::Idleness, runner::Runner};
use piton_sync::atomic::Ordering;

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
            if self.rest(|| idleness.rest()) == Woken::ToEnd {
                return;
            }
        }
    }
}
