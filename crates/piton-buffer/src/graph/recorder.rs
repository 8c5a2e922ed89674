//! Recording a graph: nodes, ordered by the memory they use.
//!
//! # Invariants
//! 1. `records` holds, for each memory named so far (by its first byte), the nodes whose uses of it later nodes of
//!    this list must come after.
//! 2. `needs` holds every buffer and host view that a node names, bodies' included, with the strongest access; scratch memory is the
//!    graph's own and is not in it. Not so once the recorder `is_broken`: then it is never finished.

use super::{GraphCondition, GraphLaunch, GraphSlice, GraphSliceMut, ReadyGraph, ScratchBuffer};
use crate::{
    BufferError, DeviceContext, LoadedKernel, PrivatePool, Stream,
    arguments::{Holder, Named},
    copy::{check_lengths, pattern},
    stream::size_in_bytes,
};
use bytemuck::Pod;
use piton_alloc::DevicePool;
use piton_driver::{Access, DeviceInfo, DevicePtr, DeviceRange, FillPattern, Grid, NodeWork};
use piton_graph::{GraphBuilder, NodeId, PrivateMemory};
use std::{collections::BTreeMap, mem, sync::Arc};

/// The nodes that used a piece of memory last.
#[derive(Debug, Default)]
struct Record {
    writes: Vec<NodeId>,
    reads: Vec<NodeId>,
}

/// What all lists of one graph share.
#[derive(Debug)]
struct Shared {
    context: Arc<DeviceContext>,
    /// Where scratch memory comes from.
    pool: Arc<DevicePool>,
    /// Tells this graph's scratch memory from another's.
    identity: Arc<()>,
    private: PrivateMemory,
    /// By first byte and length.
    needs: BTreeMap<(u64, u64), Access>,
    /// Launches and fills, whose parameters may be changed.
    works: BTreeMap<NodeId, NodeWork>,
}

/// A graph being recorded, or a body within one. Nodes come after the earlier nodes whose work they depend on, by the
/// buffers they share.
#[derive(Debug)]
pub struct GraphRecorder {
    shared: Shared,
    builder: GraphBuilder,
    records: BTreeMap<u64, Record>,
    /// A node that everything later comes after.
    divide: Option<NodeId>,
    since: Vec<NodeId>,
    /// Which list of nodes this is: a body may put another recorder in the place of the one it was lent.
    list: Arc<()>,
    /// Whether a body did not end as it should, so that what it was lent may be lost.
    is_broken: bool,
    /// Whether it is a body's, which only the graph around it finishes: its nodes are numbered within that.
    is_body: bool,
}

impl GraphRecorder {
    /// An empty graph for the context's device.
    pub fn new(context: &Arc<DeviceContext>) -> Self {
        Self::over(Shared {
            context: Arc::clone(context),
            pool: Arc::clone(&context.memory),
            identity: Arc::default(),
            private: PrivateMemory::new(),
            needs: BTreeMap::new(),
            works: BTreeMap::new(),
        })
    }

    fn over(shared: Shared) -> Self {
        Self {
            shared,
            builder: GraphBuilder::new(),
            records: BTreeMap::new(),
            divide: None,
            since: Vec::new(),
            list: Arc::default(),
            is_broken: false,
            is_body: false,
        }
    }

    /// Takes the graph's scratch memory from a private pool, and not from the device's.
    ///
    /// # Errors
    /// [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime).
    pub fn keep_scratch_in(&mut self, pool: &PrivatePool) -> Result<(), BufferError> {
        self.shared.context.same_device(&pool.context)?;
        self.shared.pool = Arc::clone(&pool.pool);
        Ok(())
    }

    /// A scratch buffer of `len` elements, for nodes of this graph.
    ///
    /// # Errors
    /// [`InvalidLength`](BufferError::InvalidLength) for zero or too many; [`Graph`](BufferError::Graph) where all of
    /// the graph's together are too many.
    pub fn scratch<T: Pod>(&mut self, len: u64) -> Result<ScratchBuffer<T>, BufferError> {
        let memory = self.shared.private.chunk(size_in_bytes::<T>(len)?)?;
        Ok(ScratchBuffer::new(memory, &self.shared.identity, len))
    }

    /// Starts putting together a launch of `kernel` over `grid` blocks.
    pub fn launch<'a>(&'a mut self, kernel: &'a LoadedKernel, grid: Grid) -> GraphLaunch<'a> {
        GraphLaunch::new(self, kernel, grid)
    }

    /// Copies elements.
    ///
    /// # Errors
    /// [`LengthMismatch`](BufferError::LengthMismatch), [`OtherDevice`](BufferError::OtherDevice),
    /// [`OtherRuntime`](BufferError::OtherRuntime), [`OtherGraph`](BufferError::OtherGraph).
    #[track_caller]
    pub fn copy<'a, T: Pod>(
        &mut self,
        src: impl Into<GraphSlice<'a, T>>,
        dst: impl Into<GraphSliceMut<'a, T>>,
    ) -> Result<NodeId, BufferError> {
        let (src, dst) = (src.into(), dst.into());
        check_lengths(src.len, dst.len)?;
        self.owns(src.graph)?;
        self.owns(dst.graph)?;
        let work = NodeWork::CopyOnDevice {
            dst: DevicePtr::new(dst.named.address),
            src: DevicePtr::new(src.named.address),
            bytes: src.named.bytes,
        };
        let uses = [(src.named, Access::Read), (dst.named, Access::Write)];
        self.record(work, &uses)
    }

    /// Fills elements with one value of 1, 2 or 4 bytes.
    ///
    /// # Errors
    /// [`FillSize`](BufferError::FillSize) for other sizes; otherwise as [`copy`](Self::copy).
    #[track_caller]
    pub fn fill<'a, T: Pod>(
        &mut self,
        dst: impl Into<GraphSliceMut<'a, T>>,
        value: T,
    ) -> Result<NodeId, BufferError> {
        self.fill_bytes(&dst.into(), pattern(bytemuck::bytes_of(&value))?)
    }

    /// Sets every byte to zero.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    #[track_caller]
    pub fn clear<'a, T: Pod>(
        &mut self,
        dst: impl Into<GraphSliceMut<'a, T>>,
    ) -> Result<NodeId, BufferError> {
        self.fill_bytes(&dst.into(), FillPattern::Byte(0))
    }

    /// Calls a function on the host at every replay: after all nodes so far, and before all later ones. It does not
    /// wait for the stream it is replayed on: that is an error that says so.
    ///
    /// # Errors
    /// [`Graph`](BufferError::Graph) for too many nodes.
    #[track_caller]
    pub fn call_host(
        &mut self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<NodeId, BufferError> {
        let after = self.everything();
        let node = self
            .builder
            .add(NodeWork::CallHost(Arc::new(function)), &after)?;
        self.divide_at(node);
        Ok(node)
    }

    /// The first element as a condition of this graph's bodies, which may write it.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn condition<'a>(
        &mut self,
        element: impl Into<GraphSlice<'a, u32>>,
    ) -> Result<GraphCondition, BufferError> {
        let element = element.into();
        self.owns(element.graph)?;
        self.need(&element.named, Access::Read)?;
        Ok(GraphCondition {
            at: DevicePtr::new(element.named.address),
            graph: Arc::clone(&self.shared.identity),
        })
    }

    /// Records a body that runs if the condition's value is not zero: after all nodes so far, and before
    /// all later ones.
    ///
    /// # Errors
    /// As [`copy`](Self::copy), [`TooDeep`](piton_graph::GraphError::TooDeep) in [`Graph`](BufferError::Graph), and what `body` returns; [`BrokenGraph`](BufferError::BrokenGraph) where `body` puts
    /// another recorder in the place of the one it is lent. After an error or a panic of `body` the graph is of no more use:
    /// [`finish`](Self::finish) refuses it.
    #[track_caller]
    pub fn run_if(
        &mut self,
        condition: &GraphCondition,
        body: impl FnOnce(&mut Self) -> Result<(), BufferError>,
    ) -> Result<NodeId, BufferError> {
        self.conditional(Repeats::No, condition, body)
    }

    /// Records a body that runs as long as the condition's value is not zero, looked at before each run;
    /// otherwise as [`run_if`](Self::run_if). Nothing bounds the number of runs.
    ///
    /// # Errors
    /// As [`run_if`](Self::run_if).
    #[track_caller]
    pub fn run_while(
        &mut self,
        condition: &GraphCondition,
        body: impl FnOnce(&mut Self) -> Result<(), BufferError>,
    ) -> Result<NodeId, BufferError> {
        self.conditional(Repeats::Yes, condition, body)
    }

    #[track_caller]
    fn conditional(
        &mut self,
        repeats: Repeats,
        condition: &GraphCondition,
        body: impl FnOnce(&mut Self) -> Result<(), BufferError>,
    ) -> Result<NodeId, BufferError> {
        self.owns(Some(&condition.graph))?;
        let (condition, after) = (condition.at, self.everything());
        // Until the body has given back what it was lent, whichever way it ends.
        let was_broken = mem::replace(&mut self.is_broken, true);
        let Self {
            shared, builder, ..
        } = self;
        let mut refused = None;
        let record = |inner: &mut GraphBuilder| {
            refused = nested(shared, inner, body).err();
            Ok(())
        };
        let node = match repeats {
            Repeats::No => builder.add_if(condition, &after, record),
            Repeats::Yes => builder.add_while(condition, &after, record),
        }?;
        if let Some(error) = refused {
            return Err(error);
        }
        self.is_broken = was_broken;
        self.divide_at(node);
        Ok(node)
    }

    /// Makes the graph ready for replays. Its scratch memory is one allocation of the pool it is kept in, made for `stream`.
    ///
    /// # Errors
    /// [`Graph`](BufferError::Graph) with the node that the device refuses, or where it has no graphs;
    /// [`Memory`](BufferError::Memory); [`OtherDevice`](BufferError::OtherDevice); [`BrokenGraph`](BufferError::BrokenGraph)
    /// if a body of it failed, or for a body's recorder that was taken out of its place.
    #[track_caller]
    pub fn finish(self, stream: &Stream) -> Result<ReadyGraph, BufferError> {
        if self.is_broken || self.is_body {
            return Err(BufferError::BrokenGraph);
        }
        let Shared {
            context,
            pool,
            private,
            needs,
            works,
            ..
        } = self.shared;
        stream.context().same_device(&context)?;
        let needs = needs.into_iter().map(|((start, bytes), access)| {
            let start = DevicePtr::new(start);
            (DeviceRange { start, bytes }, access)
        });
        ReadyGraph::new(
            (&context, &pool),
            stream,
            (self.builder.finish(private), works),
            needs.collect(),
        )
    }

    #[track_caller]
    fn fill_bytes<T: Pod>(
        &mut self,
        dst: &GraphSliceMut<'_, T>,
        pattern: FillPattern,
    ) -> Result<NodeId, BufferError> {
        self.owns(dst.graph)?;
        let work = NodeWork::Fill {
            dst: DevicePtr::new(dst.named.address),
            pattern,
            bytes: dst.named.bytes,
        };
        self.record(work, &[(dst.named, Access::Write)])
    }

    /// The device that it is for.
    pub(super) fn device(&self) -> &DeviceInfo {
        self.shared.context.device().info()
    }

    /// Refuses scratch memory of another graph.
    pub(super) fn owns(&self, graph: Option<&Arc<()>>) -> Result<(), BufferError> {
        match graph {
            Some(graph) if !Arc::ptr_eq(graph, &self.shared.identity) => {
                Err(BufferError::OtherGraph)
            }
            _ => Ok(()),
        }
    }

    /// Adds a node behind those whose uses conflict with its own.
    #[track_caller]
    pub(super) fn record(
        &mut self,
        work: NodeWork,
        uses: &[(Named<'_>, Access)],
    ) -> Result<NodeId, BufferError> {
        for (named, access) in uses {
            self.need(named, *access)?;
        }
        let mut after: Vec<NodeId> = self.divide.into_iter().collect();
        for (named, access) in uses {
            let Some(record) = self.records.get(&key(named)) else {
                continue;
            };
            after.extend(&record.writes);
            if *access == Access::Write {
                after.extend(&record.reads);
            }
        }
        let changeable = matches!(work, NodeWork::Launch { .. } | NodeWork::Fill { .. });
        let held = changeable.then(|| work.clone());
        let node = self.builder.add(work, &after)?;
        self.shared.works.extend(held.map(|work| (node, work)));
        self.note(node, uses);
        self.since.push(node);
        Ok(node)
    }

    /// Reads first: a node that reads and writes one buffer is remembered as its writer.
    fn note(&mut self, node: NodeId, uses: &[(Named<'_>, Access)]) {
        for kind in [Access::Read, Access::Write] {
            for (named, _) in uses.iter().filter(|(_, access)| *access == kind) {
                let record = self.records.entry(key(named)).or_default();
                match kind {
                    Access::Read => record.reads.push(node),
                    Access::Write => {
                        record.writes = vec![node];
                        record.reads.clear();
                    }
                }
            }
        }
    }

    fn need(&mut self, named: &Named<'_>, access: Access) -> Result<(), BufferError> {
        let (context, range) = match named.holder {
            Holder::Buffer(memory) => (&memory.context, memory.range()),
            Holder::Host(memory) => (&memory.context, memory.range),
            Holder::Scratch(_) => return Ok(()),
        };
        self.shared.context.same_device(context)?;
        let place = (range.start.address(), range.bytes);
        let need = self.shared.needs.entry(place).or_insert(access);
        if access == Access::Write {
            *need = access;
        }
        Ok(())
    }

    fn everything(&self) -> Vec<NodeId> {
        let mut all = self.since.clone();
        all.extend(self.divide);
        all
    }

    fn divide_at(&mut self, node: NodeId) {
        self.divide = Some(node);
        self.since.clear();
        self.records.clear();
    }
}

/// Whether the body of a condition runs again.
#[derive(Clone, Copy)]
enum Repeats {
    No,
    Yes,
}

/// Records a body into `inner`. What a body that is refused, or that leaves another recorder behind, has recorded is lost
/// with the graph.
fn nested(
    shared: &mut Shared,
    inner: &mut GraphBuilder,
    body: impl FnOnce(&mut GraphRecorder) -> Result<(), BufferError>,
) -> Result<(), BufferError> {
    let lent = Shared {
        context: Arc::clone(&shared.context),
        pool: Arc::clone(&shared.pool),
        identity: Arc::clone(&shared.identity),
        private: mem::take(&mut shared.private),
        needs: mem::take(&mut shared.needs),
        works: mem::take(&mut shared.works),
    };
    let mut recorder = GraphRecorder::over(lent);
    recorder.is_body = true;
    recorder.builder = mem::take(inner);
    let list = Arc::clone(&recorder.list);
    body(&mut recorder)?;
    if recorder.is_broken || !Arc::ptr_eq(&list, &recorder.list) {
        return Err(BufferError::BrokenGraph);
    }
    *inner = recorder.builder;
    *shared = recorder.shared;
    Ok(())
}

/// What names a piece of memory in `records`.
fn key(named: &Named<'_>) -> u64 {
    match named.holder {
        Holder::Buffer(memory) => memory.ptr().address(),
        Holder::Host(memory) => memory.range.start.address(),
        Holder::Scratch(scratch) => scratch.ptr().address(),
    }
}
