//! Rounds: what is under way of a copy, and who notices that it is over.
//!
//! # Protocol
//! A round is shared by those who may still use what it owns: the host functions behind each of its lanes, and
//! whoever submits it. A host function is called when its lane has ended well and dropped when it has not, so either
//! way its share of the round goes when the lane has ended. When the last share goes the round is over, and that
//! thread *settles* it: no thread waits, and there is nobody to be woken.
//!
//! | what | written by | read by |
//! |---|---|---|
//! | "ended well" of a lane | its host function, before its share goes | whoever settles: the last share's going orders it (`Arc`) |
//! | "overdue" of a lane | [`check`](Round::check), which holds a share | the same |
//! | `began` | `check`, under its lock | the same |
//!
//! A share whose lane refuses to call it is made again; refused twice, as by a device that is lost, it goes to a thread of its
//! own that waits for the lane. Nobody waits where the share is made: a round is settled, and the next one launched, where a
//! host function is dropped, and that is in the middle of a command for which the lane may be waiting.

use crate::{
    carrier::Carrier,
    engine::Engine,
    job::Job,
    part::Part,
    probe::{PREDICTED_NS, Probe},
};
use piton_stream::{LaneActivity, WaitsFor};
use piton_sync::{Mutex, thread};
use std::{
    mem::ManuallyDrop,
    sync::Arc,
    time::{Duration, Instant},
};

/// What is under way, with the copy it is of.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) job: Box<Job>,
    pub(crate) parts: Vec<Part>,
    pub(crate) probes: Vec<Probe>,
}

/// One round of a copy.
#[derive(Debug)]
pub(crate) struct Round {
    engine: Arc<Engine>,
    /// Taken when it is over.
    under_way: Option<UnderWay>,
    began: Mutex<Option<Instant>>,
}

impl Round {
    /// Watches over what was submitted.
    pub(crate) fn launch(engine: &Arc<Engine>, under_way: UnderWay) {
        let round = Arc::new(Self {
            engine: Arc::clone(engine),
            under_way: Some(under_way),
            began: Mutex::default(),
        });
        engine.active.note(&round);
        engine.bell.ring();
        for number in 0..round.carriers().count() {
            round.watch(number);
        }
    }

    /// Gives the lane with this number a share that goes when the lane has ended.
    fn watch(self: &Arc<Self>, number: usize) {
        let Some(carrier) = self.carriers().nth(number) else {
            return;
        };
        for _ in 0..2 {
            let share = Arc::clone(self);
            let watched = carrier.lane.call_host(move || share.note_well(number));
            if watched.is_ok() {
                return;
            }
        }
        let share = Arc::clone(self);
        let builder = thread::Builder::new().name("piton-copies".to_owned());
        if builder.spawn(move || share.wait_for(number)).is_err() {
            // The system has no thread for it: whoever launches the round must do.
            self.wait_for(number);
        }
    }

    /// Blocks until the lane with this number has ended, however often the wait itself is refused.
    #[cold]
    fn wait_for(&self, number: usize) {
        let Some(carrier) = self.carriers().nth(number) else {
            return;
        };
        while carrier.lane.query() == Ok(false) {
            if carrier.lane.synchronize().is_err() {
                thread::yield_now();
            }
        }
        if carrier.lane.query() == Ok(true) {
            carrier.note_well();
        }
    }

    fn note_well(&self, number: usize) {
        if let Some(carrier) = self.carriers().nth(number) {
            carrier.note_well();
        }
    }

    fn carriers(&self) -> impl Iterator<Item = &Carrier> {
        let under_way = self.under_way.as_ref();
        let parts = under_way.into_iter().flat_map(|what| &what.parts);
        let probes = under_way.into_iter().flat_map(|what| &what.probes);
        let of_parts = parts.flat_map(|part| &part.carriers);
        of_parts.chain(probes.flat_map(|probe| &probe.carriers))
    }

    /// What the longest of it should take, in nanoseconds.
    fn predicted_ns(&self) -> u64 {
        let Some(under_way) = &self.under_way else {
            return 0;
        };
        let parts = under_way.parts.iter();
        let longest = parts.map(|part| part.share.predicted_ns).max();
        longest.unwrap_or(PREDICTED_NS)
    }

    /// Aborts what hangs, if the round is overdue at `now`; says how many lanes. The time counts from the first check
    /// at which the copy had begun.
    pub(crate) fn check(&self, now: Instant) -> usize {
        let Some(under_way) = &self.under_way else {
            return 0;
        };
        if !under_way.job.has_begun() {
            return 0;
        }
        let began = *self.began.lock().get_or_insert(now);
        let deadline = self.engine.deadline_ns(self.predicted_ns());
        if now.saturating_duration_since(began) <= Duration::from_nanos(deadline) {
            return 0;
        }
        let hanging = self.hanging();
        let aborted = hanging.iter().filter(|carrier| carrier.abort().is_ok());
        aborted.count()
    }

    /// The lanes that do not wait for another one, and have not ended.
    fn hanging(&self) -> Vec<&Carrier> {
        let dumps = self.engine.streams.dump();
        let hangs = |carrier: &&Carrier| {
            let id = carrier.lane.id();
            let dump = dumps.iter().find(|dump| dump.name.lane == id);
            dump.is_some_and(|dump| {
                dump.completed < dump.submitted
                    && !matches!(
                        dump.activity,
                        LaneActivity::Waiting(_, WaitsFor::Stream(..) | WaitsFor::Semaphore { .. })
                    )
            })
        };
        self.carriers().filter(hangs).collect()
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let Some(under_way) = self.under_way.take() else {
            return;
        };
        // In a fork everything stays where it is.
        if self.engine.streams.timeline().is_forked() {
            let _left = ManuallyDrop::new(under_way);
            return;
        }
        let UnderWay { job, parts, probes } = under_way;
        job.settle(parts, probes);
    }
}
