//! Submitting commands that touch memory: in a form that parks, one that tries, one that is a future.

#![expect(
    unsafe_code,
    reason = "passes the contract's promises on to callers: memory named by a command stays theirs to keep"
)]

use crate::{
    Facet, Stream, StreamError, Submission,
    admission::{Admitting, Work},
    witness::Submitted,
};
use piton_driver::{
    Admission, Command, Device, DevicePtr, DriverError, FillPattern, Launch, Origin, PeerAddress,
    Queue,
};
use piton_timeline::Timepoint;
use std::{
    borrow::Borrow,
    future::Future,
    panic::Location,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

/// # Safety of submission
/// Every method here asks the same of its caller, for the memory the command names, until the command has
/// ended ([`Event::query`](crate::Event::query) and its like say when, whether it failed or not):
/// device memory is live and of the extent the command uses; host memory is valid, and page-locked where the
/// device wants it; and nothing else uses it in a conflicting way, on the host or on any stream, unless ordered
/// with the command.
impl Stream {
    /// Submits a command. Blocks while the stream has no room, unless its policy is to refuse.
    ///
    /// Returns the place where the command has ended. It runs after everything submitted before.
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission).
    ///
    /// # Errors
    /// [`Driver`](StreamError::Driver) for what the device refuses, and nothing was submitted;
    /// [`Full`](StreamError::Full) by policy; [`Unsupported`](StreamError::Unsupported) for peer copies on a
    /// device without peers; [`WouldDeadlock`](StreamError::WouldDeadlock) where a host function of this
    /// stream would have to wait for room in it; [`Capture`](StreamError::Capture) for what cannot be captured, while
    /// the stream [is](Stream::begin_capture).
    #[inline]
    #[track_caller]
    pub unsafe fn submit(&self, command: &Command<'_>) -> Result<Timepoint, StreamError> {
        // The caller promised what `OneCommand` asks.
        self.admit(self.one(command), Location::caller())
    }

    /// As [`submit`](Self::submit), and never blocks.
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission); nothing is asked where the answer is
    /// [`Submission::Full`].
    ///
    /// # Errors
    /// As [`submit`](Self::submit), without the two about room.
    #[inline]
    #[track_caller]
    pub unsafe fn try_submit(&self, command: &Command<'_>) -> Result<Submission, StreamError> {
        self.one(command).offer(self, Location::caller())
    }

    /// As [`submit`](Self::submit), as a future that waits for room: it ends when the command is accepted, not
    /// when the command has ended. Dropped before, it has submitted nothing.
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission), from now on.
    #[track_caller]
    pub unsafe fn submit_async<'a>(&'a self, command: Command<'a>) -> Submitting<'a> {
        let work = OneCommand {
            command,
            door: self.queue(),
        };
        Submitting(Admitting::new(self, work, Location::caller()))
    }

    /// INVARIANT of `OneCommand`: callers were promised it.
    fn one<'a, 'c>(
        &'a self,
        command: &'a Command<'c>,
    ) -> OneCommand<&'a Command<'c>, &'a dyn Queue> {
        OneCommand {
            command,
            door: self.queue(),
        }
    }

    /// Launches a kernel; see [`submit`](Self::submit).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission): each buffer argument is such memory.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[inline]
    #[track_caller]
    pub unsafe fn launch(&self, launch: Launch<'_>) -> Result<Timepoint, StreamError> {
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
    pub unsafe fn try_launch(&self, launch: Launch<'_>) -> Result<Submission, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.try_submit(&Command::Launch(launch)) }
    }

    /// Launches a kernel when there is room; see [`submit_async`](Self::submit_async).
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub unsafe fn launch_async<'a>(&'a self, launch: Launch<'a>) -> Submitting<'a> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit_async(Command::Launch(launch)) }
    }

    /// Copies `bytes` bytes of page-locked host memory to the device; see [`submit`](Self::submit).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub unsafe fn copy_to_device(
        &self,
        dst: DevicePtr,
        src: NonNull<u8>,
        bytes: u64,
    ) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::CopyToDevice { dst, src, bytes }) }
    }

    /// Copies `bytes` bytes of device memory to page-locked host memory; see [`submit`](Self::submit).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission); no reference to the destination exists meanwhile.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub unsafe fn copy_to_host(
        &self,
        dst: NonNull<u8>,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::CopyToHost { dst, src, bytes }) }
    }

    /// Copies `bytes` bytes within the device; the ranges do not overlap. See [`submit`](Self::submit).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub unsafe fn copy_on_device(
        &self,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::CopyOnDevice { dst, src, bytes }) }
    }

    /// Copies `bytes` bytes between two devices, one of which is this stream's; see [`submit`](Self::submit).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission), on both devices.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub unsafe fn copy_peer(
        &self,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::CopyPeer { dst, src, bytes }) }
    }

    /// Fills `bytes` bytes of device memory with a repeated pattern; see [`submit`](Self::submit).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub unsafe fn fill(
        &self,
        dst: DevicePtr,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe {
            self.submit(&Command::Fill {
                dst,
                pattern,
                bytes,
            })
        }
    }
}

/// Where commands are offered: to the queue, as anybody may, or to the queue's only producer.
pub(crate) trait Door {
    /// # Safety
    /// As [`Queue::submit`].
    unsafe fn submit(
        &mut self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError>;
}

impl Door for &dyn Queue {
    unsafe fn submit(
        &mut self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        // SAFETY: the caller promised the same.
        unsafe { Queue::submit(*self, command, origin) }
    }
}

/// A command to be submitted.
///
/// # Invariants
/// Whoever made the value was promised what [`Queue::submit`] asks for the command, once.
pub(crate) struct OneCommand<C, D> {
    pub(crate) command: C,
    pub(crate) door: D,
}

impl<'c, C: Borrow<Command<'c>>, D: Door> Work for OneCommand<C, D> {
    type Output = Timepoint;

    #[inline]
    fn offer(&mut self, stream: &Stream, origin: Origin) -> Result<Submission, StreamError> {
        let command = self.command.borrow();
        if !matches!(command, Command::Launch(_)) {
            supported(command, &**stream.device())?;
        }
        if stream.is_capturing()
            && let Some(captured) = stream.capture(command, origin)
        {
            return captured.map(Submission::Accepted);
        }
        stream.put(Submitted::Command(command), origin, || {
            // SAFETY: the type's invariant. The command is taken once at most: `Work` says that nothing is offered
            // after that.
            unsafe { self.door.submit(command, origin) }
        })
    }
}

/// A command on its way into a stream. Ends with the place where the command has ended, or with the error of
/// [`Stream::submit`].
///
/// Needs no particular executor. What its maker promised of the memory holds from when it was made.
#[must_use = "nothing is submitted before it is polled"]
#[derive(Debug)]
pub struct Submitting<'a>(Admitting<'a, OneCommand<Command<'a>, &'a dyn Queue>>);

impl Future for Submitting<'_> {
    type Output = Result<Timepoint, StreamError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Whether the device can do this kind of thing at all.
#[inline(never)]
pub(crate) fn supported(command: &Command<'_>, device: &dyn Device) -> Result<(), StreamError> {
    let (facet, has_it) = match command {
        Command::CopyPeer { .. } => (Facet::Peers, device.peers().is_some()),
        Command::WaitSemaphore { .. } | Command::SignalSemaphore { .. } => {
            (Facet::Semaphores, device.semaphores().is_some())
        }
        Command::WriteTimestamp { .. } => (Facet::Timestamps, device.timestamps().is_some()),
        Command::WaitMemory(_) | Command::WriteMemory { .. } => {
            (Facet::MemoryOperations, device.memory_operations())
        }
        Command::RunGraph { .. } => (Facet::Graphs, device.graphs().is_some()),
        _ => return Ok(()),
    };
    if has_it {
        return Ok(());
    }
    let device = device.info().id;
    Err(StreamError::Unsupported { device, facet })
}
