//! A command and the waits it needs, admitted together or not at all.
//!
//! # The idea
//! What a command depends on is known to whoever submits it, as places of other lanes. Most of those need no wait, and
//! then the command is one like any other. Where some do, the queue is offered their waits and the command as one: it has
//! room for all, or nothing has changed. So a command that is refused, or whose future is dropped, leaves no wait
//! behind that orders the stream for nothing.
//!
//! # Where that cannot be
//! A queue that holds fewer commands than there are to take never takes them at once. Then the forms that wait for room
//! make the waits one by one; the one that tries says that there is no room, until enough of what is awaited has ended.

#![expect(
    unsafe_code,
    reason = "passes the contract's promises on to callers: memory named by a command stays theirs to keep"
)]

use crate::{
    Stream, StreamError, Submission, WhenFull,
    admission::{Admitting, Work},
    needs::Needs,
    submit::{OneCommand, supported},
    witness::Submitted,
};
use piton_driver::{Command, Origin};
use piton_sanitizer::Awaits;
use piton_timeline::{Frontier, Timepoint};
use std::{
    borrow::Borrow,
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll},
};

/// A command behind places of other lanes.
///
/// # Invariants
/// Whoever made the value was promised what [`Queue::submit`](piton_driver::Queue::submit) asks for the command, once,
/// behind those places.
struct BehindWork<'a, C> {
    after: &'a [Frontier],
    command: C,
    /// Whether waits that do not fit together with the command are made before it.
    may_split: bool,
    /// Those that were: a place that has failed is never known to need none.
    made: Vec<Timepoint>,
}

impl<'c, C: Borrow<Command<'c>>> Work for BehindWork<'_, C> {
    type Output = Timepoint;

    #[inline]
    fn offer(&mut self, stream: &Stream, origin: Origin) -> Result<Submission, StreamError> {
        if stream.needs_nothing_for(self.after) {
            // INVARIANT: `OneCommand` asks what this type does. It is taken once at most: `Work` says that nothing is
            // offered after that.
            let (command, door) = (self.command.borrow(), stream.queue());
            return OneCommand { command, door }.offer(stream, origin);
        }
        self.offer_with_needs(stream, origin)
    }
}

impl<'c, C: Borrow<Command<'c>>> BehindWork<'_, C> {
    #[inline(never)]
    fn offer_with_needs(
        &mut self,
        stream: &Stream,
        origin: Origin,
    ) -> Result<Submission, StreamError> {
        let command = self.command.borrow();
        if stream.is_capturing() {
            return stream.capture_behind(self.after, command, origin);
        }
        let mut needs = stream.needs(self.after)?;
        if !self.made.is_empty() {
            needs.remove(&self.made);
        }
        if !matches!(command, Command::Launch(_)) {
            supported(command, &**stream.device())?;
        }
        let awaits = Awaits {
            left_out: &needs.left_out,
            submitted: &[],
        };
        if needs.points.is_empty() {
            return stream.put_behind(awaits, Submitted::Command(command), origin, || {
                // SAFETY: the type's invariant, as in `offer`.
                unsafe { stream.queue().submit(command, origin) }
            });
        }
        self.offer_with_waits(stream, &needs, origin)
    }

    fn offer_with_waits(
        &mut self,
        stream: &Stream,
        needs: &Needs,
        origin: Origin,
    ) -> Result<Submission, StreamError> {
        if needs.points.len() as u64 >= stream.capacity() {
            return self.offer_in_parts(stream, needs, origin);
        }
        let (command, waits) = (self.command.borrow(), needs.waits(true));
        let awaits = Awaits {
            left_out: &needs.left_out,
            submitted: &needs.points,
        };
        let taken = stream.put_behind(awaits, Submitted::Command(command), origin, || {
            // SAFETY: as in `offer`.
            unsafe { stream.queue().submit_behind(&waits, command, origin) }
        })?;
        if let Submission::Accepted(at) = taken {
            let seq = at.seq.saturating_sub(1);
            stream.waited_for_all(&needs.points, Timepoint { seq, ..at });
        }
        Ok(taken)
    }

    /// Makes one of the waits that do not fit together, and goes on with the others.
    #[cold]
    fn offer_in_parts(
        &mut self,
        stream: &Stream,
        needs: &Needs,
        origin: Origin,
    ) -> Result<Submission, StreamError> {
        let Some(point) = needs.points.first().filter(|_| self.may_split) else {
            return Ok(Submission::Full);
        };
        match stream.offer_wait(*point, origin)? {
            Submission::Accepted(_) => {
                self.made.push(*point);
                self.offer(stream, origin)
            }
            Submission::Full => Ok(Submission::Full),
        }
    }
}

impl Stream {
    /// As [`submit`](Self::submit), behind every point of `after`: as if each had been [waited for](Self::wait_timepoint),
    /// but that those waits are made with the command or not at all. Only where there are as many as the stream
    /// [holds](Self::capacity) commands are they made before.
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission); that the command comes behind `after` counts.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`wait_timepoint`](Self::wait_timepoint).
    #[inline]
    #[track_caller]
    pub unsafe fn submit_behind(
        &self,
        after: &[Frontier],
        command: &Command<'_>,
    ) -> Result<Timepoint, StreamError> {
        // INVARIANT: the caller promised what `BehindWork` asks.
        let work = BehindWork {
            after,
            command,
            may_split: self.when_full() == WhenFull::Park,
            made: Vec::new(),
        };
        self.admit(work, Location::caller())
    }

    /// As [`submit_behind`](Self::submit_behind), and never blocks.
    ///
    /// # Safety
    /// As [`submit_behind`](Self::submit_behind); nothing is asked where the answer is [`Submission::Full`].
    ///
    /// # Errors
    /// As [`submit_behind`](Self::submit_behind), without the two about room.
    #[inline]
    #[track_caller]
    pub unsafe fn try_submit_behind(
        &self,
        after: &[Frontier],
        command: &Command<'_>,
    ) -> Result<Submission, StreamError> {
        // INVARIANT: as in `submit_behind`.
        let mut work = BehindWork {
            after,
            command,
            may_split: false,
            made: Vec::new(),
        };
        work.offer(self, Location::caller())
    }

    /// As [`submit_behind`](Self::submit_behind), as a future that waits for room, and for nothing else.
    ///
    /// # Safety
    /// As [`submit_behind`](Self::submit_behind), from now on.
    #[track_caller]
    pub unsafe fn submit_behind_async<'a>(
        &'a self,
        after: &'a [Frontier],
        command: Command<'a>,
    ) -> SubmittingBehind<'a> {
        let work = BehindWork {
            after,
            command,
            may_split: true,
            made: Vec::new(),
        };
        SubmittingBehind(Admitting::new(self, work, Location::caller()))
    }

    /// Whether it is known, without a lock, that no point needs a wait, and nobody is to be told.
    #[inline]
    fn needs_nothing_for(&self, after: &[Frontier]) -> bool {
        let mut points = after.iter().flat_map(Frontier::points);
        points.all(|point| self.registry().witness().is_none() && self.known(*point).is_some())
    }

    #[cold]
    fn capture_behind(
        &self,
        after: &[Frontier],
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Submission, StreamError> {
        for point in after.iter().flat_map(Frontier::points) {
            self.wait_point(*point, origin)?;
        }
        let door = self.queue();
        OneCommand { command, door }.offer(self, origin)
    }
}

/// A command on its way into a stream, behind others. Ends with the place where the command has ended, or with the error
/// of [`Stream::submit_behind`].
///
/// Needs no particular executor. What its maker promised of the memory holds from when it was made. Dropped before it
/// ends, it has submitted nothing, but where its waits did not fit into the stream at once.
#[must_use = "nothing is submitted before it is polled"]
#[derive(Debug)]
pub struct SubmittingBehind<'a>(Admitting<'a, BehindWork<'a, Command<'a>>>);

impl SubmittingBehind<'_> {
    /// The same, told as submitted from elsewhere: for whoever submits on behalf of a caller.
    pub fn from(mut self, origin: Origin) -> Self {
        self.0.set_origin(origin);
        self
    }
}

impl Future for SubmittingBehind<'_> {
    type Output = Result<Timepoint, StreamError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}
