//! One stream waiting for another, on the device.
//!
//! # The idea
//! The timeline knows what a stream is ordered after already; only a wait that adds something becomes a command.
//! A wait that is left out must mean the same as one that is made, failures included: a point that is done
//! *and failed* still becomes a command, so that the device spreads the failure to the waiting stream.

#![expect(unsafe_code, reason = "submits commands that name no memory")]

use crate::{
    Event, Stream, StreamError, Submission, Waited,
    admission::{Admitting, Work},
    capture::CapturedPlace,
    lane_state::LaneState,
    link::Reach,
    submit::Door,
    witness::Submitted,
};
use piton_driver::{Command, Origin, Position, Queue};
use piton_timeline::Timepoint;
use std::{future::Future, mem, panic::Location, sync::Arc};

/// A wait for a place of a lane, to be left out, made, or written down in a capture.
pub(crate) struct WaitWork<'a, D> {
    state: &'a LaneState,
    point: Timepoint,
    captured: Option<&'a CapturedPlace>,
    door: D,
    /// The clock has just been asked, and did not know of an order.
    was_asked: bool,
}

impl<'a, D: Door> WaitWork<'a, D> {
    pub(crate) fn new(event: &'a Event, door: D) -> Self {
        Self {
            state: event.state(),
            point: event.timepoint(),
            captured: event.captured().map(|place| &**place),
            door,
            was_asked: false,
        }
    }

    /// Makes the wait for a place of a queue.
    #[inline]
    fn submit(
        &mut self,
        stream: &Stream,
        (queue, position): (&(dyn Queue + 'static), Position),
        origin: Origin,
    ) -> Result<Submission<Waited>, StreamError> {
        let point = self.point;
        let command = Command::WaitQueue {
            queue,
            position,
            inherits: true,
        };
        let taken = stream.put(Submitted::Wait(point), origin, || {
            // SAFETY: the command names no memory.
            unsafe { self.door.submit(&command, origin) }
        })?;
        Ok(taken.map(|at| stream.waited(point, at)))
    }

    /// As the rest of `offer`, where the queue must be asked under a lock.
    #[cold]
    fn reach(
        &mut self,
        stream: &Stream,
        origin: Origin,
    ) -> Result<Submission<Waited>, StreamError> {
        let (state, point) = (self.state, self.point);
        let position = state.position(point);
        match state.link().reach(position) {
            Reach::Wait(queue) => return self.submit(stream, (&*queue, position), origin),
            Reach::Ended => state.learn(point),
            // The lane drained and let its queue go: it is complete.
            Reach::Gone => state.outcome(point)?,
        }
        stream.tell_left_out(point);
        Ok(Submission::Accepted(Waited::Done))
    }
}

impl<'a, D: Door> WaitWork<'a, D> {
    /// A wait for a point outside all captures.
    fn of(state: &'a LaneState, point: Timepoint, door: D) -> Self {
        Self {
            state,
            point,
            captured: None,
            door,
            was_asked: false,
        }
    }
}

impl<D: Door> Work for WaitWork<'_, D> {
    type Output = Waited;

    // Inlined with `submit`: a result that is written in one function and moved by the next costs more than the wait.
    #[inline]
    fn offer(
        &mut self,
        stream: &Stream,
        origin: Origin,
    ) -> Result<Submission<Waited>, StreamError> {
        let (state, point) = (self.state, self.point);
        stream.owns(state, point)?;
        if let Some(place) = self.captured {
            let waited = stream.wait_captured(place, origin);
            return waited.map(Submission::Accepted);
        }
        if let Some(recording) = stream.state().capture.get() {
            let has_ended_well = state.query(point) == Ok(true);
            let waited = stream.wait_outside(&recording, has_ended_well, point, origin);
            return waited.map(Submission::Accepted);
        }
        if !mem::take(&mut self.was_asked)
            && let Some(waited) = stream.known_of(state, point)
        {
            stream.tell_left_out(point);
            return Ok(Submission::Accepted(waited));
        }
        state.not_forked()?;
        let position = state.position(point);
        match state.link().visit(position) {
            Some(queue) => self.submit(stream, (&**queue, position), origin),
            None => self.reach(stream, origin),
        }
    }
}

impl Stream {
    /// Later commands of this stream start when the event is reached. Holds no host thread.
    ///
    /// If the event's work fails, this stream fails in its turn.
    ///
    /// # Errors
    /// [`ForeignEvent`](StreamError::ForeignEvent) for an event of another runtime;
    /// [`Poisoned`](StreamError::Poisoned) if the event's work failed and its stream is gone, so that no device
    /// is left to spread the failure: then nothing was submitted; otherwise as every submission. In a capture
    /// [`Capture`](StreamError::Capture), for an event outside that has not ended well or one of another capture.
    #[track_caller]
    pub fn wait(&self, event: &Event) -> Result<Waited, StreamError> {
        if let Some(waited) = self.known_of_event(event) {
            self.tell_left_out(event.timepoint());
            return Ok(waited);
        }
        let mut work = self.wait_work(event);
        work.was_asked = true;
        self.admit(work, Location::caller())
    }

    /// As [`wait`](Self::wait), and never blocks.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn try_wait(&self, event: &Event) -> Result<Submission<Waited>, StreamError> {
        self.wait_work(event).offer(self, Location::caller())
    }

    /// As [`wait`](Self::wait), as a future that waits for room, not for the event.
    #[track_caller]
    pub fn wait_async<'a>(
        &'a self,
        event: &'a Event,
    ) -> impl Future<Output = Result<Waited, StreamError>> + Send + 'a {
        Admitting::new(self, self.wait_work(event), Location::caller())
    }

    fn wait_work<'a>(&'a self, event: &'a Event) -> WaitWork<'a, &'a dyn Queue> {
        WaitWork::new(event, self.queue())
    }

    /// Later commands of this stream start when everything up to the point has ended; see
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// [`UnknownTimepoint`](StreamError::UnknownTimepoint) for a point that no stream of this runtime has
    /// submitted; otherwise as [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timepoint(&self, point: Timepoint) -> Result<Waited, StreamError> {
        self.wait_point(point, Location::caller())
    }

    /// The place of an event, for [`submit_behind`](Self::submit_behind).
    ///
    /// # Errors
    /// [`ForeignEvent`](StreamError::ForeignEvent) for an event of another runtime, whose places mean others here.
    pub fn place_of(&self, event: &Event) -> Result<Timepoint, StreamError> {
        let point = event.timepoint();
        self.owns(event.state(), point).map(|()| point)
    }

    fn owns(&self, state: &LaneState, point: Timepoint) -> Result<(), StreamError> {
        if Arc::ptr_eq(state.timeline(), self.registry().timeline()) {
            return Ok(());
        }
        Err(StreamError::ForeignEvent { point })
    }

    /// Offers a wait for a point once. Never blocks.
    pub(crate) fn offer_wait(
        &self,
        point: Timepoint,
        origin: Origin,
    ) -> Result<Submission<Waited>, StreamError> {
        let Some(state) = self.registry().resolve(point)? else {
            self.tell_left_out(point);
            return Ok(Submission::Accepted(Waited::Done));
        };
        WaitWork::of(&state, point, self.queue()).offer(self, origin)
    }

    pub(crate) fn wait_point(
        &self,
        point: Timepoint,
        origin: Origin,
    ) -> Result<Waited, StreamError> {
        if let Some(waited) = self.known(point) {
            self.tell_left_out(point);
            return Ok(waited);
        }
        let Some(state) = self.registry().resolve(point)? else {
            self.tell_left_out(point);
            return Ok(Waited::Done);
        };
        self.admit(WaitWork::of(&state, point, self.queue()), origin)
    }

    /// What is known of a wait for an event before it is work: no more than a few loads, and nothing to move.
    #[inline]
    fn known_of_event(&self, event: &Event) -> Option<Waited> {
        let is_captured = event.captured().is_some() || self.state().capture.is_on();
        if is_captured || self.owns(event.state(), event.timepoint()).is_err() {
            return None;
        }
        self.known_of(event.state(), event.timepoint())
    }

    /// Whether the clock or a known end says that no wait is needed. No lock.
    #[inline(always)]
    pub(crate) fn known_of(&self, state: &LaneState, point: Timepoint) -> Option<Waited> {
        if state.link().has_completed(state.position(point)) {
            let is_well = state.id() == self.id() || !state.has_failed(point);
            return is_well.then_some(Waited::Done);
        }
        let is_ordered = self.lane().is_ordered_after(point);
        is_ordered.then_some(Waited::Ordered)
    }

    /// What is known of a wait for a point without looking up whose it is, and without a lock.
    pub(crate) fn known(&self, point: Timepoint) -> Option<Waited> {
        if self.state().capture.is_on() {
            return None;
        }
        if self.registry().has_ended_well(point) {
            return Some(Waited::Done);
        }
        // What has ended and failed is left to `WaitWork`, and so is a point of its own, which may not be one yet.
        let is_pending = !self.registry().timeline().is_known_complete(point);
        let is_ordered = point.lane != self.id() && self.lane().is_ordered_after(point);
        (is_pending && is_ordered).then_some(Waited::Ordered)
    }

    /// A wait is left out. That it was asked for is the program's doing; that it could be, partly the schedule's.
    #[inline]
    pub(crate) fn tell_left_out(&self, point: Timepoint) {
        if let Some(witness) = self.registry().witness()
            && !self.lane().timeline().is_forked()
        {
            witness.left_out(self.id(), point);
        }
    }

    /// Tells the timeline of a wait that was accepted at `at`. Only now: a clock that knew of it before would
    /// let another thread leave out a wait that is not there yet.
    pub(crate) fn waited(&self, point: Timepoint, at: Timepoint) -> Waited {
        let after = Timepoint {
            seq: at.seq.saturating_sub(1),
            ..at
        };
        self.lane().note_wait(point, after);
        Waited::Enqueued(at)
    }

    /// As [`waited`](Self::waited), of waits that were accepted together, the last of them at `last`.
    pub(crate) fn waited_for_all(&self, points: &[Timepoint], last: Timepoint) {
        for (back, point) in (0..).zip(points.iter().rev()) {
            let seq = last.seq.saturating_sub(back);
            self.waited(*point, Timepoint { seq, ..last });
        }
    }
}
