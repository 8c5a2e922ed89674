//! A stream behind places of other streams: all the waits that takes, or none.
//!
//! # The idea
//! Waits for several places are one piece of work, offered to the queue together: the last of them as a command that
//! the others come with. So a stream that has no room for all of them, or is refused one, has not got behind a part of
//! what it was to come behind.
//!
//! # Where that cannot be
//! As for a command [behind others](crate::Stream::submit_behind): more waits than the stream holds commands go in parts,
//! where they may.

#![expect(unsafe_code, reason = "submits commands that name no memory")]

use crate::{
    Stream, StreamError, Submission, WhenFull, admission::Work, needs::Needs, witness::Submitted,
};
use piton_driver::Origin;
use piton_sanitizer::Awaits;
use piton_timeline::{Frontier, Timepoint};
use std::{panic::Location, slice};

/// Waits for every point of some frontiers.
struct FrontierWork<'a> {
    after: &'a [Frontier],
    /// Whether failures there become the stream's.
    inherits: bool,
    /// What was waited for in parts.
    made: Vec<Timepoint>,
}

impl Work for FrontierWork<'_> {
    type Output = ();

    fn offer(&mut self, stream: &Stream, origin: Origin) -> Result<Submission<()>, StreamError> {
        if stream.is_capturing() {
            return self.capture(stream, origin);
        }
        let needs = self.needs(stream)?;
        if needs.points.len() as u64 > stream.capacity() {
            return self.offer_a_part(stream, needs, origin);
        }
        self.offer_all(stream, &needs, origin)
    }
}

impl FrontierWork<'_> {
    fn needs(&self, stream: &Stream) -> Result<Needs, StreamError> {
        let mut needs = if self.inherits {
            stream.needs(self.after)?
        } else {
            stream.needs_to_order(self.after)?
        };
        if !self.made.is_empty() {
            needs.remove(&self.made);
        }
        Ok(needs)
    }

    fn offer_all(
        &self,
        stream: &Stream,
        needs: &Needs,
        origin: Origin,
    ) -> Result<Submission<()>, StreamError> {
        let waits = needs.waits(self.inherits);
        let (Some((last, others)), Some((point, before))) =
            (waits.split_last(), needs.points.split_last())
        else {
            let left_out = needs.left_out.iter();
            left_out.for_each(|point| stream.tell_left_out(*point));
            return Ok(Submission::Accepted(()));
        };
        let awaits = Awaits {
            left_out: &needs.left_out,
            submitted: before,
        };
        let taken = stream.put_behind(awaits, Submitted::Wait(*point), origin, || {
            // SAFETY: the command names no memory.
            unsafe {
                stream
                    .queue()
                    .submit_behind(others, &last.command(), origin)
            }
        })?;
        Ok(taken.map(|at| {
            if self.inherits {
                stream.waited_for_all(&needs.points, at);
            }
        }))
    }

    /// Makes as many waits as the stream holds commands, and goes on with the others.
    #[cold]
    fn offer_a_part(
        &mut self,
        stream: &Stream,
        mut needs: Needs,
        origin: Origin,
    ) -> Result<Submission<()>, StreamError> {
        if stream.when_full() == WhenFull::Refuse {
            return Ok(Submission::Full);
        }
        needs.truncate(usize::try_from(stream.capacity()).unwrap_or(usize::MAX));
        // Told with the rest.
        needs.left_out.clear();
        match self.offer_all(stream, &needs, origin)? {
            Submission::Accepted(()) => {
                self.made.extend(needs.points);
                self.offer(stream, origin)
            }
            Submission::Full => Ok(Submission::Full),
        }
    }

    #[cold]
    fn capture(&self, stream: &Stream, origin: Origin) -> Result<Submission<()>, StreamError> {
        for point in self.after.iter().flat_map(Frontier::points) {
            stream.wait_point(*point, origin)?;
        }
        Ok(Submission::Accepted(()))
    }
}

impl Stream {
    /// Later commands of this stream start when every point of the frontier is reached; see
    /// [`wait_timepoint`](Self::wait_timepoint). All the waits that takes are made, or none: only where they are more than
    /// the stream [holds](Self::capacity) commands, and it parks, are they made in parts.
    ///
    /// # Errors
    /// As [`wait_timepoint`](Self::wait_timepoint).
    #[track_caller]
    pub fn wait_frontier(&self, frontier: &Frontier) -> Result<(), StreamError> {
        let origin = Location::caller();
        self.come_behind(slice::from_ref(frontier), true, origin)
    }

    /// As [`wait_frontier`](Self::wait_frontier), for every point of several.
    ///
    /// # Errors
    /// As [`wait_timepoint`](Self::wait_timepoint).
    #[track_caller]
    pub fn wait_frontiers(&self, frontiers: &[Frontier]) -> Result<(), StreamError> {
        self.come_behind(frontiers, true, Location::caller())
    }

    /// Later commands of this stream start when every point of the frontier is reached, and a failure there stays there:
    /// for memory that others have used and whose content nobody wants. Holds no host thread. All the waits that takes
    /// are made or none, as by [`wait_frontier`](Self::wait_frontier).
    ///
    /// The streams' clock does not learn of it: a later [`wait`](Self::wait) for the same points is made, since it
    /// means more. In a capture it is a [`wait_frontier`](Self::wait_frontier).
    ///
    /// # Errors
    /// As [`wait_timepoint`](Self::wait_timepoint), but for the failures.
    #[track_caller]
    pub fn order_after(&self, frontier: &Frontier) -> Result<(), StreamError> {
        let origin = Location::caller();
        self.come_behind(slice::from_ref(frontier), false, origin)
    }

    fn come_behind(
        &self,
        after: &[Frontier],
        inherits: bool,
        origin: Origin,
    ) -> Result<(), StreamError> {
        let work = FrontierWork {
            after,
            inherits,
            made: Vec::new(),
        };
        self.admit(work, origin)
    }
}
