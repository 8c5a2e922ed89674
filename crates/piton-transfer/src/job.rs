//! One guarded copy, from its first plan until its gates open. See `docs/design/transfers.md` for the states.
//!
//! A job belongs to whoever works on it: the thread that submits the copy, then the round that is under way, then the
//! thread that settles that round, and so on. Nobody else sees it.
//!
//! # Invariants
//! - `left` are the bytes that have not arrived and of which nothing is under way.
//!
//! A copy over several ways goes in *installments* where it takes long: each round carries some of what is left, and the
//! next is planned on what others leave then.
//! - Both gates are closed until [`end`](Job::end), which every job comes to: then all that was ever submitted for it
//!   has ended.

#![expect(
    unsafe_code,
    reason = "passes the promises of whoever asks for a copy on to its parts"
)]

mod blame;
mod planning;

use crate::{
    CopyWeight, TransferError,
    book::{Age, Ticket, Waiting},
    engine::Engine,
    gate::Gate,
    part::Part,
    probe::{Finding, PREDICTED_NS, Probe},
    round::{Round, UnderWay},
    way::{Leg, Share},
};
use piton_driver::PeerAddress;
use piton_stream::{Event, Stream};
use piton_timeline::{Frontier, Timepoint};
use planning::Planned;
use std::{ops::Range, sync::Arc};

/// A copy between two devices.
#[derive(Debug)]
pub(crate) struct Job {
    engine: Arc<Engine>,
    start: Event,
    dst: PeerAddress,
    src: PeerAddress,
    /// Gates that are closed: the source's and the destination's. The program's stream waits for the one that is heard.
    gates: Vec<(Gate, Heard)>,
    left: Vec<Range<u64>>,
    /// Legs that refused something of this copy.
    avoid: Vec<Leg>,
    /// A leg to or from host memory has failed: no part goes there beside others.
    has_host_failed: bool,
    ended: Frontier,
    /// Stands for what the round under way takes of the links.
    ticket: Option<Ticket>,
    age: Age,
    weight: CopyWeight,
    rounds: u32,
}

/// Whether the program's stream waits for a gate.
type Heard = bool;

/// How a copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Arrived,
    Failed,
}

/// A job that waits to be begun, and where its gates open.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) job: Box<Job>,
    /// The source's gate and the destination's.
    pub(crate) gates: [Timepoint; 2],
    /// The one that the program's stream waits for.
    pub(crate) heard: Timepoint,
}

impl Job {
    /// Closes the gates of a copy.
    pub(crate) fn close(
        engine: &Arc<Engine>,
        stream: &Stream,
        (dst, src): (PeerAddress, PeerAddress),
        (bytes, weight): (u64, CopyWeight),
    ) -> Result<Closed, TransferError> {
        let (from, to) = (engine.ends.get(src.device)?, engine.ends.get(dst.device)?);
        let (first, near) = from.gates.close(&from.lanes, &from.device)?;
        let second = to.gates.close(&to.lanes, &to.device);
        let (second, far) = match second {
            Ok(closed) => closed,
            Err(error) => {
                // Nobody was told of the first.
                if first.open(&Frontier::new()).is_ok() {
                    from.gates.give_back(first);
                }
                return Err(error.into());
            }
        };
        let priorities = stream.device().priorities();
        let highest = priorities.map_or(stream.priority(), |range| range.highest);
        let heard = usize::from(stream.device().info().id != src.device);
        let job = Self {
            engine: Arc::clone(engine),
            start: stream.record(),
            dst,
            src,
            gates: vec![(first, heard == 0), (second, heard == 1)],
            left: std::iter::once(0..bytes).collect(),
            avoid: Vec::new(),
            has_host_failed: false,
            ended: Frontier::new(),
            ticket: None,
            age: Age::new(stream.priority(), highest),
            weight,
            rounds: 0,
        };
        let gates = [near, far];
        Ok(Closed {
            job: Box::new(job),
            heard: gates[heard],
            gates,
        })
    }

    /// Sends what is left on its way, or patterns over legs that are not trusted yet, or waits for more urgent copies. A job
    /// that has no way comes back.
    ///
    /// # Safety
    /// The ranges are as [`Transfers::copy`](crate::Transfers::copy) asks, until both gates have opened.
    pub(crate) unsafe fn advance(mut self: Box<Self>) -> Result<(), (Box<Self>, TransferError)> {
        let engine = Arc::clone(&self.engine);
        loop {
            match self.shares() {
                Ok(Planned::Goes(shares, later)) => {
                    // SAFETY: as the caller promised.
                    unsafe { self.launch(shares, later) };
                    return Ok(());
                }
                Ok(Planned::Waits(behind)) => match engine.plans.wait(self, &behind) {
                    Ok(()) => return Ok(()),
                    Err(job) => self = job,
                },
                Err(error) => return Err((self, error)),
            }
        }
    }

    /// A round of these shares, or of patterns.
    ///
    /// # Safety
    /// As [`advance`](Self::advance).
    unsafe fn launch(mut self: Box<Self>, shares: Vec<Share>, later: Vec<Range<u64>>) {
        let engine = Arc::clone(&self.engine);
        let untrusted = self.untrusted(&shares);
        let mut parts = Vec::new();
        if untrusted.is_empty() {
            self.left = later;
            let config = &engine.config;
            let between = config.engines.map(|_| config.costs.between);
            for share in shares {
                let ends = (&engine.ends, between, self.age.class);
                let mut part = Part::new(ends, share, self.src.device, self.dst.device);
                // SAFETY: as the caller promised: the gates are closed until all of this has ended.
                unsafe {
                    part.submit_compared(
                        (&engine.ends, engine.config.compared),
                        (&self.start, &self.ended),
                        self.dst,
                        self.src,
                    );
                };
                parts.push(part);
            }
        } else {
            self.give_back();
        }
        let probes = untrusted.into_iter();
        let under_way = UnderWay {
            job: self,
            parts,
            probes: probes.map(|leg| Probe::send(&engine.ends, leg)).collect(),
        };
        Round::launch(&engine, under_way);
    }

    /// What the last plan took is free.
    fn give_back(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.engine.plans.give_back(ticket);
        }
    }

    /// Lets the copies that wait look again, a round that was to take so long being over.
    fn wake_others(engine: &Arc<Engine>, nanos: u64) {
        for Waiting(mut job) in engine.plans.wake() {
            job.age.waited(nanos);
            job.go_on();
        }
    }

    /// Goes on with what is left, or fails.
    fn go_on(self: Box<Self>) {
        // SAFETY: the promise of who asked for the copy holds until the gates open.
        if let Err((job, _)) = unsafe { self.advance() } {
            job.end(Verdict::Failed);
        }
    }

    /// A round is over: every lane of it has ended.
    pub(crate) fn settle(mut self: Box<Self>, parts: Vec<Part>, probes: Vec<Probe>) {
        let engine = Arc::clone(&self.engine);
        self.give_back();
        let predicted = parts.iter().map(|part| part.share.predicted_ns).max();
        for probe in probes {
            self.saw(&probe.ended());
            self.learn(&probe);
            probe.give_back(&engine.ends);
        }
        let mut is_hopeless = false;
        let is_installment = !parts.is_empty() && parts.iter().all(Part::has_arrived);
        if is_installment {
            // Going on is no new try.
            self.rounds = 0;
        }
        for part in parts {
            let ended = part.ended();
            self.saw(&ended);
            self.ended.join(&ended);
            if part.has_arrived() {
                let ends = (self.src.device, self.dst.device);
                engine.uses.add(ends, &part.share.way, part.share.bytes);
            } else {
                is_hopeless |= !self.blame(&part);
                let start = part.share.offset;
                self.left.push(start..start + part.share.bytes);
            }
            part.give_back(&engine.ends);
        }
        if is_hopeless {
            self.end(Verdict::Failed);
        } else if self.left.is_empty() {
            self.end(Verdict::Arrived);
        } else {
            self.go_on();
        }
        // Behind this copy's own next round: to the others it never left its links.
        Self::wake_others(&engine, predicted.unwrap_or(PREDICTED_NS));
    }

    /// Tells the runtime, and a sanitizer, that these have ended.
    fn saw(&self, ended: &Frontier) {
        for point in ended.points() {
            // How it ended is asked of the lane.
            let _ended = self.engine.streams.query(*point);
        }
    }

    fn learn(&mut self, probe: &Probe) {
        let plans = &self.engine.plans;
        let deadline = self.engine.deadline_ns(PREDICTED_NS);
        match (probe.finding(deadline), probe.leg.pair()) {
            (Finding::Trusted, Some((from, to))) => plans.trust(from, to),
            (Finding::Bad(reason), _) => plans.give_up(probe.leg, reason),
            _ => self.avoid.push(probe.leg),
        }
    }

    /// Opens the gates, or fails the one that the program's stream waits for. What a device refuses is tried again at the
    /// next copy or check.
    pub(crate) fn end(mut self: Box<Self>, verdict: Verdict) {
        let engine = Arc::clone(&self.engine);
        for (gate, is_heard) in std::mem::take(&mut self.gates) {
            let fails = is_heard && verdict == Verdict::Failed;
            let told = if fails {
                gate.fail()
            } else {
                gate.open(&self.ended)
            };
            if told.is_err() && !gate.is_lost() {
                self.gates.push((gate, is_heard));
            } else if fails {
                // It is no good to anybody once it has ended, which may be later.
                drop(gate);
            } else if let Ok(end) = engine.ends.get(gate.device()) {
                end.gates.give_back(gate);
            }
        }
        self.give_back();
        if !self.gates.is_empty() {
            engine.unsettled.lock().push((self, verdict));
        }
        Self::wake_others(&engine, 0);
    }

    fn given_up(&self) -> TransferError {
        TransferError::GivenUp {
            from: self.src.device,
            to: self.dst.device,
            rounds: self.rounds,
        }
    }

    /// Whether what the program's stream did before has ended.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.start.query(), Ok(false))
    }
}
