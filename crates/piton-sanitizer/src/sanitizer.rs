//! The sanitizer: what a runtime tells it, and what it has found.

use crate::{
    Author, Awaits, Effect, FunctionId, GraphFootprint, Listener, Report, Response,
    SanitizerConfig, SignalId, Space,
    clock::Clock,
    lane::Step,
    ledger::Ledger,
    replay::Replay,
    shadow::{Ended, Tenancy},
};
use piton_driver::{DevicePtr, DeviceRange, Operation, Origin, shield};
use piton_sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use piton_timeline::{Frontier, LaneId, Timepoint};
use std::{fmt, ptr::NonNull, sync::Arc};

#[derive(Debug)]
struct State {
    replay: Replay,
    ledger: Ledger,
}

/// What a sanitizer has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pairs without an order, those that met again at the same two places included.
    pub met: u64,
    /// Reports that were not kept, since [`most_reports`](SanitizerConfig::most_reports) were.
    pub not_kept: u64,
    /// Commands not looked at yet: before them comes a wait whose signal is not given, or a host function that has
    /// not returned.
    pub put_by: usize,
    /// Waits for a semaphore that ended by a signal nobody told of: of another process, or past this runtime. What
    /// came before such a signal is not known, and what relies on it is reported.
    pub unseen_signals: u64,
    /// Runs of bytes told apart, clocks of lanes, signals and written words: what the books hold now.
    pub held: usize,
    /// Buffers of launches of which neither the launch nor an allocation says how far they reach. Not looked at.
    pub unknown_extents: u64,
}

/// Memory that is handed out to a program.
#[derive(Clone, Copy, Debug)]
pub struct HandOut {
    /// Whose memory.
    pub space: Space,
    /// Which bytes.
    pub range: DeviceRange,
    /// The place of the stream it is handed out to: uses come after it. `None` for memory that was out of use
    /// altogether, and is anyone's.
    pub point: Option<Timepoint>,
    /// Where in the program.
    pub origin: Option<Origin>,
}

/// Finds accesses to memory that no order ties together. See the crate's page.
///
/// All methods may be called from any thread. They take one lock for a time that grows with the number of commands
/// that used the same bytes since the host last waited for them.
pub struct Sanitizer {
    state: Mutex<State>,
    config: SanitizerConfig,
    /// Signals and functions, numbered together.
    numbered: AtomicU64,
}

impl fmt::Debug for Sanitizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sanitizer")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Sanitizer {
    /// A sanitizer that knows of nothing.
    pub fn new(config: SanitizerConfig) -> Self {
        Self {
            state: Mutex::new(State {
                replay: Replay::default(),
                ledger: Ledger::new(config.most_reports),
            }),
            config,
            numbered: AtomicU64::new(0),
        }
    }

    /// How it behaves.
    pub fn config(&self) -> &SanitizerConfig {
        &self.config
    }

    /// What was found so far, each pair of places once.
    pub fn reports(&self) -> Vec<Report> {
        self.state.lock().ledger.reports().to_vec()
    }

    /// As [`reports`](Self::reports), and forgets them.
    pub fn take_reports(&self) -> Vec<Report> {
        self.state.lock().ledger.take()
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let state = self.state.lock();
        Counts {
            met: state.ledger.met(),
            not_kept: state.ledger.beyond(),
            put_by: state.replay.ahead(),
            held: state.replay.size(),
            unseen_signals: state.replay.unseen_signals,
            unknown_extents: state.replay.unknown_extents,
        }
    }

    /// A lane begins behind `base`, with this name.
    pub fn open(&self, base: Timepoint, label: Option<Arc<str>>) {
        self.state.lock().replay.open(base, label);
    }

    /// Nothing more will be submitted on the lane.
    pub fn retire(&self, lane: LaneId) {
        self.state.lock().replay.retire(lane);
    }

    /// A command is about to be offered to the queue of a lane whose last command stands at `last`. Say with
    /// [`Attempt::accepted`] where it was taken; drop the attempt if it was not.
    ///
    /// Holds the sanitizer's lock until then, so that commands are looked at in the order in which they were taken:
    /// what lies between must not block.
    ///
    /// # Errors
    /// The first [`Report`] about it, if the configuration says [`Response::Refuse`]. A command of a lane that waits
    /// for something nobody has submitted yet cannot be judged now, and is let pass.
    pub fn attempt(
        &self,
        by: Author,
        last: Timepoint,
        command: (Operation, Effect),
        origin: Origin,
    ) -> Result<Attempt<'_>, Box<Report>> {
        self.attempt_behind(by, last, Awaits::default(), command, origin)
    }

    /// As [`attempt`](Self::attempt), of a command that the lane is to come behind places of other lanes for: nothing is
    /// known of those either if the command was not taken.
    ///
    /// # Errors
    /// As [`attempt`](Self::attempt).
    pub fn attempt_behind<'a>(
        &'a self,
        by: Author,
        last: Timepoint,
        awaits: Awaits<'a>,
        command: (Operation, Effect),
        origin: Origin,
    ) -> Result<Attempt<'a>, Box<Report>> {
        let (operation, effect) = command;
        let step = Step {
            effect,
            operation,
            origin,
        };
        let mut state = self.state.lock();
        if self.config.response == Response::Refuse {
            let waits = awaits.submitted.len() as u64;
            let seq = last.seq.saturating_add(waits).saturating_add(1);
            let at = Timepoint { seq, ..last };
            let met = state.replay.probe(by, at, awaits, &step);
            if let Some(first) = met.first().cloned() {
                state.replay.met.extend(met);
                self.finish(state);
                return Err(Box::new(first));
            }
        }
        Ok(Attempt {
            sanitizer: self,
            state,
            by,
            awaits,
            step,
        })
    }

    /// A lane was made to come after a place by a wait that needed no command.
    pub fn wait_left_out(&self, by: Author, lane: LaneId, point: Timepoint) {
        self.tell(|replay| replay.leave_out_wait(by, lane, point));
    }

    /// The author learnt that everything up to the point has ended: it waited for it, or asked.
    pub fn saw(&self, by: Author, point: Timepoint) {
        self.tell(|replay| replay.saw(by, point));
    }

    /// A counter at `value`, where whoever uses it comes after whoever made it so.
    pub fn signal(&self, value: u64) -> SignalId {
        let id = SignalId(self.numbered.fetch_add(1, Ordering::Relaxed));
        self.tell(|replay| replay.add_signal(id, value));
        id
    }

    /// A graph is about to run for the first time, or for the first time as it is now: its nodes are compared with
    /// each other. What they touch is told with each run, as [`Effect::Runs`].
    pub fn graph(&self, graph: &GraphFootprint) {
        self.tell(|replay| replay.compare_nodes(graph));
    }

    /// The counter is gone.
    pub fn drop_signal(&self, id: SignalId) {
        self.tell(|replay| replay.drop_signal(id));
    }

    /// The author is about to raise a counter.
    pub fn give(&self, by: Author, id: SignalId, value: u64) {
        self.tell(|replay| replay.signal(by, id, value));
    }

    /// The author read a counter, and it was at `value`.
    pub fn read(&self, by: Author, id: SignalId, value: u64) {
        self.tell(|replay| replay.read_signal(by, id, value));
    }

    /// A host function that is about to be submitted as [`Effect::Calls`].
    pub fn function(&self) -> FunctionId {
        FunctionId(self.numbered.fetch_add(1, Ordering::Relaxed))
    }

    /// The function's turn has come: what it does from now on is [`Author::Function`]'s.
    pub fn start(&self, id: FunctionId) {
        self.tell(|replay| replay.start(id));
    }

    /// The function has returned, or was dropped without being called.
    pub fn end(&self, id: FunctionId) {
        self.tell(|replay| replay.end(id));
    }

    /// Remembers what the author comes after, to be [followed](Self::follow) by somebody who comes after the author
    /// in a way that nobody sees here: through a channel, say, from a host function to a thread.
    pub fn mark(&self, by: Author) -> Mark {
        Mark(self.state.lock().replay.author(by))
    }

    /// The author comes after a mark.
    pub fn follow(&self, by: Author, mark: &Mark) {
        self.tell(|replay| replay.teach(by, &mark.0));
    }

    /// Memory is handed out. Whatever used it before is nobody's concern any more: that it may be handed out is the
    /// word of the pool, which may know work to have ended.
    pub fn hand_out(&self, by: Author, memory: &HandOut) {
        let tenancy = Tenancy {
            space: memory.space,
            range: memory.range,
            point: memory.point,
            label: None,
            origin: memory.origin,
        };
        self.tell(|replay| replay.hand_out(by, tenancy));
    }

    /// Memory is given back, with its last uses, or without where they were not kept: then they are not checked.
    pub fn take_back(
        &self,
        by: Author,
        space: Space,
        range: DeviceRange,
        last_uses: Option<&Frontier>,
    ) {
        let ended = Ended {
            space,
            range,
            last_uses: last_uses.map(|uses| uses.points().to_vec()),
            origin: None,
        };
        self.tell(|replay| replay.take_back(replay.author(by), ended));
    }

    /// Memory goes back to where it came from: what lies at these addresses is unknown.
    pub fn forget(&self, space: Space, range: DeviceRange) {
        self.tell(|replay| replay.forget(space, range));
    }

    /// Page-locked memory is handed out: what used it before is over, and is nobody's concern any more. Nobody says
    /// when it is given back, as its addresses may be any program's next.
    pub fn forget_host(&self, start: NonNull<u8>, bytes: u64) {
        let start = DevicePtr::new(start.addr().get() as u64);
        self.forget(Space::Host, DeviceRange { start, bytes });
    }

    /// Forgets what everything to come is ordered after: what the host has waited for. Comes by itself from time to
    /// time; does nothing while commands are put by or a host function has not returned.
    pub fn settle(&self) {
        self.tell(Replay::settle);
    }

    /// Asserts the invariants of the books. For tests.
    ///
    /// # Panics
    /// Where one does not hold.
    pub fn check(&self) {
        self.state.lock().replay.check();
    }

    fn tell(&self, news: impl FnOnce(&mut Replay)) {
        let mut state = self.state.lock();
        news(&mut state.replay);
        self.finish(state);
    }

    /// Takes in what was found, lets the lock go and tells the listener.
    fn finish(&self, mut guard: MutexGuard<'_, State>) {
        let state = &mut *guard;
        state.replay.tidy();
        let mut met = std::mem::take(&mut state.replay.met);
        met.retain(|report| state.ledger.add(report));
        drop(guard);
        if let Some(listener) = &self.config.listener {
            met.iter().for_each(|report| tell(listener, report));
        }
    }
}

/// Calls a listener. Its panic ends here: who tells of a command that was taken has yet to note what the command uses.
fn tell(listener: &Listener, report: &Report) {
    let _returned = shield::run(|| listener(report));
}

/// What somebody came after at some time; see [`Sanitizer::mark`].
#[derive(Clone, Debug)]
pub struct Mark(Arc<Clock>);

/// A command on its way to a queue; see [`Sanitizer::attempt`].
#[must_use = "a command that was accepted and not told of is not looked at"]
pub struct Attempt<'a> {
    sanitizer: &'a Sanitizer,
    state: MutexGuard<'a, State>,
    by: Author,
    awaits: Awaits<'a>,
    step: Step,
}

impl Attempt<'_> {
    /// The command was taken, at this place, and the waits submitted with it right before.
    pub fn accepted(self, at: Timepoint) {
        let Self {
            sanitizer,
            mut state,
            by,
            awaits,
            step,
        } = self;
        state.replay.submit_waits(by, at, awaits, step.origin);
        state.replay.submit(by, at, step);
        sanitizer.finish(state);
    }
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("by", &self.by)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}
