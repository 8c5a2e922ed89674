//! Which streams' host functions run on this thread, so that none of them waits for itself.
//!
//! A backend may run a host function on a thread that is itself inside one, while that one waits for another
//! stream: so the marks are a stack, and a wait for any stream on it is refused.

use crate::{
    Facet, Offence, Stream, StreamError, Submission,
    admission::{Admitting, Work},
    lane_state::LaneState,
    witness::{Call, Submitted, Witness},
};
use piton_driver::{HostFunction, NodeWork, Origin, RepeatedHostFunction};
use piton_sanitizer::FunctionId;
use piton_sync::Mutex;
use piton_timeline::Timepoint;
use std::{
    cell::RefCell,
    future::Future,
    panic::Location,
    sync::{Arc, Weak},
};

thread_local! {
    // GLOBAL: a host function is called by the backend, which hands nothing on that could carry the mark; it
    // belongs to the thread and is empty whenever no host function runs.
    /// Weak: a function that never runs must not keep its stream's queue, which keeps the function.
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

struct Running {
    lane: Weak<LaneState>,
    /// What the sanitizer knows it by, if there is one.
    call: Option<Call>,
}

/// Takes the mark away even if the function panics.
struct Mark;

impl Mark {
    fn set(lane: Weak<LaneState>, call: Option<Call>) -> Self {
        RUNNING.with_borrow_mut(|running| running.push(Running { lane, call }));
        Self
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let running = RUNNING.with_borrow_mut(Vec::pop);
        // Under no borrow: this may be the last trace of the lane.
        drop(running);
    }
}

/// Whether a host function of the lane runs on this thread.
pub(crate) fn is_running(lane: &Arc<LaneState>) -> bool {
    RUNNING.with_borrow(|running| {
        running
            .iter()
            .any(|mark| mark.lane.as_ptr() == Arc::as_ptr(lane))
    })
}

/// The innermost host function on this thread, if it is one that the witness was told of.
pub(crate) fn running_for(witness: &Witness) -> Option<FunctionId> {
    RUNNING.with_borrow(|running| {
        let innermost = running.last()?.call.as_ref()?;
        innermost.id_for(witness)
    })
}

/// The streams a graph has been replayed on, so that its host functions do not wait on the host for one of them.
///
/// Kept by whoever replays; clones are the same list. A stream stays on it until it is gone: a host function of the
/// graph is refused such a wait even where another stream's replay runs it.
#[derive(Clone, Debug, Default)]
pub struct ReplayStreams(Arc<Mutex<Vec<Weak<LaneState>>>>);

impl ReplayStreams {
    /// A replay is about to be submitted to this stream.
    pub fn note(&self, stream: &Stream) {
        if stream.state().not_forked().is_err() {
            return;
        }
        let mut lanes = self.0.lock();
        let is_it = |lane: &Weak<LaneState>| lane.as_ptr() == Arc::as_ptr(stream.state());
        if !lanes.iter().any(is_it) {
            lanes.retain(|lane| lane.strong_count() > 0);
            lanes.push(Arc::downgrade(stream.state()));
        }
    }

    fn marks(&self) -> Vec<Mark> {
        let lanes = self.0.lock();
        let marks = lanes.iter().map(|lane| Mark::set(Weak::clone(lane), None));
        marks.collect()
    }

    /// The function, refusing waits for streams on the list while it runs.
    pub fn marked(&self, function: RepeatedHostFunction) -> RepeatedHostFunction {
        let lanes = self.clone();
        Arc::new(move || {
            let running = lanes.marks();
            function();
            drop(running);
        })
    }
}

/// The function, marking the thread while it runs.
fn marked(
    lane: &Arc<LaneState>,
    call: Option<Call>,
    function: impl FnOnce() + Send + 'static,
) -> HostFunction {
    let lane = Arc::downgrade(lane);
    Box::new(move || {
        if let Some(call) = &call {
            call.start();
        }
        let _mark = Mark::set(lane, call);
        function();
    })
}

impl Stream {
    /// Runs a function on the host when everything submitted before has ended; later commands wait for its
    /// return.
    ///
    /// The function runs on a thread of the backend, under no lock. It may submit to any stream. Waiting on
    /// the host for its own stream is refused with [`WouldDeadlock`](StreamError::WouldDeadlock): in
    /// [`synchronize`](Stream::synchronize), in [`Event::synchronize`](crate::Event::synchronize), and in a submission that
    /// would have to park. If it panics, the command fails and poisons the stream. After a failure of the stream it
    /// is dropped without being called.
    ///
    /// # Errors
    /// [`Unsupported`](StreamError::Unsupported) where the device runs no host functions;
    /// [`Capture`](StreamError::Capture) in a capture, as the function works once; otherwise as every submission.
    #[track_caller]
    pub fn call_host(
        &self,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<Timepoint, StreamError> {
        self.admit(self.call_work(function), Location::caller())
    }

    /// As [`call_host`](Self::call_host), and never blocks. The function is taken when the answer is
    /// [`Submission::Accepted`], and left where it is otherwise. Without one nothing is submitted, and the answer is the
    /// stream's present place.
    ///
    /// # Errors
    /// As [`call_host`](Self::call_host), without the two about room; the function is left too.
    #[track_caller]
    pub fn try_call_host<F: FnOnce() + Send + 'static>(
        &self,
        function: &mut Option<F>,
    ) -> Result<Submission, StreamError> {
        if function.is_none() {
            return Ok(Submission::Accepted(self.now()));
        }
        // The queue is offered a box, and a box does not give back what is inside.
        let shared = Arc::new(Mutex::new(function.take()));
        let taken = Arc::clone(&shared);
        let mut work = self.call_work(move || {
            let function = taken.lock().take();
            if let Some(function) = function {
                function();
            }
        });
        let answer = work.offer(self, Location::caller());
        if !matches!(answer, Ok(Submission::Accepted(_))) {
            *function = shared.lock().take();
        }
        answer
    }

    /// As [`call_host`](Self::call_host), as a future that waits for room and ends when the call is accepted.
    #[track_caller]
    pub fn call_host_async(
        &self,
        function: impl FnOnce() + Send + 'static,
    ) -> impl Future<Output = Result<Timepoint, StreamError>> + Send + '_ {
        Admitting::new(self, self.call_work(function), Location::caller())
    }

    /// As [`call_host`](Self::call_host), with a function that a replay of a captured graph calls again each time.
    ///
    /// # Errors
    /// As [`call_host`](Self::call_host).
    #[track_caller]
    pub fn call_host_each_time(
        &self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<Timepoint, StreamError> {
        let origin = Location::caller();
        if let Some(recording) = self.state().capture.get() {
            if self.device().host_functions().is_none() {
                return Err(self.lacks(Facet::HostFunctions));
            }
            let work = NodeWork::CallHost(Arc::new(function));
            return self.capture_work(&recording, work, origin);
        }
        self.admit(self.call_work(function).that_replays(), origin)
    }

    fn call_work(&self, function: impl FnOnce() + Send + 'static) -> CallWork {
        let call = self.registry().witness().map(Call::new);
        CallWork {
            id: call.as_ref().map(Call::id),
            function: Some(marked(self.state(), call, function)),
            works_once: true,
        }
    }
}

/// A host function to be submitted.
struct CallWork {
    /// Its number at the sanitizer, if there is one.
    id: Option<FunctionId>,
    /// Taken with the command.
    function: Option<HostFunction>,
    works_once: bool,
}

impl CallWork {
    /// The same, of a function that a capture would have recorded.
    fn that_replays(self) -> Self {
        Self {
            works_once: false,
            ..self
        }
    }
}

impl Work for CallWork {
    type Output = Timepoint;

    fn offer(&mut self, stream: &Stream, origin: Origin) -> Result<Submission, StreamError> {
        if self.works_once {
            stream.not_in_capture(Offence::HostFunctionOnce, origin)?;
        }
        let Some(facet) = stream.device().host_functions() else {
            return Err(stream.lacks(Facet::HostFunctions));
        };
        stream.put(Submitted::Call(self.id), origin, || {
            facet.call(stream.queue(), &mut self.function, origin)
        })
    }
}
