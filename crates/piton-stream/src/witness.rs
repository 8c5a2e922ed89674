//! What a sanitizer is told of streams: commands, waits, and what the host learns.
//!
//! # The idea
//! A runtime with a sanitizer has one witness. Every submission passes `Stream::put`, which asks it before
//! the command is offered and tells it where the command was taken; waits that need no command and answers of "it
//! has ended" are told where they are given. Without a sanitizer each of these is one branch.
//!
//! What a thread learns by waiting for *room* is not told: how full a queue was is the schedule's doing.

use crate::{Stream, StreamError, host_function, registry::Registry};
use piton_driver::{Command, ExecutableGraph, Operation, Origin, Semaphore};
use piton_sanitizer::{
    Attempt, Author, Awaits, Effect, FunctionId, GraphFootprint, Sanitizer, SignalId,
};
use piton_sync::Mutex;
use piton_timeline::{LaneId, Timeline, Timepoint};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// A semaphore that streams have used. Weak: its address names it for as long as this is held.
#[derive(Debug)]
struct Known {
    semaphore: Weak<dyn Semaphore>,
    id: SignalId,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Witness {
    sanitizer: Arc<Sanitizer>,
    timeline: Arc<Timeline>,
    /// By address.
    semaphores: Mutex<BTreeMap<usize, Known>>,
    /// By address; what their nodes touch.
    graphs: Mutex<BTreeMap<usize, KnownGraph>>,
}

/// A graph that may be replayed. Weak, as `Known`.
#[derive(Debug)]
struct KnownGraph {
    graph: Weak<dyn ExecutableGraph>,
    footprint: Arc<GraphFootprint>,
}

/// What is about to be submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Submitted<'a> {
    Command(&'a Command<'a>),
    /// A wait for a lane whose point is known.
    Wait(Timepoint),
    /// A host function; without a number where there is no sanitizer.
    Call(Option<FunctionId>),
}

impl Witness {
    pub(crate) fn new(sanitizer: Arc<Sanitizer>, timeline: Arc<Timeline>) -> Self {
        Self {
            sanitizer,
            timeline,
            semaphores: Mutex::new(BTreeMap::new()),
            graphs: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn sanitizer(&self) -> &Arc<Sanitizer> {
        &self.sanitizer
    }

    /// Whether this process is a fork: then nothing is told, since the sanitizer's lock may be held for ever.
    pub(crate) fn is_forked(&self) -> bool {
        self.timeline.is_forked()
    }

    /// On whose behalf this thread acts.
    pub(crate) fn author(&self) -> Author {
        match host_function::running_for(self) {
            Some(id) => Author::Function(id),
            None => Author::Host,
        }
    }

    /// Asks whether a command may be submitted. The attempt holds the sanitizer's lock, so nothing between this and
    /// its end blocks.
    pub(crate) fn attempt<'a>(
        &'a self,
        stream: &Stream,
        awaits: Awaits<'a>,
        submitted: Submitted<'_>,
        origin: Origin,
    ) -> Result<Attempt<'a>, StreamError> {
        let command = match submitted {
            Submitted::Command(command) => (
                command.operation(),
                self.effect(stream.registry(), command, stream),
            ),
            Submitted::Wait(point) => (Operation::WaitQueue, Effect::Waits(point)),
            Submitted::Call(id) => (
                Operation::CallHost,
                id.map_or(Effect::Nothing, Effect::Calls),
            ),
        };
        let attempt =
            self.sanitizer
                .attempt_behind(self.author(), stream.now(), awaits, command, origin);
        attempt.map_err(|report| StreamError::Hazard(Arc::new(*report)))
    }

    /// A lane comes after a point by a wait that needed no command.
    pub(crate) fn left_out(&self, lane: LaneId, point: Timepoint) {
        self.sanitizer.wait_left_out(self.author(), lane, point);
    }

    /// This thread learnt that the point has ended.
    pub(crate) fn saw(&self, point: Timepoint) {
        self.sanitizer.saw(self.author(), point);
    }

    /// The host is about to signal a semaphore.
    pub(crate) fn signals(&self, semaphore: &Arc<dyn Semaphore>, value: u64) {
        let id = self.semaphore(semaphore);
        self.sanitizer.give(self.author(), id, value);
    }

    /// The host has read a semaphore.
    pub(crate) fn read(&self, semaphore: &Arc<dyn Semaphore>, value: u64) {
        let id = self.semaphore(semaphore);
        self.sanitizer.read(self.author(), id, value);
    }

    /// The sanitizer's number of a semaphore. One that is new here has its value from the host, or from outside.
    pub(crate) fn semaphore(&self, semaphore: &Arc<dyn Semaphore>) -> SignalId {
        let address = Arc::as_ptr(semaphore).cast::<()>().addr();
        let mut known = self.semaphores.lock();
        if let Some(found) = known.get(&address) {
            return found.id;
        }
        known.retain(|_, known| {
            let is_alive = known.semaphore.strong_count() > 0;
            if !is_alive {
                self.sanitizer.drop_signal(known.id);
            }
            is_alive
        });
        let id = self.sanitizer.signal(semaphore.value());
        let semaphore = Arc::downgrade(semaphore);
        known.insert(address, Known { semaphore, id });
        id
    }

    /// What the nodes of a graph touch, from its next replay on.
    pub(crate) fn graph(&self, graph: &Arc<dyn ExecutableGraph>, footprint: &Arc<GraphFootprint>) {
        // The sanitizer may call a listener, which may replay graphs: the lock is not held then.
        if !self.is_forked() && self.learn_graph(graph, footprint) {
            self.sanitizer.graph(footprint);
        }
    }

    /// Remembers what the nodes of a graph touch. Whether that is news.
    fn learn_graph(
        &self,
        graph: &Arc<dyn ExecutableGraph>,
        footprint: &Arc<GraphFootprint>,
    ) -> bool {
        let address = Arc::as_ptr(graph).cast::<()>().addr();
        let mut graphs = self.graphs.lock();
        if let Some(known) = graphs.get_mut(&address) {
            let is_news = !Arc::ptr_eq(&known.footprint, footprint);
            known.footprint = Arc::clone(footprint);
            return is_news;
        }
        graphs.retain(|_, known| known.graph.strong_count() > 0);
        let known = KnownGraph {
            graph: Arc::downgrade(graph),
            footprint: Arc::clone(footprint),
        };
        graphs.insert(address, known);
        true
    }

    fn effect(&self, registry: &Registry, command: &Command<'_>, stream: &Stream) -> Effect {
        match *command {
            Command::WaitQueue {
                queue, position, ..
            } => {
                let lane = registry.lane_of(queue.id());
                lane.map_or(Effect::Nothing, |lane| Effect::Waits(lane.point(position)))
            }
            Command::WaitSemaphore { semaphore, value } => {
                Effect::WaitsForSignal(self.semaphore(semaphore), value)
            }
            Command::SignalSemaphore { semaphore, value } => {
                Effect::Signals(self.semaphore(semaphore), value)
            }
            Command::RunGraph { graph } => {
                let address = Arc::as_ptr(graph).cast::<()>().addr();
                let footprint = self
                    .graphs
                    .lock()
                    .get(&address)
                    .map(|it| Arc::clone(&it.footprint));
                footprint.map_or(Effect::Nothing, Effect::Runs)
            }
            _ => Effect::of(command, stream.state().device()),
        }
    }
}

/// A host function from its submission until it has returned or was dropped.
#[derive(Debug)]
pub(crate) struct Call {
    witness: Arc<Witness>,
    id: FunctionId,
}

impl Call {
    pub(crate) fn new(witness: &Arc<Witness>) -> Self {
        Self {
            witness: Arc::clone(witness),
            id: witness.sanitizer.function(),
        }
    }

    pub(crate) fn id(&self) -> FunctionId {
        self.id
    }

    /// Its turn has come.
    pub(crate) fn start(&self) {
        self.witness.sanitizer.start(self.id);
    }

    /// Which function it is, to this witness.
    pub(crate) fn id_for(&self, witness: &Witness) -> Option<FunctionId> {
        std::ptr::eq(&raw const *self.witness, witness).then_some(self.id)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.witness.is_forked() {
            return;
        }
        self.witness.sanitizer.end(self.id);
    }
}
