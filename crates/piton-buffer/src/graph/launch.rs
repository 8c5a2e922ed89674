//! A launch that becomes a node.

use super::{GraphRecorder, GraphSlice, GraphSliceMut};
use crate::{
    BufferError, HostView, LoadedKernel,
    arguments::{Arguments, INLINE_ARGUMENTS, Named},
};
use bytemuck::Pod;
use piton_driver::{Access, Grid, NodeWork};
use piton_graph::NodeId;
use smallvec::SmallVec;
use std::sync::Arc;

/// A launch being put together for a graph: arguments in the order of the kernel's parameters, then
/// [`record`](Self::record).
#[must_use = "a launch is no node before it is recorded"]
#[derive(Debug)]
pub struct GraphLaunch<'a> {
    recorder: &'a mut GraphRecorder,
    kernel: &'a LoadedKernel,
    grid: Grid,
    arguments: Arguments<'a>,
    /// Whether all scratch memory is the graph's own.
    owns_all: Result<(), BufferError>,
}

impl<'a> GraphLaunch<'a> {
    pub(super) fn new(
        recorder: &'a mut GraphRecorder,
        kernel: &'a LoadedKernel,
        grid: Grid,
    ) -> Self {
        Self {
            recorder,
            kernel,
            grid,
            arguments: Arguments::default(),
            owns_all: Ok(()),
        }
    }

    /// The next argument: memory the kernel reads.
    pub fn read<T: Pod>(mut self, memory: impl Into<GraphSlice<'a, T>>) -> Self {
        let slice = memory.into();
        self.owns(slice.graph);
        self.arguments.memory::<T>(slice.named, Access::Read);
        self
    }

    /// The next argument: memory the kernel writes.
    pub fn write<T: Pod>(mut self, memory: impl Into<GraphSliceMut<'a, T>>) -> Self {
        let slice = memory.into();
        self.owns(slice.graph);
        self.arguments.memory::<T>(slice.named, Access::Write);
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

    /// Makes it a node, behind the nodes that its memory depends on.
    ///
    /// # Errors
    /// [`ArgumentCount`](BufferError::ArgumentCount), [`ArgumentMismatch`](BufferError::ArgumentMismatch),
    /// [`ArgumentBytes`](BufferError::ArgumentBytes),
    /// [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime),
    /// [`OtherGraph`](BufferError::OtherGraph). What the device refuses is found by
    /// [`GraphRecorder::finish`].
    #[track_caller]
    pub fn record(self) -> Result<NodeId, BufferError> {
        self.owns_all?;
        let device = self.recorder.device();
        let packed = self.arguments.pack(self.kernel.signature(), device)?;
        let work = NodeWork::Launch {
            kernel: Arc::clone(self.kernel.raw()),
            grid: self.grid,
            arguments: packed.bytes.as_slice().into(),
            extents: packed.extents.as_slice().into(),
        };
        let uses: SmallVec<[(Named<'_>, Access); INLINE_ARGUMENTS]> =
            self.arguments.named().collect();
        self.recorder.record(work, &uses)
    }

    fn owns(&mut self, graph: Option<&Arc<()>>) {
        if self.owns_all.is_ok() {
            self.owns_all = self.recorder.owns(graph);
        }
    }
}
