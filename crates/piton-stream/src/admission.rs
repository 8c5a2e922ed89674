//! How work gets into a stream: tried once, until there is room, or as a future.
//!
//! # The idea
//! Whatever is submitted is [`Work`]: something that can be offered, and offered again after a refusal. Each kind of
//! work says once how it is offered; the three forms of every call are the three ways of this module to go on
//! offering: [`Work::offer`] itself, [`Stream::admit`], [`Admitting`].
//!
//! # Protocol
//! A full queue has room again when its `completed` has grown. So after a refusal the counter is read, the work is
//! offered *again*, and only a refusal of that is answered by waiting for one more than was read: if room came
//! between the offer and the wait, the wait is over at once. Read after the last refusal, the counter may already
//! have grown for the last time. The first offer needs no counter, and nearly all work is taken by it.
//!
//! No lock is held while a thread parks.

use crate::{Stream, StreamError, Submission, WhenFull, relay::Watch, witness::Submitted};
use piton_driver::{Admission, DriverError, Origin, Position};
use piton_sanitizer::Awaits;
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Something to be submitted.
pub(crate) trait Work {
    /// What there is to tell of it once it was taken.
    type Output: Clone;

    /// Offers it once. Never blocks; after [`Submission::Full`] nothing has changed. Not called again once it was
    /// taken.
    fn offer(
        &mut self,
        stream: &Stream,
        origin: Origin,
    ) -> Result<Submission<Self::Output>, StreamError>;
}

impl Stream {
    /// Submits, parking the thread while there is no room unless the stream's policy is to refuse.
    #[inline]
    pub(crate) fn admit<W: Work>(
        &self,
        mut work: W,
        origin: Origin,
    ) -> Result<W::Output, StreamError> {
        match work.offer(self, origin)? {
            Submission::Accepted(output) => Ok(output),
            Submission::Full if self.when_full() == WhenFull::Refuse => Err(StreamError::Full {
                capacity: self.capacity(),
            }),
            Submission::Full => self.admit_when_room(work, origin),
        }
    }

    #[cold]
    fn admit_when_room<W: Work>(
        &self,
        mut work: W,
        origin: Origin,
    ) -> Result<W::Output, StreamError> {
        loop {
            let before = self.queue().completed();
            match work.offer(self, origin)? {
                Submission::Accepted(output) => return Ok(output),
                Submission::Full => self.park(next(before))?,
            }
        }
    }

    /// Offers once to the queue.
    #[inline]
    pub(crate) fn put(
        &self,
        submitted: Submitted<'_>,
        origin: Origin,
        offer: impl FnOnce() -> Result<Admission, DriverError>,
    ) -> Result<Submission, StreamError> {
        self.put_behind(Awaits::default(), submitted, origin, offer)
    }

    /// As [`put`](Self::put), of something that comes behind places of other lanes, whose waits are offered with it. Every submission
    /// of a stream passes here; the queue's own count is the lane's, so there are no other books to keep.
    #[inline]
    pub(crate) fn put_behind(
        &self,
        awaits: Awaits<'_>,
        submitted: Submitted<'_>,
        origin: Origin,
        offer: impl FnOnce() -> Result<Admission, DriverError>,
    ) -> Result<Submission, StreamError> {
        let attempt = match self.registry().witness() {
            None => None,
            Some(witness) => {
                self.state().not_forked()?;
                Some(witness.attempt(self, awaits, submitted, origin)?)
            }
        };
        match offer()? {
            Admission::Full => Ok(Submission::Full),
            Admission::Accepted(position) => {
                let point = self.lane().at(position.get());
                if let Some(attempt) = attempt {
                    attempt.accepted(point);
                }
                Ok(Submission::Accepted(point))
            }
        }
    }

    /// Blocks until `position` has ended, which makes room.
    fn park(&self, position: Position) -> Result<(), StreamError> {
        self.state().may_block(self.state().point(position))?;
        let _reached = self.queue().wait(position, None)?;
        Ok(())
    }
}

/// The position whose end makes room, `before` being the last that had ended before the offer.
fn next(before: Position) -> Position {
    Position::new(before.get().saturating_add(1))
}

/// Work on its way into a stream, as a future that waits for room.
pub(crate) struct Admitting<'a, W: Work> {
    stream: &'a Stream,
    work: W,
    origin: Origin,
    /// The wait for room, while there is none.
    room: Option<Watch>,
    accepted: Option<W::Output>,
}

/// Nothing in it is pinned: work is offered by reference and may move between offers.
impl<W: Work> Unpin for Admitting<'_, W> {}

impl<W: Work> fmt::Debug for Admitting<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitting")
            .field("stream", &self.stream.id())
            .field("origin", &self.origin)
            .field("was_accepted", &self.accepted.is_some())
            .finish_non_exhaustive()
    }
}

impl<'a, W: Work> Admitting<'a, W> {
    pub(crate) fn new(stream: &'a Stream, work: W, origin: Origin) -> Self {
        Self {
            stream,
            work,
            origin,
            room: None,
            accepted: None,
        }
    }

    /// Where it is told to come from.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    /// Offers; then either the work is accepted or there is room to wait for.
    fn offer(&mut self) -> Result<(), StreamError> {
        let mut taken = self.work.offer(self.stream, self.origin)?;
        if matches!(taken, Submission::Full) {
            let before = self.stream.queue().completed();
            self.room = Some(Watch::new(next(before)));
            taken = self.work.offer(self.stream, self.origin)?;
        }
        if let Submission::Accepted(output) = taken {
            self.room = None;
            self.accepted = Some(output);
        }
        Ok(())
    }
}

impl<W: Work> Future for Admitting<'_, W> {
    type Output = Result<W::Output, StreamError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(output) = &this.accepted {
                return Poll::Ready(Ok(output.clone()));
            }
            if let Some(room) = &mut this.room {
                let on = (this.stream.queue(), this.stream.lane().timeline());
                match room.poll(on, cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(reached) => reached?,
                }
            }
            this.offer()?;
        }
    }
}
