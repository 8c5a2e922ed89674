//! Events and waits for them, and what streams know of each other's order.

use super::{Recorded, Run, submit::Answer};
use crate::books::{Clock, Place, Task};
use piton_stream::{Event, StreamError, Submission, Waited};
use piton_timeline::Timepoint;

impl Run<'_> {
    pub(super) fn record(&mut self, lane: usize, is_timed: bool) {
        let (stream, queue) = (self.stream(lane), self.lanes[lane].queue);
        let event = if is_timed {
            let event = stream.record_timed();
            let taken = event.as_ref().map(Event::timepoint).map_err(Clone::clone);
            if !self.submitted(lane, Task::Stamp, taken.map(Submission::Accepted)) {
                return;
            }
            event.unwrap()
        } else {
            stream.record()
        };
        let place = self.place(event.timepoint());
        assert_eq!(place, (queue, self.books[queue].submitted()));
        let clock = self.books[queue].clock.clone();
        self.events.push(Recorded {
            event,
            place,
            clock,
        });
    }

    pub(super) fn wait_event(&mut self, lane: usize, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        let Recorded {
            event,
            place,
            clock,
        } = &self.events[event];
        let (event, place, clock) = (event.clone(), *place, clock.clone());
        let waited = match self.stream(lane).try_wait(&event) {
            Ok(Submission::Accepted(waited)) => Ok(waited),
            Ok(Submission::Full) => Err(StreamError::Full { capacity: 0 }),
            Err(error) => Err(error),
        };
        let now = self.stream(lane).now();
        self.waited(lane, place, &clock, waited, now);
    }

    /// As [`wait_event`](Self::wait_event), for a point of whose history the books say nothing.
    pub(super) fn wait_point(&mut self, lane: usize, point: Timepoint) -> bool {
        let waited = self.stream(lane).wait_timepoint(point);
        let (place, now) = (self.place(point), self.stream(lane).now());
        self.waited(lane, place, &self.books[place.0].clock.clone(), waited, now)
    }

    /// A wait has been answered; says whether what follows comes after the place.
    pub(super) fn waited(
        &mut self,
        lane: usize,
        place: Place,
        clock: &Clock,
        waited: Result<Waited, StreamError>,
        now: Timepoint,
    ) -> bool {
        let own = self.lanes[lane].queue;
        let is_done = self.books[place.0].queue.completed().get() >= place.1;
        let has_failed = !self.books[place.0].failures().is_empty();
        let known = self.books[own].clock.get(&place.0).copied().unwrap_or(0);
        let is_known = place.0 == own || place.1 == 0 || known >= place.1;
        match waited {
            Ok(Waited::Enqueued(point)) => {
                let direct = |(_, (queue, position)): &(u64, Place)| {
                    *queue == place.0 && *position >= place.1
                };
                let is_direct = own == place.0 || self.books[own].after.iter().any(direct);
                assert!(!is_direct || has_failed, "a wait for what it comes after");
                let taken = Ok(Submission::Accepted(point));
                self.answered(lane, Task::WaitQueue(place), Answer { taken, now });
            }
            Ok(Waited::Ordered) => assert!(is_known, "an order that is not there"),
            Ok(Waited::Done) => {
                let is_well = own == place.0 || !self.books[place.0].is_spoilt(place.1);
                assert!(is_done && is_well, "it has not ended well");
            }
            Ok(other) => panic!("{other:?}"),
            Err(StreamError::Poisoned(_)) => {
                assert!(is_done && has_failed, "nothing failed");
                return true;
            }
            Err(StreamError::Full { .. }) => return false,
            Err(other) => {
                assert!(self.is_due_to_loss(&other), "{other}");
                return false;
            }
        }
        self.comes_after(own, self.books[own].submitted() + 1, place, clock);
        true
    }

    /// From this position on the queue comes after the place, and after what that comes after.
    pub(super) fn comes_after(&mut self, own: usize, behind: u64, place: Place, clock: &Clock) {
        self.books[own].after.push((behind, place));
        self.learns(own, place, clock);
    }

    /// The queue's clock may know of the place from now on, and of what that comes after.
    pub(super) fn learns(&mut self, own: usize, place: Place, clock: &Clock) {
        let book = &mut self.books[own];
        for (queue, position) in clock.iter().chain([(&place.0, &place.1)]) {
            let known = book.clock.entry(*queue).or_default();
            *known = (*known).max(*position);
        }
    }

    pub(super) fn query(&self, event: usize) {
        if let Some(event) = event.checked_rem(self.events.len()) {
            let recorded = &self.events[event];
            let (queue, position) = recorded.place;
            let book = &self.books[queue];
            let was_done = book.queue.completed().get() >= position;
            let answer = recorded.event.query();
            let is_done = book.queue.completed().get() >= position;
            match answer {
                Ok(false) => assert!(!was_done, "it has ended"),
                Ok(true) => {
                    let is_well = !book.is_spoilt(position);
                    assert!(is_done && is_well, "it has not ended well");
                }
                Err(StreamError::Poisoned(_)) => {
                    assert!(is_done && book.is_spoilt(position), "nothing failed");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    pub(super) fn wait_on_host(&self, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        match self.events[event].event.synchronize_until(self.deadline()) {
            Ok(_) | Err(StreamError::Poisoned(_)) => self.query(event),
            Err(other) => panic!("{other}"),
        }
        if self.world.is_virtual {
            self.query(event);
        }
    }
}
