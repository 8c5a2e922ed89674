//! What a stream has to wait for to come behind places of other lanes.
//!
//! Most places need no wait: they have ended well, or the stream is ordered after them already. Of those that do need one
//! the queues are held here, so that the waits can be offered together.

use crate::{Stream, StreamError, link::Reach};
use piton_driver::{Position, Queue, QueueWait};
use piton_timeline::{Frontier, Timepoint};
use smallvec::SmallVec;
use std::sync::Arc;

/// So many waits ask the heap for nothing.
const FEW: usize = 4;

/// What something comes behind.
#[derive(Default)]
pub(crate) struct Needs {
    /// What needs waits: places of lanes, and of their queues.
    pub(crate) points: SmallVec<[Timepoint; FEW]>,
    places: SmallVec<[Place; FEW]>,
    /// What needs none. Kept for a sanitizer alone.
    pub(crate) left_out: SmallVec<[Timepoint; FEW]>,
}

/// Where the queue of a lane is to be waited for.
struct Place {
    queue: Arc<dyn Queue>,
    position: Position,
    /// Whether it is known to have failed, so that the wait passes that on.
    has_failed: bool,
}

impl Needs {
    /// Adds a wait. Of two for one lane the later stays, but where one alone has failed: once that was forgotten, the
    /// other tells nothing of it.
    fn add(&mut self, point: Timepoint, place: Place) {
        let mut known = self.points.iter_mut().zip(&mut self.places);
        let is_alike = |known: &Timepoint, other: &Place| {
            known.lane == point.lane && other.has_failed == place.has_failed
        };
        match known.find(|(known, other)| is_alike(known, other)) {
            Some((known, _)) if known.seq >= point.seq => {}
            Some((known, other)) => (*known, *other) = (point, place),
            None => {
                self.points.push(point);
                self.places.push(place);
            }
        }
    }

    /// Leaves the first `count` waits alone.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.points.truncate(count);
        self.places.truncate(count);
    }

    /// Takes the waits for these places away.
    pub(crate) fn remove(&mut self, made: &[Timepoint]) {
        let mut at = 0;
        let points = &self.points;
        self.places.retain(|_| {
            at += 1;
            !made.contains(&points[at - 1])
        });
        self.points.retain(|point| !made.contains(point));
    }

    /// The waits; they pass failures on, or only order.
    pub(crate) fn waits(&self, inherits: bool) -> SmallVec<[QueueWait<'_>; FEW]> {
        let waits = self.places.iter().map(|place| QueueWait {
            queue: &*place.queue,
            position: place.position,
            inherits,
        });
        waits.collect()
    }
}

impl Stream {
    /// What of `after` needs waits.
    pub(crate) fn needs(&self, after: &[Frontier]) -> Result<Needs, StreamError> {
        let mut needs = Needs::default();
        for point in after.iter().flat_map(Frontier::points) {
            if self.known(*point).is_none() {
                self.look_closer(*point, &mut needs)?;
            } else {
                self.leave_out(*point, &mut needs);
            }
        }
        Ok(needs)
    }

    /// Finds out whether a point needs a wait of which it is not known that it does not.
    fn look_closer(&self, point: Timepoint, needs: &mut Needs) -> Result<(), StreamError> {
        if let Some(state) = self.registry().resolve(point)? {
            let position = state.position(point);
            if self.known_of(&state, point).is_none() {
                match state.link().reach(position) {
                    Reach::Wait(queue) => {
                        let place = Place {
                            queue,
                            position,
                            has_failed: state.has_failed(point),
                        };
                        needs.add(point, place);
                        return Ok(());
                    }
                    Reach::Ended => state.learn(point),
                    // The lane drained and let its queue go: it is complete.
                    Reach::Gone => state.outcome(point)?,
                }
            }
        }
        self.leave_out(point, needs);
        Ok(())
    }

    /// What of `after` needs waits where failures are nobody's concern.
    pub(crate) fn needs_to_order(&self, after: &[Frontier]) -> Result<Needs, StreamError> {
        let mut needs = Needs::default();
        for point in after.iter().flat_map(Frontier::points) {
            let state = self.registry().resolve(*point)?;
            let pending = state.filter(|state| {
                !state.is_complete(*point) && !self.lane().is_ordered_after(*point)
            });
            // Whose queue is gone has ended all it had.
            let place = pending.and_then(|state| {
                Some(Place {
                    queue: state.link().queue()?,
                    position: state.position(*point),
                    has_failed: false,
                })
            });
            match place {
                Some(place) => needs.add(*point, place),
                None => self.leave_out(*point, &mut needs),
            }
        }
        Ok(needs)
    }

    fn leave_out(&self, point: Timepoint, needs: &mut Needs) {
        if self.registry().witness().is_some() {
            needs.left_out.push(point);
        }
    }
}
