//! A graph that is ready, and a replay of it being put together.

#![expect(
    unsafe_code,
    reason = "replays graphs whose memory it has checked, ordered and keeps"
)]

use crate::{
    BufferError, DeviceBuffer, DeviceContext, HostView, Stream,
    arguments::INLINE_ARGUMENTS,
    device_memory::{DeviceMemory, Origin},
    stream::Use,
    uses::UseKind,
};
use bytemuck::Pod;
use piton_alloc::DevicePool;
use piton_driver::{Access, DeviceRange, NodeWork};
use piton_graph::{Executable, Graph, NodeId, PrivateBlock};
use piton_stream::Submission;
use smallvec::SmallVec;
use std::{collections::BTreeMap, sync::Arc};

/// A recorded graph, ready to be replayed.
///
/// # Invariants
/// 1. `needs` names every buffer and host view that a node of the executable names, with the strongest access.
/// 2. Placeholders of nodes lie in `scratch`; only replays of this executable use it.
#[derive(Debug)]
pub struct ReadyGraph {
    pub(super) executable: Executable,
    /// Launches and fills as they were recorded, or changed since.
    pub(super) works: BTreeMap<NodeId, NodeWork>,
    needs: Vec<(DeviceRange, Access)>,
    scratch: Option<Arc<DeviceMemory>>,
}

impl ReadyGraph {
    pub(super) fn new(
        (context, pool): (&Arc<DeviceContext>, &Arc<DevicePool>),
        stream: &Stream,
        (graph, works): (Graph, BTreeMap<NodeId, NodeWork>),
        needs: Vec<(DeviceRange, Access)>,
    ) -> Result<Self, BufferError> {
        let bytes = graph.private_bytes()?;
        if bytes == 0 {
            let executable = graph.instantiate(context.device())?;
            return Ok(Self {
                executable,
                works,
                needs,
                scratch: None,
            });
        }
        let origin = Origin::Pool(Arc::clone(pool));
        let scratch = DeviceMemory::allocate_from(context, origin, stream.raw(), bytes)?;
        let scratch = Arc::new(scratch);
        // SAFETY: the memory is nobody else's until it is dropped, which it is with its last owner; no replay runs
        // before its past has ended, since each is ordered behind the uses noted in it.
        let block = unsafe { PrivateBlock::from_parts(scratch.ptr(), bytes, scratch.clone()) };
        Ok(Self {
            executable: graph.instantiate_in(context.device(), &block)?,
            works,
            needs,
            scratch: Some(scratch),
        })
    }

    /// Starts putting together a replay on a stream: it is given the buffers that the graph uses, and submitted.
    pub fn replay<'a>(&'a mut self, stream: &'a Stream) -> Replay<'a> {
        Replay {
            graph: self,
            stream,
            given: SmallVec::new(),
        }
    }

    /// How many nodes it has, those of bodies included.
    pub fn node_count(&self) -> u32 {
        self.executable.node_count()
    }

    /// Bytes of its scratch memory.
    pub fn scratch_bytes(&self) -> u64 {
        self.executable.private_bytes()
    }
}

/// A replay being put together.
#[must_use = "a replay does nothing before it is submitted"]
#[derive(Debug)]
pub struct Replay<'a> {
    graph: &'a mut ReadyGraph,
    stream: &'a Stream,
    given: SmallVec<[Use<'a>; INLINE_ARGUMENTS]>,
}

impl<'a> Replay<'a> {
    /// Gives the graph a buffer that it reads. Parts are given as wholes.
    pub fn read<T>(mut self, buffer: &'a DeviceBuffer<T>) -> Self {
        self.given.push(Use::read(&buffer.memory));
        self
    }

    /// Gives the graph a buffer that it writes, and may read.
    pub fn write<T>(mut self, buffer: &'a mut DeviceBuffer<T>) -> Self {
        self.given.push(Use::write(&buffer.memory));
        self
    }

    /// Gives the graph page-locked memory that it reads in place.
    pub fn read_host<T: Pod>(mut self, view: &'a HostView<T>) -> Self {
        self.given.push(view.used(UseKind::Read));
        self
    }

    /// Gives the graph page-locked memory that it writes in place, and may read.
    pub fn write_host<T: Pod>(mut self, view: &'a mut HostView<T>) -> Self {
        self.given.push(view.used(UseKind::Write));
        self
    }

    /// Submits the replay: one command, behind everything submitted to the stream before, behind the work on other
    /// streams that the buffers depend on, and behind the graph's last replay. Blocks only while the stream has no
    /// room.
    ///
    /// # Errors
    /// [`NotGiven`](BufferError::NotGiven) for a buffer or a view that the graph uses and that was not given;
    /// [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime);
    /// [`Graph`](BufferError::Graph) for what the stream refuses. Nothing was submitted.
    #[track_caller]
    pub fn submit(self) -> Result<(), BufferError> {
        let ReadyGraph {
            executable,
            needs,
            scratch,
            ..
        } = self.graph;
        let uses = uses(&self.given, needs, scratch.as_deref())?;
        let ordered = self.stream.order(&uses)?;
        let (raw, mut after) = (self.stream.raw(), ordered.after().into());
        // SAFETY: every buffer and view that a node names was given (invariant 1): borrowed, exclusively where a node writes, so
        // it is live memory of this device (`order` checks) with the length it was recorded with (`covers`), kept until
        // the use noted below has ended. The stream is ordered behind every conflicting use, and later ones will be
        // ordered behind this. Nodes that conflict are ordered by the recorder, and their extents were checked when they
        // were recorded. Scratch memory is the graph's (invariant 2).
        let point = unsafe { executable.launch_behind(raw, &mut after)? };
        ordered.note(&point.into());
        Ok(())
    }

    /// As [`submit`](Self::submit), and never blocks: the replay and the waits it needs are taken together or not at all.
    /// May be tried again, and after it was taken too: then it is another replay.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub fn try_submit(&mut self) -> Result<Submission<()>, BufferError> {
        let ReadyGraph {
            executable,
            needs,
            scratch,
            ..
        } = &mut *self.graph;
        let uses = uses(&self.given, needs, scratch.as_deref())?;
        let ordered = self.stream.order(&uses)?;
        let (raw, mut after) = (self.stream.raw(), ordered.after().into());
        // SAFETY: as in `submit`.
        let taken = unsafe { executable.try_launch_behind(raw, &mut after)? };
        if let Submission::Accepted(point) = taken {
            ordered.note(&point.into());
        }
        Ok(taken.map(drop))
    }
}

/// The uses that a replay makes, where all that it needs was given.
fn uses<'a>(
    given: &[Use<'a>],
    needs: &[(DeviceRange, Access)],
    scratch: Option<&'a DeviceMemory>,
) -> Result<SmallVec<[Use<'a>; INLINE_ARGUMENTS]>, BufferError> {
    for (range, access) in needs {
        covers(given, *range, *access)?;
    }
    Ok(given
        .iter()
        .copied()
        .chain(scratch.map(Use::write))
        .collect())
}

/// Whether a buffer was given, to write where it must be.
fn covers(given: &[Use<'_>], range: DeviceRange, access: Access) -> Result<(), BufferError> {
    let is_it = |used: &&Use<'_>| used.memory.range() == range;
    let to_write = access == Access::Write;
    let mut found = given.iter().filter(is_it);
    if found.any(|used| used.kind == UseKind::Write || !to_write) {
        return Ok(());
    }
    Err(BufferError::NotGiven { range, to_write })
}
