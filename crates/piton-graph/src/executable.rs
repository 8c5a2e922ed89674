//! A graph that is ready to run: replayed, and given other parameters.

#![expect(
    unsafe_code,
    reason = "passes the contract's promises on to callers: memory named by nodes stays theirs to keep"
)]

use crate::{
    GraphError, NodeId,
    graph::{Placement, adapt},
    node::visit_addresses,
};
use piton_driver::{Command, DeviceId, DevicePtr, DeviceRange, ExecutableGraph, NodeWork};
use piton_sanitizer::{GraphFootprint, Space};
use piton_stream::{Event, ReplayStreams, Stream, StreamError, Submission};
use piton_timeline::{Frontier, Timepoint};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a replay comes behind: the uses of the memory that its nodes name, a frontier for each.
pub type Behind = SmallVec<[Frontier; 4]>;

/// An executable graph.
///
/// Replays of one executable run one after the other, whatever streams they are on: they use the same memory, its
/// private chunks for one. Dropping it never blocks: replays in flight end, and what the graph keeps goes after
/// them.
#[derive(Debug)]
pub struct Executable {
    graph: Arc<dyn ExecutableGraph>,
    placement: Placement,
    /// Where the private block starts.
    start: DevicePtr,
    streams: ReplayStreams,
    /// What its nodes touch, for a sanitizer.
    footprint: Arc<GraphFootprint>,
    /// Where the last replay has ended. An event and no timepoint: it knows its runtime.
    last: Option<Event>,
}

impl Executable {
    pub(crate) fn new(
        graph: Arc<dyn ExecutableGraph>,
        placement: Placement,
        start: DevicePtr,
        streams: ReplayStreams,
        footprint: Arc<GraphFootprint>,
    ) -> Self {
        Self {
            graph,
            placement,
            start,
            streams,
            footprint,
            last: None,
        }
    }

    /// Replays the graph on a stream: one command, behind everything submitted to the stream before, and behind the
    /// last replay of this executable. Returns the place where it has ended. Blocks while the stream has no room,
    /// unless its policy is to refuse.
    ///
    /// # Safety
    /// For each node, as it is now, what [`Stream::submit`] asks for such a command, until the replay has ended.
    /// Nodes that no edge orders are not ordered with each other either. Private chunks are the executable's to
    /// keep, as far as nodes name them in what the graph sees: not by value inside an argument.
    ///
    /// # Errors
    /// [`Stream`](GraphError::Stream): what [`Stream::submit`] and [`Stream::wait`] refuse: a stream of another runtime
    /// than the last replay's while that is in flight, and one in a capture, since graphs do not nest.
    #[track_caller]
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<Timepoint, GraphError> {
        // SAFETY: the caller promised the same.
        unsafe { self.launch_behind(stream, &mut Behind::default()) }
    }

    /// As [`launch`](Self::launch), behind every point of `after` too.
    ///
    /// # Safety
    /// As [`launch`](Self::launch); that the replay comes behind `after` counts.
    ///
    /// # Errors
    /// As [`launch`](Self::launch) and [`Stream::submit_behind`].
    #[track_caller]
    pub unsafe fn launch_behind(
        &mut self,
        stream: &Stream,
        after: &mut Behind,
    ) -> Result<Timepoint, GraphError> {
        self.prepare(stream, after)?;
        let command = Command::RunGraph { graph: &self.graph };
        // SAFETY: the caller promised it for each node. Private chunks lie in memory that the executable graph
        // keeps until its last replay has ended, apart where they live at once; replays do not overlap, since each is
        // ordered behind the last one.
        let point = unsafe { stream.submit_behind(after, &command)? };
        self.last = Some(stream.record());
        Ok(point)
    }

    /// As [`launch`](Self::launch), and never blocks: the replay and the wait for the last one, where it needs one, are
    /// taken together or not at all.
    ///
    /// # Safety
    /// As [`launch`](Self::launch); nothing is asked where the answer is [`Submission::Full`].
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub unsafe fn try_launch(&mut self, stream: &Stream) -> Result<Submission, GraphError> {
        // SAFETY: the caller promised the same.
        unsafe { self.try_launch_behind(stream, &mut Behind::default()) }
    }

    /// As [`try_launch`](Self::try_launch), behind every point of `after` too.
    ///
    /// # Safety
    /// As [`launch_behind`](Self::launch_behind); nothing is asked where the answer is [`Submission::Full`].
    ///
    /// # Errors
    /// As [`launch_behind`](Self::launch_behind).
    #[track_caller]
    pub unsafe fn try_launch_behind(
        &mut self,
        stream: &Stream,
        after: &mut Behind,
    ) -> Result<Submission, GraphError> {
        self.prepare(stream, after)?;
        let command = Command::RunGraph { graph: &self.graph };
        // SAFETY: as in `launch_behind`.
        let submission = unsafe { stream.try_submit_behind(after, &command)? };
        if let Submission::Accepted(_) = submission {
            self.last = Some(stream.record());
        }
        Ok(submission)
    }

    /// Gives a node other ends or arguments, for replays from now on; those in flight run as they were submitted.
    ///
    /// The kind of work stays, and a kernel's signature; of a node with a body only the condition is taken. Private
    /// chunks are named by their placeholders, those that the node named when memory was laid out.
    ///
    /// # Errors
    /// [`UnknownNode`](GraphError::UnknownNode); [`NewPrivateUse`](GraphError::NewPrivateUse);
    /// [`OutsidePrivate`](GraphError::OutsidePrivate); [`Driver`](GraphError::Driver) with
    /// [`OtherNode`](piton_driver::ErrorKind::OtherNode) for another kind or signature, and what the device refuses.
    /// The executable is as it was.
    pub fn update(&mut self, node: NodeId, mut work: NodeWork) -> Result<(), GraphError> {
        if node.0 >= self.graph.node_count() {
            return Err(GraphError::UnknownNode { node });
        }
        let placement = &self.placement;
        visit_addresses(&mut work, &mut |address, _| {
            if placement.was_used(node, address) {
                return Ok(address);
            }
            Err(GraphError::NewPrivateUse { node, address })
        })?;
        adapt(node, &mut work, placement, self.start, &self.streams)?;
        self.graph.update(node.0, &work)?;
        Arc::make_mut(&mut self.footprint).update(node.0, &work);
        Ok(())
    }

    /// Where the last replay has ended; none was submitted yet otherwise.
    pub fn last(&self) -> Option<&Event> {
        self.last.as_ref()
    }

    /// How many nodes it has, those of bodies included.
    pub fn node_count(&self) -> u32 {
        self.graph.node_count()
    }

    /// Bytes of the block its private chunks lie in.
    pub fn private_bytes(&self) -> u64 {
        self.placement.layout.bytes
    }

    /// The device it runs on.
    pub fn device(&self) -> DeviceId {
        self.graph.device()
    }

    /// Tells the stream's sanitizer, if it has one, what is about to run. What lay in the private block before the
    /// first replay is over: nobody but the graph has named it since.
    fn tell(&self, stream: &Stream) {
        let Some(sanitizer) = stream.sanitizer() else {
            return;
        };
        if self.last.is_none() {
            let (space, bytes) = (Space::Device(self.device()), self.private_bytes());
            let start = self.start;
            sanitizer.forget(space, DeviceRange { start, bytes });
        }
        stream.tell_graph(&self.graph, &self.footprint);
    }

    /// Gets ready for a replay on a stream, which comes behind the last one: that is added to `after` if it has not
    /// ended.
    fn prepare(&self, stream: &Stream, after: &mut Behind) -> Result<(), GraphError> {
        if let Some(last) = &self.last {
            // One that has ended, well or not, is in nobody's way.
            match last.query() {
                Ok(true) | Err(StreamError::Poisoned(_)) => {}
                Ok(false) => after.push(stream.place_of(last)?.into()),
                Err(other) => return Err(other.into()),
            }
        }
        self.streams.note(stream);
        self.tell(stream);
        Ok(())
    }
}
