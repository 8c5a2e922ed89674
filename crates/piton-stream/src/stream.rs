//! A stream: commands that run in order, and the numbers that say how far they are.

use crate::{
    Completion, Event, Facet, Offence, StreamError, StreamFailure, WhenFull, lane_state::LaneState,
    registry::Registry,
};
use piton_driver::{Device, ExecutableGraph, HardwareQueue, Priority, Queue, WaitOutcome};
use piton_sanitizer::{GraphFootprint, Sanitizer};
use piton_timeline::{Lane, LaneId, Timepoint};
use std::{fmt, panic::Location, sync::Arc, time::Instant};

/// An in-order sequence of commands on one device.
///
/// Commands of one stream run one after the other; those of two streams are not ordered unless one
/// [waits](Stream::wait) for the other. All methods may be called from any thread.
///
/// Dropping a stream never blocks: what was submitted still runs, and its events go on answering.
/// [`close`](Stream::close) waits first.
pub struct Stream {
    parts: Parts,
    capacity: u64,
}

pub(crate) struct Parts {
    pub(crate) registry: Arc<Registry>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) lane: Lane,
    pub(crate) state: Arc<LaneState>,
    pub(crate) when_full: WhenFull,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("lane", &self.id())
            .field("label", &self.label())
            .field("submitted", &self.queue().submitted())
            .field("completed", &self.queue().completed())
            .finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(parts: Parts) -> Self {
        let capacity = parts.queue.capacity();
        Self { parts, capacity }
    }

    /// The place after everything submitted so far; in a capture, where nothing is, the place before it. One load,
    /// of the queue's own count.
    #[inline]
    pub fn now(&self) -> Timepoint {
        self.lane().at(self.queue().submitted().get())
    }

    /// An event at the place after everything submitted so far. Submits nothing.
    ///
    /// Recording again makes another event; the first goes on meaning the place it was made at.
    pub fn record(&self) -> Event {
        let event = Event::new(Arc::clone(self.state()), self.now(), None);
        if self.is_capturing() {
            return event.with_capture(self.captured_place());
        }
        event
    }

    /// Blocks the calling thread until everything submitted before the call has ended.
    ///
    /// # Errors
    /// [`Poisoned`](StreamError::Poisoned) if a command failed;
    /// [`WouldDeadlock`](StreamError::WouldDeadlock) inside a host function of this stream;
    /// [`Driver`](StreamError::Driver) where the device is lost or knows of a deadlock;
    /// [`Capture`](StreamError::Capture) in a capture, which is spoilt then.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), StreamError> {
        self.not_in_capture(Offence::Synchronize, Location::caller())?;
        self.state().wait(self.now(), None).map(drop)
    }

    /// As [`synchronize`](Self::synchronize), no longer than until `deadline`.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    #[track_caller]
    pub fn synchronize_until(&self, deadline: Instant) -> Result<WaitOutcome, StreamError> {
        self.not_in_capture(Offence::Synchronize, Location::caller())?;
        self.state().wait(self.now(), Some(deadline))
    }

    /// A future that ends when everything submitted before the call has.
    #[track_caller]
    pub fn completion(&self) -> Completion {
        let refused = self.not_in_capture(Offence::Completion, Location::caller());
        Completion::new(Some(Arc::clone(self.state())), self.now()).unless(refused)
    }

    /// Whether everything submitted so far has ended. Does not block.
    ///
    /// # Errors
    /// [`Poisoned`](StreamError::Poisoned) if it has, and a command failed; [`Capture`](StreamError::Capture) in a
    /// capture.
    #[track_caller]
    pub fn query(&self) -> Result<bool, StreamError> {
        self.not_in_capture(Offence::Query, Location::caller())?;
        self.state().query(self.now())
    }

    /// Starts what was submitted, now. Without it work starts soon. Does not wait for it.
    ///
    /// # Errors
    /// [`Driver`](StreamError::Driver) where the device is lost.
    pub fn flush(&self) -> Result<(), StreamError> {
        Ok(self.queue().flush()?)
    }

    /// Waits for everything submitted, then drops the stream. On an error the stream is dropped too, and what
    /// is left of its work still runs.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    #[track_caller]
    pub fn close(self) -> Result<(), StreamError> {
        self.synchronize()
    }

    /// The first command that failed, once one has, until it is [cleared](Self::clear_error); none in a fork of the
    /// process, where asking might wait for a thread that is not there. Everything after it ends
    /// without running, unless the stream is to [continue](piton_driver::OnFailure::Continue).
    pub fn failure(&self) -> Option<Arc<StreamFailure>> {
        self.state().failure()
    }

    /// Whether a place of this stream tells of a failure, one that was [cleared](Self::clear_error) since among them. A
    /// place that has not ended tells of none yet, one of another stream and any in a fork of none. Does not block.
    pub fn has_failed_at(&self, point: Timepoint) -> bool {
        let state = self.state();
        state.id() == point.lane && state.not_forked().is_ok() && state.has_failed(point)
    }

    /// How many commands are submitted and have not ended.
    pub fn depth(&self) -> u64 {
        // In this order the difference is never too small: the counter read second only grows.
        let completed = self.queue().completed().get();
        self.queue().submitted().get().saturating_sub(completed)
    }

    /// How many more commands there is room for now, if nobody else submits. A device may take more or fewer
    /// where large arguments share its room.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.depth())
    }

    /// How many commands it holds.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What submitting calls do when there is no room.
    pub fn when_full(&self) -> WhenFull {
        self.parts.when_full
    }

    /// Its priority. Smaller is higher.
    pub fn priority(&self) -> Priority {
        self.queue().priority()
    }

    /// The hardware queue it is placed on.
    pub fn hardware_queue(&self) -> HardwareQueue {
        self.queue().hardware_queue()
    }

    /// Whether both are placed on the same hardware queue of the same device, so that their commands never run
    /// at the same time.
    pub fn shares_queue_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.device(), other.device())
            && self.hardware_queue() == other.hardware_queue()
    }

    /// Its lane on the runtime's timeline.
    pub fn id(&self) -> LaneId {
        self.lane().id()
    }

    /// Its name.
    pub fn label(&self) -> Option<&str> {
        self.state().label().map(|label| &**label)
    }

    /// The device it runs on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.parts.device
    }

    /// Tells the sanitizer, if there is one, what the nodes of a graph touch from its next replay on. For whoever makes
    /// executable graphs: without it a replay counts as touching nothing.
    pub fn tell_graph(&self, graph: &Arc<dyn ExecutableGraph>, footprint: &Arc<GraphFootprint>) {
        if let Some(witness) = self.registry().witness() {
            witness.graph(graph, footprint);
        }
    }

    /// The sanitizer that is told of everything, if the runtime has one.
    pub fn sanitizer(&self) -> Option<&Arc<Sanitizer>> {
        self.registry().witness().map(|witness| witness.sanitizer())
    }

    #[inline]
    pub(crate) fn lane(&self) -> &Lane {
        &self.parts.lane
    }

    #[inline]
    pub(crate) fn queue(&self) -> &dyn Queue {
        &*self.parts.queue
    }

    pub(crate) fn state(&self) -> &Arc<LaneState> {
        &self.parts.state
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    pub(crate) fn lacks(&self, facet: Facet) -> StreamError {
        StreamError::Unsupported {
            device: self.device().info().id,
            facet,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.lane().timeline().is_forked() {
            return;
        }
        if let Some(recording) = self.state().capture.get() {
            recording.dropped(self.id());
        }
        // The queue counts what the lane submits; the lane is told for good when there will be no more.
        self.lane().submit(self.queue().submitted().get());
        // Before the lane retires: a lane that has drained gives its queue up here.
        self.parts.registry.detach(&self.parts.state);
    }
}
