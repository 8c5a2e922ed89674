//! Launching kernels with checked arguments.

#![expect(
    unsafe_code,
    reason = "submits launches whose arguments it has checked and ordered"
)]

use crate::{
    BufferError, DeviceSlice, DeviceSliceMut, HostView, LoadedKernel, Stream,
    arguments::{Arguments, Packed},
};
use bytemuck::Pod;
use piton_driver::{Access, Grid, Launch};
use piton_stream::{Command, Submission};
use std::{future::Future, panic::Location};

/// A launch being put together: arguments in the order of the kernel's parameters, then
/// [`submit`](Self::submit).
#[must_use = "a launch does nothing before it is submitted"]
#[derive(Debug)]
pub struct KernelLaunch<'a> {
    stream: &'a Stream,
    kernel: &'a LoadedKernel,
    grid: Grid,
    arguments: Arguments<'a>,
}

impl<'a> KernelLaunch<'a> {
    pub(crate) fn new(stream: &'a Stream, kernel: &'a LoadedKernel, grid: Grid) -> Self {
        Self {
            stream,
            kernel,
            grid,
            arguments: Arguments::default(),
        }
    }

    /// The next argument: memory the kernel reads.
    pub fn read<T: Pod>(mut self, memory: impl Into<DeviceSlice<'a, T>>) -> Self {
        let named = memory.into().named();
        self.arguments.memory::<T>(named, Access::Read);
        self
    }

    /// The next argument: memory the kernel writes.
    pub fn write<T: Pod>(mut self, memory: impl Into<DeviceSliceMut<'a, T>>) -> Self {
        let named = memory.into().named();
        self.arguments.memory::<T>(named, Access::Write);
        self
    }

    /// The next argument: page-locked memory the kernel reads in place.
    pub fn read_host<T: Pod>(mut self, memory: &'a HostView<T>) -> Self {
        self.arguments.memory::<T>(memory.named(), Access::Read);
        self
    }

    /// The next argument: page-locked memory the kernel writes in place.
    pub fn write_host<T: Pod>(mut self, memory: &'a mut HostView<T>) -> Self {
        self.arguments.memory::<T>(memory.named(), Access::Write);
        self
    }

    /// The next argument: a number, or a struct of tiling data, by value.
    pub fn value<T: Pod>(mut self, value: T) -> Self {
        self.arguments.value(value);
        self
    }

    /// Submits the launch. It runs after everything submitted to the stream before, and after the work on other
    /// streams that its buffers depend on. Blocks only while the stream has no room.
    ///
    /// # Errors
    /// [`ArgumentCount`](BufferError::ArgumentCount), [`ArgumentMismatch`](BufferError::ArgumentMismatch),
    /// [`ArgumentBytes`](BufferError::ArgumentBytes), [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime), and what the
    /// stream refuses: a grid without blocks or with too many, a kernel of another device. Nothing was launched.
    #[track_caller]
    pub fn submit(self) -> Result<(), BufferError> {
        let packed = self.pack()?;
        let uses = self.arguments.uses();
        let ordered = self.stream.order(&uses)?;
        let command = Command::Launch(self.launch(&packed));
        // SAFETY: a `LoadedKernel` writes what its signature says: its module was registered. Each buffer argument is a `DeviceMemory` or a view of `HostMemory` of this device (`order` checks), which
        // lives until the uses noted in it have ended (their invariants), and this one is noted. Its extent is passed along.
        // The launch comes behind every conflicting use, and later ones will wait for this:
        // exclusive borrows (`DeviceSliceMut`, a view's) and shared ones keep others out meanwhile.
        unsafe { self.stream.submit_ordered(ordered, &command)? };
        Ok(())
    }

    /// As [`submit`](Self::submit), and never blocks: the launch and the waits it needs are taken together or not at all.
    /// May be tried again, and after it was taken too: then it is another launch.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub fn try_submit(&self) -> Result<Submission<()>, BufferError> {
        let packed = self.pack()?;
        let uses = self.arguments.uses();
        let ordered = self.stream.order(&uses)?;
        let (raw, command) = (self.stream.raw(), Command::Launch(self.launch(&packed)));
        // SAFETY: as in `submit`.
        let taken = unsafe { raw.try_submit_behind(ordered.after(), &command)? };
        if let Submission::Accepted(point) = taken {
            ordered.note(&point.into());
        }
        Ok(taken.map(drop))
    }

    /// As [`submit`](Self::submit), as a future that waits for room, not for the launch to end. Dropped before it ends, it
    /// has launched nothing.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub fn submit_async(self) -> impl Future<Output = Result<(), BufferError>> + Send + 'a {
        let origin = Location::caller();
        async move {
            let packed = self.pack()?;
            let uses = self.arguments.uses();
            let ordered = self.stream.order(&uses)?;
            let (raw, command) = (self.stream.raw(), Command::Launch(self.launch(&packed)));
            // SAFETY: as in `submit`. What the launch depends on stays as it was seen until it is noted, in the same poll
            // in which it is taken: the buffers are borrowed by the future meanwhile.
            let submitting = unsafe { raw.submit_behind_async(ordered.after(), command) };
            let point = submitting.from(origin).await?;
            ordered.note(&point.into());
            Ok(())
        }
    }

    fn pack(&self) -> Result<Packed, BufferError> {
        let device = self.stream.context().device().info();
        self.arguments.pack(self.kernel.signature(), device)
    }

    fn launch<'l>(&'l self, packed: &'l Packed) -> Launch<'l> {
        Launch {
            kernel: self.kernel.raw(),
            grid: self.grid,
            arguments: &packed.bytes,
            extents: &packed.extents,
        }
    }
}
