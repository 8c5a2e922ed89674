//! What ends commands in flight, and shows it.
//!
//! # Protocol
//! [`retire`](Core::retire) looks at the events of what is in flight, oldest first, and stores the counter with Release.
//! Before that it waits for the last event it found complete, which returns at once and makes the device's writes visible:
//! a look at an event's status alone need not (OpenCL 3.0, `clGetEventInfo`, is no point of synchronisation). Whoever has
//! slept on an event itself ([`retire_seen`](Core::retire_seen)) has done both, and neither is done again.
//!
//! A wait for another queue ends only when that queue's counter is there, whatever its own event says: drivers end what
//! depends on a failed command at once.

use super::{
    Core,
    pump::Fired,
    state::{Awaited, Flight, Shows, State},
};
use crate::backend::{NativeDevice, NativeEvent, Progress, VendorStatus};
use piton_driver::{DriverError, ErrorKind, Position};
use piton_sync::atomic::Ordering;
use std::sync::Arc;

impl<D: NativeDevice> Awaited<D> {
    pub(super) fn has_ended(&self) -> bool {
        self.queue.completed.load(Ordering::Acquire) >= self.position
    }

    /// The failure that whoever waits so inherits, as far as it is known now.
    pub(super) fn failure(&self) -> Option<ErrorKind> {
        let is_spoilt = self.inherits && self.queue.verdict.lock().spoils(self.position);
        is_spoilt.then(|| ErrorKind::DependencyFailed {
            queue: self.queue.id,
            position: Position::new(self.position),
        })
    }
}

impl<D: NativeDevice> Core<D> {
    /// Ends what has ended; tells who is due; sees to it that the rest will be told.
    pub(super) fn settle(self: &Arc<Self>, fired: Fired, list: &mut Vec<(Arc<Self>, Fired)>) {
        self.look();
        let mut state = self.state.lock();
        if fired == Fired::Yes {
            (state.armed, state.waits_at) = (0, 0);
        }
        let due = state.due();
        let other = self.arm(&mut state);
        drop(state);
        self.tell(due, list);
        self.follow(other);
    }

    /// Ends what has ended. Where only another queue stands in the way, that one is looked at as well; each awaited
    /// position was given out before ours, so this never comes back to a queue it has looked at.
    pub(crate) fn look(&self) {
        loop {
            let blocked = self.retire(&mut self.state.lock());
            let Some(other) = blocked else {
                return;
            };
            other.queue.look();
            if !other.has_ended() {
                return;
            }
        }
    }

    /// As [`look`](Self::look), without waiting for a lock: for callers that may hold locks of their own. The counter.
    pub(crate) fn glance(&self) -> u64 {
        let completed = self.completed.load(Ordering::Acquire);
        if completed == self.submitted() {
            return completed;
        }
        while let Some(mut state) = self.state.try_lock() {
            let blocked = self.retire(&mut state);
            drop(state);
            let Some(other) = blocked else {
                break;
            };
            let _theirs = other.queue.glance();
            if !other.has_ended() {
                break;
            }
        }
        self.completed.load(Ordering::Acquire)
    }

    /// Ends, oldest first, what has ended. Returns the place of another queue that the oldest waits for, if it is that
    /// alone.
    pub(super) fn retire(&self, state: &mut State<D>) -> Option<Awaited<D>> {
        self.retire_seen(state, 0)
    }

    /// As [`retire`](Self::retire), for who has waited for the event of position `seen`, and been told that it ended well.
    pub(super) fn retire_seen(&self, state: &mut State<D>, seen: u64) -> Option<Awaited<D>> {
        let mut last: Option<D::Event> = None;
        let (before, mut blocked) = (state.completed, None);
        while let Some(front) = state.flight.front() {
            let position = state.completed + 1;
            let failed = match &front.shows {
                Shows::Nothing => None,
                Shows::Running => break,
                Shows::Event(_) if position == seen => None,
                Shows::Event(event) => match event.progress() {
                    Progress::Pending => break,
                    Progress::Done => None,
                    Progress::Failed(status) => Some(status),
                },
            };
            if let Some(awaited) = front
                .awaited
                .as_ref()
                .filter(|awaited| !awaited.has_ended())
            {
                blocked = Some(awaited.clone());
                break;
            }
            let Some(flight) = state.flight.pop_front() else {
                break;
            };
            if let Some(error) = self.failure_of(&flight, failed) {
                self.fail(state, position, error, &flight.tag);
            }
            state.completed = position;
            self.device.standing().trace.record(self, position, &flight);
            // On a queue in order, what was waited for shows what came before it as well.
            if let Shows::Event(event) = flight.shows {
                last = (position > seen).then_some(event);
            }
        }
        if let Some(last) = last {
            last.wait();
        }
        if state.completed != before {
            self.completed.store(state.completed, Ordering::Release);
        }
        blocked
    }

    /// Why a command failed that is over.
    fn failure_of(&self, flight: &Flight<D>, status: Option<D::Status>) -> Option<DriverError> {
        let inherited = flight.awaited.as_ref().and_then(Awaited::failure);
        let operation = flight.tag.operation;
        let own = status.map(|status| status.error(operation, self.device.info().id));
        inherited.map(|kind| self.error(kind, operation)).or(own)
    }
}
