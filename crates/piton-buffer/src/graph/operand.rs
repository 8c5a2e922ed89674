//! What nodes name: parts of buffers, and the graph's own scratch memory.

use crate::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut,
    arguments::{Holder, Named},
};
use bytemuck::Pod;
use piton_driver::DevicePtr;
use piton_graph::PrivateChunk;
use std::{marker::PhantomData, sync::Arc};

/// `len` elements of `T` that live within a replay of one graph and hold anything when it begins. Where its life does
/// not meet another's, the two may share memory.
#[derive(Debug)]
pub struct ScratchBuffer<T> {
    pub(crate) memory: PrivateChunk,
    pub(crate) graph: Arc<()>,
    len: u64,
    element: PhantomData<T>,
}

impl<T: Pod> ScratchBuffer<T> {
    pub(crate) fn new(memory: PrivateChunk, graph: &Arc<()>, len: u64) -> Self {
        Self {
            memory,
            graph: Arc::clone(graph),
            len,
            element: PhantomData,
        }
    }

    /// How many elements it has; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    fn named(&self) -> Named<'static> {
        Named {
            holder: Holder::Scratch(self.memory),
            address: self.memory.ptr().address(),
            bytes: self.memory.bytes(),
        }
    }
}

/// A `u32` on the device that decides whether a body runs. Made by
/// [`GraphRecorder::condition`](crate::GraphRecorder::condition).
#[derive(Clone, Debug)]
pub struct GraphCondition {
    pub(crate) at: DevicePtr,
    pub(crate) graph: Arc<()>,
}

/// Elements that a node reads: of a buffer, or of the graph's scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct GraphSlice<'a, T> {
    pub(crate) named: Named<'a>,
    /// The graph it is scratch memory of.
    pub(crate) graph: Option<&'a Arc<()>>,
    pub(crate) len: u64,
    element: PhantomData<T>,
}

/// Elements that a node writes: of a buffer, or of the graph's scratch memory.
#[derive(Debug)]
pub struct GraphSliceMut<'a, T> {
    pub(crate) named: Named<'a>,
    /// The graph it is scratch memory of.
    pub(crate) graph: Option<&'a Arc<()>>,
    pub(crate) len: u64,
    element: PhantomData<&'a mut T>,
}

impl<'a, T: Pod> From<DeviceSlice<'a, T>> for GraphSlice<'a, T> {
    fn from(slice: DeviceSlice<'a, T>) -> Self {
        Self {
            named: slice.named(),
            graph: None,
            len: slice.len(),
            element: PhantomData,
        }
    }
}

impl<'a, T: Pod> From<&'a DeviceBuffer<T>> for GraphSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        DeviceSlice::from(buffer).into()
    }
}

impl<'a, T: Pod> From<&'a ScratchBuffer<T>> for GraphSlice<'a, T> {
    fn from(buffer: &'a ScratchBuffer<T>) -> Self {
        Self {
            named: buffer.named(),
            graph: Some(&buffer.graph),
            len: buffer.len,
            element: PhantomData,
        }
    }
}

impl<'a, T: Pod> From<DeviceSliceMut<'a, T>> for GraphSliceMut<'a, T> {
    fn from(slice: DeviceSliceMut<'a, T>) -> Self {
        Self {
            named: slice.named(),
            graph: None,
            len: slice.len(),
            element: PhantomData,
        }
    }
}

impl<'a, T: Pod> From<&'a mut DeviceBuffer<T>> for GraphSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        DeviceSliceMut::from(buffer).into()
    }
}

impl<'a, T: Pod> From<&'a mut ScratchBuffer<T>> for GraphSliceMut<'a, T> {
    fn from(buffer: &'a mut ScratchBuffer<T>) -> Self {
        Self {
            named: buffer.named(),
            graph: Some(&buffer.graph),
            len: buffer.len,
            element: PhantomData,
        }
    }
}
