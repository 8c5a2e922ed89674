//! A host thread that carries out itself what it submits.
//!
//! # Why
//! Where a device's work is done by the host's cores, as a simulated device's is, a thread that submits one command and has
//! nothing to do before it has ended gains nothing from another thread's doing it: that one has to be woken, and what the
//! command touches lies in this core's caches.

use crate::Stream;
use piton_driver::QueueHold;
use piton_timeline::Timepoint;

/// An idle stream, held by a thread that is about to submit. Made by [`Stream::hold`]; dropping it starts what was submitted.
#[must_use = "dropped at once it holds nothing"]
#[derive(Debug)]
pub struct Hold<'a> {
    stream: &'a Stream,
    queue: Box<dyn QueueHold + 'a>,
}

impl Stream {
    /// Holds the stream, if nothing is under way on it and the device leaves its work to host threads; what anybody submits
    /// meanwhile starts when the hold ends. `None` otherwise: real devices do their own work. Does not block.
    ///
    /// Keep it for one submission, and wait for nothing meanwhile: on this stream nothing would ever come.
    pub fn hold(&self) -> Option<Hold<'_>> {
        if self.is_capturing() {
            return None;
        }
        let queue = self.queue().hold()?;
        let stream = self;
        Some(Hold { stream, queue })
    }
}

impl Hold<'_> {
    /// Carries out on this thread what was submitted, until `point` has ended or something would have to be waited for; what
    /// is left starts then. A point of another stream asks for nothing. Call it under no lock: wakers are called, and whatever
    /// others have submitted meanwhile runs too.
    pub fn help(self, point: Timepoint) {
        if point.lane == self.stream.id() {
            self.queue.help(piton_driver::Position::new(point.seq));
        }
    }
}
