//! A stream for one producer alone: launches that pay nothing for the stream's being shared.
//!
//! # The idea
//! A [`Writer`] borrows its stream mutably, so nobody else submits to it meanwhile, and the backend may leave out the
//! lock and ring its bell once for many commands. What a writer has not made faster it hands to the stream itself:
//! [`Writer::stream`] gives the fast path back and the next submission takes it again.
//!
//! # Liveness
//! What was submitted through a writer may stay *unstarted* until the writer flushes, is dropped, finds the stream full
//! or gives the stream out; or until a host thread or another stream waits for it. So a writer that is kept while its
//! thread does other things holds up nobody who waits for it by name, but work that nobody waits for begins late, and with
//! it what that alone would bring about: a value in memory that a kernel writes. How many commands stay unstarted at most is
//! the backend's choice: a few.

#![expect(
    unsafe_code,
    reason = "passes the contract's promises on to callers: memory named by a command stays theirs to keep"
)]

use crate::{
    Event, Stream, StreamError, Submission, Waited,
    admission::Work,
    submit::{Door, OneCommand},
    wait::WaitWork,
};
use piton_driver::{Admission, Command, DriverError, Launch, Origin, Queue, QueueWriter};
use piton_timeline::Timepoint;
use std::panic::Location;

/// Submits to one stream, from one thread, without locks. Made by [`Stream::writer`].
///
/// Dropping it flushes. It is neither `Send` nor `Sync`:
///
/// ```compile_fail
/// fn is_shared<T: Sync>() {}
/// is_shared::<piton_stream::Writer<'static>>();
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    stream: &'a Stream,
    /// `None` where the backend has no such thing, and while the stream is given out.
    queue: Option<Box<dyn QueueWriter + 'a>>,
    /// Whether the stream was given out and `queue` is to be taken again.
    is_given_out: bool,
}

impl Stream {
    /// The stream for this producer alone, whose submissions take no lock where the device can do without.
    ///
    /// What it submits may not start before it is [flushed](Writer::flush) or dropped: see [`Writer`].
    pub fn writer(&mut self) -> Writer<'_> {
        Writer {
            queue: self.queue().writer(),
            stream: self,
            is_given_out: false,
        }
    }
}

impl Writer<'_> {
    /// Submits a command. Blocks while the stream has no room, unless its policy is to refuse.
    ///
    /// # Safety
    /// See [the safety of submission](Stream#safety-of-submission).
    ///
    /// # Errors
    /// As [`Stream::submit`].
    #[inline]
    #[track_caller]
    pub unsafe fn submit(&mut self, command: &Command<'_>) -> Result<Timepoint, StreamError> {
        let stream = self.stream;
        // INVARIANT: the caller promised what `OneCommand` asks.
        let door = self.door();
        stream.admit(OneCommand { command, door }, Location::caller())
    }

    /// As [`submit`](Self::submit), and never blocks.
    ///
    /// # Safety
    /// As [`submit`](Self::submit); nothing is asked where the answer is [`Submission::Full`].
    ///
    /// # Errors
    /// As [`Stream::try_submit`].
    #[inline]
    #[track_caller]
    pub unsafe fn try_submit(&mut self, command: &Command<'_>) -> Result<Submission, StreamError> {
        let stream = self.stream;
        // INVARIANT: the caller promised what `OneCommand` asks.
        let door = self.door();
        OneCommand { command, door }.offer(stream, Location::caller())
    }

    /// Launches a kernel; see [`submit`](Self::submit).
    ///
    /// # Safety
    /// As [`submit`](Self::submit): each buffer argument is such memory.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[inline]
    #[track_caller]
    pub unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::Launch(launch)) }
    }

    /// Launches a kernel if there is room; see [`try_submit`](Self::try_submit).
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    ///
    /// # Errors
    /// As [`try_submit`](Self::try_submit).
    #[inline]
    #[track_caller]
    pub unsafe fn try_launch(&mut self, launch: Launch<'_>) -> Result<Submission, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.try_submit(&Command::Launch(launch)) }
    }

    /// Later commands start when the event is reached. Holds no host thread; see [`Stream::wait`].
    ///
    /// # Errors
    /// As [`Stream::wait`].
    #[track_caller]
    pub fn wait(&mut self, event: &Event) -> Result<Waited, StreamError> {
        let stream = self.stream;
        stream.admit(WaitWork::new(event, self.door()), Location::caller())
    }

    /// The place after everything submitted so far.
    pub fn now(&self) -> Timepoint {
        self.stream.now()
    }

    /// An event at the place after everything submitted so far. Submits nothing, and starts nothing.
    pub fn record(&self) -> Event {
        self.stream.record()
    }

    /// Starts what was submitted, now. Does not wait for it.
    ///
    /// # Errors
    /// As [`Stream::flush`].
    pub fn flush(&mut self) -> Result<(), StreamError> {
        match &mut self.queue {
            Some(queue) => Ok(queue.flush()?),
            None => self.stream.flush(),
        }
    }

    /// Starts what was submitted and blocks until it has ended.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    #[track_caller]
    pub fn synchronize(&mut self) -> Result<(), StreamError> {
        self.flush()?;
        self.stream.synchronize()
    }

    /// The stream, for what a writer has no method of. Starts what was submitted; the next submission of the writer is
    /// alone with the stream again.
    pub fn stream(&mut self) -> &Stream {
        self.queue = None;
        self.is_given_out = true;
        self.stream
    }

    fn door(&mut self) -> WriterDoor<'_> {
        if self.is_given_out {
            self.is_given_out = false;
            self.queue = self.stream.queue().writer();
        }
        match &mut self.queue {
            Some(queue) => WriterDoor::Alone(&mut **queue),
            None => WriterDoor::Shared(self.stream.queue()),
        }
    }
}

/// The writer's fast path where there is one.
enum WriterDoor<'a> {
    Alone(&'a mut (dyn QueueWriter + 'a)),
    Shared(&'a dyn Queue),
}

impl Door for WriterDoor<'_> {
    #[inline]
    unsafe fn submit(
        &mut self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        match self {
            // SAFETY: the caller promised the same.
            Self::Alone(writer) => unsafe { writer.submit(command, origin) },
            // SAFETY: the caller promised the same.
            Self::Shared(queue) => unsafe { queue.submit(command, origin) },
        }
    }
}
