//! Launching kernels with checked arguments.

#![expect(
    unsafe_code,
    reason = "submits launches whose arguments it has checked and ordered"
)]

use crate::{BufferError, DeviceSlice, DeviceSliceMut, Stream, arguments::Arguments};
use bytemuck::Pod;
use piton_driver::{Access, Grid, Kernel, Launch};
use std::sync::Arc;

/// A launch being put together: arguments in the order of the kernel's parameters, then
/// [`submit`](Self::submit).
#[must_use = "a launch does nothing before it is submitted"]
#[derive(Debug)]
pub struct KernelLaunch<'a> {
    stream: &'a Stream,
    kernel: &'a Arc<dyn Kernel>,
    grid: Grid,
    arguments: Arguments<'a>,
}

impl<'a> KernelLaunch<'a> {
    pub(crate) fn new(stream: &'a Stream, kernel: &'a Arc<dyn Kernel>, grid: Grid) -> Self {
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
    /// [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime), and what the
    /// stream refuses: a grid without blocks or with too many, a kernel of another device. Nothing was launched.
    #[track_caller]
    pub fn submit(self) -> Result<(), BufferError> {
        let packed = self.arguments.pack(self.kernel.signature())?;
        let uses = self.arguments.uses();
        let launch = Launch {
            kernel: self.kernel,
            grid: self.grid,
            arguments: &packed.bytes,
            extents: &packed.extents,
        };
        let ordered = self.stream.order(&uses)?;
        // SAFETY: each buffer argument is a `DeviceMemory` of this device (`order` checks), which lives until the
        // uses noted in it have ended (its invariant 2), and this one is noted below. Its extent is passed along.
        // `order` has made the stream wait for every conflicting use, and later ones will wait for this:
        // exclusive borrows (`DeviceSliceMut`) and shared ones keep others out meanwhile.
        let point = unsafe { self.stream.raw().launch(launch)? };
        ordered.note(&point.into());
        Ok(())
    }
}
