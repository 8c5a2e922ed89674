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

use crate::{
    TransferError,
    engine::Engine,
    gate::Gate,
    incident::Reason,
    part::Part,
    plans::{Taken, place},
    probe::{Finding, PREDICTED_NS, Probe, is_inherited},
    round::{Round, UnderWay},
    way::{Leg, Share, Way},
};
use piton_driver::{DeviceId, ErrorKind, PeerAddress};
use piton_stream::{Event, Stream};
use piton_timeline::{Frontier, Timepoint};
use std::{ops::Range, sync::Arc};

/// How often a copy is planned at most. Each round gives up a leg for good or for this copy, so that more would be needed
/// only by a machine that comes apart.
const MAX_ROUNDS: u32 = 16;

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
    ended: Frontier,
    taken: Taken,
    rounds: u32,
}

/// Whether the program's stream waits for a gate.
type Heard = bool;

/// What a round carries, and what is left for later ones.
type Planned = (Vec<Share>, Vec<Range<u64>>);

/// How a copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Arrived,
    Failed,
}

/// Why a part has not arrived.
enum Blame {
    /// A leg; other ways may do.
    Leg(Leg, Reason),
    /// A leg refused to take part of it, which says nothing of others.
    Refused(Leg),
    /// Whatever way is taken.
    Hopeless,
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
        bytes: u64,
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
        let heard = usize::from(stream.device().info().id != src.device);
        let job = Self {
            engine: Arc::clone(engine),
            start: stream.record(),
            dst,
            src,
            gates: vec![(first, heard == 0), (second, heard == 1)],
            left: std::iter::once(0..bytes).collect(),
            avoid: Vec::new(),
            ended: Frontier::new(),
            taken: Taken::default(),
            rounds: 0,
        };
        let gates = [near, far];
        Ok(Closed {
            job: Box::new(job),
            heard: gates[heard],
            gates,
        })
    }

    /// Sends what is left on its way, or patterns over legs that are not trusted yet. A job that has no way comes back.
    ///
    /// # Safety
    /// The ranges are as [`Transfers::copy`](crate::Transfers::copy) asks, until both gates have opened.
    pub(crate) unsafe fn advance(mut self: Box<Self>) -> Result<(), (Box<Self>, TransferError)> {
        let (shares, later) = match self.shares() {
            Ok(planned) => planned,
            Err(error) => return Err((self, error)),
        };
        let engine = Arc::clone(&self.engine);
        let untrusted = self.untrusted(&shares);
        let mut parts = Vec::new();
        if untrusted.is_empty() {
            self.left = later;
            for share in shares {
                let mut part = Part::new(&engine.ends, share, self.src.device, self.dst.device);
                // SAFETY: as the caller promised: the gates are closed until all of this has ended.
                unsafe {
                    part.submit_sampled(
                        (&engine.ends, engine.config.sampled_places),
                        (&self.start, &self.ended),
                        self.dst,
                        self.src,
                    );
                };
                parts.push(part);
            }
        } else {
            engine.plans.give_back(std::mem::take(&mut self.taken));
        }
        let probes = untrusted.into_iter();
        let under_way = UnderWay {
            job: self,
            parts,
            probes: probes.map(|leg| Probe::send(&engine.ends, leg)).collect(),
        };
        Round::launch(&engine, under_way);
        Ok(())
    }

    /// Which ways what is left takes, and what is not to be carried yet. Never over a device in error.
    fn shares(&mut self) -> Result<Planned, TransferError> {
        loop {
            self.rounds += 1;
            if self.rounds > MAX_ROUNDS {
                return Err(self.given_up());
            }
            let (shares, later) = self.plan()?;
            let broken = shares.iter().find_map(|share| self.broken(&share.way));
            let Some((legs, kind)) = broken else {
                return Ok((shares, later));
            };
            self.engine.plans.give_back(std::mem::take(&mut self.taken));
            for leg in legs {
                self.engine.plans.give_up(leg, Reason::Failed(kind));
            }
        }
    }

    fn plan(&mut self) -> Result<Planned, TransferError> {
        let (Some(from), Some(to)) = (place(self.src.device), place(self.dst.device)) else {
            return Err(self.given_up());
        };
        let (plans, avoid) = (&self.engine.plans, &self.avoid);
        let ends = (self.src.device, self.dst.device);
        let is_open = |way: &Way| {
            let legs = way.legs(ends.0, ends.1);
            !legs.iter().any(|leg| avoid.contains(leg))
        };
        // What failed of a round is a piece of its own; one piece goes at a time.
        let Some((range, others)) = self.left.split_first() else {
            return Ok((Vec::new(), Vec::new()));
        };
        let (bytes, taken) = (range.end - range.start, &mut self.taken);
        let installment = self.engine.config.installment;
        let several = plans.several((from, to), bytes, installment, taken, is_open);
        let (mut shares, first) = several?;
        for share in &mut shares {
            share.offset += range.start;
        }
        let rest = range.start + first..range.end;
        let rest = std::iter::once(rest).filter(|rest| !rest.is_empty());
        Ok((shares, rest.chain(others.iter().cloned()).collect()))
    }

    /// The legs of a way that lead to or from a device in error, and the error; the copy's own devices apart.
    fn broken(&self, way: &Way) -> Option<(Vec<Leg>, ErrorKind)> {
        let stops = way.stops.iter().flatten();
        let mut status = stops.map(|stop| (*stop, self.engine.ends.get(*stop)));
        status.find_map(|(stop, end)| {
            let kind = end.ok()?.device.status().err()?.kind;
            let legs = way.legs(self.src.device, self.dst.device).into_iter();
            let touches = |leg: &Leg| leg.from == Some(stop) || leg.to == Some(stop);
            Some((legs.filter(touches).collect(), kind))
        })
    }

    fn untrusted(&self, shares: &[Share]) -> Vec<Leg> {
        let legs = shares
            .iter()
            .flat_map(|share| share.way.legs(self.src.device, self.dst.device));
        let mut untrusted: Vec<Leg> = legs
            .filter(|leg| !self.engine.plans.is_trusted(*leg))
            .collect();
        untrusted.sort_unstable();
        untrusted.dedup();
        untrusted
    }

    /// A round is over: every lane of it has ended.
    pub(crate) fn settle(mut self: Box<Self>, parts: Vec<Part>, probes: Vec<Probe>) {
        let engine = Arc::clone(&self.engine);
        engine.plans.give_back(std::mem::take(&mut self.taken));
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
            // SAFETY: the promise of who asked for the copy holds until the gates open.
            if let Err((job, _)) = unsafe { self.advance() } {
                job.end(Verdict::Failed);
            }
        }
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

    /// Finds out why a part has not arrived; says whether another way may do.
    fn blame(&mut self, part: &Part) -> bool {
        match self.find_blame(part) {
            Blame::Leg(leg, reason) => self.engine.plans.give_up(leg, reason),
            // Host memory is what is left where nothing else works: it is tried again.
            Blame::Refused(leg) if leg.pair().is_some() => self.avoid.push(leg),
            Blame::Refused(_) => {}
            Blame::Hopeless => return false,
        }
        true
    }

    fn find_blame(&self, part: &Part) -> Blame {
        let own = [self.src.device, self.dst.device];
        let is_lost = |device: &DeviceId| {
            let end = self.engine.ends.get(*device);
            end.is_ok_and(|end| end.device.status().is_err())
        };
        if own.iter().any(is_lost) {
            return Blame::Hopeless;
        }
        for carrier in &part.carriers {
            let Some(failure) = carrier.lane.failure() else {
                continue;
            };
            if carrier.is_overdue() {
                let predicted_ns = part.share.predicted_ns;
                let deadline_ns = self.engine.deadline_ns(predicted_ns);
                let reason = Reason::Overdue {
                    predicted_ns,
                    deadline_ns,
                };
                return Blame::Leg(carrier.leg, reason);
            }
            let kind = failure.error.kind;
            if is_own_fault(kind) {
                return Blame::Hopeless;
            }
            if !is_inherited(kind) {
                return Blame::Leg(carrier.leg, Reason::Failed(kind));
            }
        }
        if let Some((leg, _)) = &part.refused {
            return Blame::Refused(*leg);
        }
        let legs = part.share.way.legs(self.src.device, self.dst.device);
        // Which of several legs did it nobody knows: one at a time is given up until all is well.
        let between = legs.iter().find(|leg| leg.pair().is_some());
        match (part.changed(), between.or(legs.first())) {
            (Some((wrong, bytes)), Some(leg)) => Blame::Leg(*leg, Reason::Changed { wrong, bytes }),
            // What the program's stream did before has failed.
            _ => Blame::Hopeless,
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
        if !self.gates.is_empty() {
            engine.unsettled.lock().push((self, verdict));
        }
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

/// Whether it failed for what was asked and not for the way it took.
fn is_own_fault(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownAddress { .. }
            | ErrorKind::InvalidSize { .. }
            | ErrorKind::Misaligned { .. }
            | ErrorKind::AlreadyMapped { .. }
    )
}
