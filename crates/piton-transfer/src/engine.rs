//! What all copies of a runtime share.

use crate::{
    TransferConfig,
    companion::Companions,
    end::Ends,
    job::{Job, Verdict},
    overseer::Bell,
    plans::Plans,
    round::Round,
    route_use::RouteUses,
};
use piton_stream::Streams;
use piton_sync::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Instant,
};

/// The devices, the ways between them, and what is under way.
///
/// Lock order: all locks here and in the parts are leaves, but for those of planning (see `plans`). None is held while a
/// command is submitted.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) streams: Streams,
    pub(crate) ends: Ends,
    pub(crate) plans: Plans,
    pub(crate) uses: RouteUses,
    pub(crate) config: TransferConfig,
    pub(crate) active: Active,
    /// Rung when a round is under way.
    pub(crate) bell: Arc<Bell>,
    pub(crate) companions: Companions,
    /// Copies that are over and whose gates the device has refused to open or fail.
    pub(crate) unsettled: Mutex<Vec<(Box<Job>, Verdict)>>,
}

impl Engine {
    /// What a copy may take that should take `predicted_ns`.
    pub(crate) fn deadline_ns(&self, predicted_ns: u64) -> u64 {
        let least = u64::try_from(self.config.least_deadline.as_nanos()).unwrap_or(u64::MAX);
        predicted_ns
            .saturating_mul(self.config.deadline_factor.into())
            .max(least)
    }

    /// Aborts what hangs; says how many lanes.
    pub(crate) fn check(&self, now: Instant) -> usize {
        self.retry();
        let rounds = self.active.all();
        rounds.iter().map(|round| round.check(now)).sum()
    }

    /// Tries gates again that a device refused to open.
    pub(crate) fn retry(&self) {
        let unsettled = std::mem::take(&mut *self.unsettled.lock());
        for (job, verdict) in unsettled {
            job.end(verdict);
        }
    }
}

/// The rounds that are not over. A leaf lock.
#[derive(Debug, Default)]
pub(crate) struct Active(Mutex<Vec<Weak<Round>>>);

impl Active {
    pub(crate) fn note(&self, round: &Arc<Round>) {
        let mut rounds = self.0.lock();
        rounds.retain(|round| round.strong_count() > 0);
        rounds.push(Arc::downgrade(round));
    }

    fn all(&self) -> Vec<Arc<Round>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// How many are under way.
    pub(crate) fn count(&self) -> usize {
        let rounds = self.0.lock();
        rounds
            .iter()
            .filter(|round| round.strong_count() > 0)
            .count()
    }
}
