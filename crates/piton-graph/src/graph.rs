//! A graph that is put together: nodes, and private chunks they name; made into executables.

use crate::{
    Executable, GraphError, NodeId, PrivateBlock, PrivateMemory,
    layout::{Layout, Lifetime},
    node::{count, visit_addresses},
    order::Order,
};
use piton_driver::{Device, DevicePtr, GraphDescription, GraphNode, NodeWork};
use piton_sanitizer::GraphFootprint;
use piton_stream::{Captured, ReplayStreams};
use std::{any::Any, sync::Arc};

/// Nodes and their order. Nothing runs before it is [instantiated](Self::instantiate) and replayed.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<GraphNode>,
    private: PrivateMemory,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Where private chunks lie, and which of them each node of the outermost list names.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub(crate) memory: PrivateMemory,
    pub(crate) layout: Layout,
    lifetimes: Vec<Lifetime>,
    /// The names of the outermost list's nodes, ascending.
    outermost: Vec<NodeId>,
}

impl Graph {
    pub(crate) fn new(nodes: Vec<GraphNode>, private: PrivateMemory) -> Self {
        Self {
            nodes,
            private,
            kept: Vec::new(),
        }
    }

    /// The graph of a capture whose nodes name these private chunks. Node n of the capture is node n here.
    pub fn from_capture(captured: Captured, private: PrivateMemory) -> Self {
        Self::new(captured.nodes, private)
    }

    /// The same graph, whose executables and their replays keep something alive: memory that nodes name, say.
    #[must_use]
    pub fn keeping(mut self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept.push(kept);
        self
    }

    /// How many nodes it has, those of bodies included.
    pub fn node_count(&self) -> u64 {
        count(&self.nodes)
    }

    /// How many bytes its private chunks take together.
    ///
    /// # Errors
    /// [`OutsidePrivate`](GraphError::OutsidePrivate).
    pub fn private_bytes(&self) -> Result<u64, GraphError> {
        Ok(self.place()?.layout.bytes)
    }

    /// An executable for a device, with private memory straight from it. May take long; do it once.
    ///
    /// # Errors
    /// [`Unsupported`](GraphError::Unsupported); [`Node`](GraphError::Node) with the first node the device refuses;
    /// [`Driver`](GraphError::Driver) where it has no memory left for the private chunks;
    /// [`OutsidePrivate`](GraphError::OutsidePrivate).
    pub fn instantiate(&self, device: &Arc<dyn Device>) -> Result<Executable, GraphError> {
        let placement = self.place()?;
        let block = PrivateBlock::allocate(device, placement.layout.bytes)?;
        self.make(device, placement, &block)
    }

    /// As [`instantiate`](Self::instantiate), with private memory from elsewhere: of
    /// [`private_bytes`](Self::private_bytes) at least.
    ///
    /// # Errors
    /// As [`instantiate`](Self::instantiate); [`BlockTooSmall`](GraphError::BlockTooSmall).
    pub fn instantiate_in(
        &self,
        device: &Arc<dyn Device>,
        block: &PrivateBlock,
    ) -> Result<Executable, GraphError> {
        let placement = self.place()?;
        let (given, needed) = (block.bytes(), placement.layout.bytes);
        if given < needed {
            return Err(GraphError::BlockTooSmall { given, needed });
        }
        self.make(device, placement, block)
    }

    fn make(
        &self,
        device: &Arc<dyn Device>,
        placement: Placement,
        block: &PrivateBlock,
    ) -> Result<Executable, GraphError> {
        let graphs = device.graphs().ok_or(GraphError::Unsupported)?;
        let streams = ReplayStreams::default();
        let mut nodes = self.nodes.clone();
        let mut maker = Maker {
            placement: &placement,
            start: block.start(),
            streams: &streams,
            next: 0,
        };
        maker.list(&mut nodes)?;
        let mut kept = self.kept.clone();
        kept.extend(block.keep());
        let footprint = Arc::new(GraphFootprint::of(&nodes, device.info().id));
        let made = graphs.instantiate(GraphDescription { nodes, kept });
        let graph = made.map_err(|refusal| self.refused(refusal))?;
        let start = block.start();
        Ok(Executable::new(graph, placement, start, streams, footprint))
    }

    fn refused(&self, refusal: piton_driver::GraphRefusal) -> GraphError {
        match find(&self.nodes, u64::from(refusal.node)) {
            None => refusal.error.into(),
            Some(node) => GraphError::Node {
                node: NodeId(refusal.node),
                origin: node.origin,
                error: refusal.error,
            },
        }
    }

    /// Lays the private chunks out.
    fn place(&self) -> Result<Placement, GraphError> {
        let mut lifetimes: Vec<Lifetime> = self
            .private
            .chunks()
            .iter()
            .map(|chunk| Lifetime {
                bytes: chunk.bytes(),
                uses: Vec::new(),
            })
            .collect();
        let mut outermost = Vec::with_capacity(self.nodes.len());
        let mut next: u32 = 0;
        for (index, node) in (0..).zip(&self.nodes) {
            outermost.push(NodeId(next));
            let mut used = |chunk: usize| {
                let uses = &mut lifetimes[chunk].uses;
                if uses.last() != Some(&index) {
                    uses.push(index);
                }
            };
            uses_of(node, &mut next, &self.private, &mut used)?;
        }
        let order = Order::is_affordable(self.nodes.len())
            .then(|| Order::of(self.nodes.iter().map(|node| node.after.as_slice())));
        let layout = Layout::of(&lifetimes, order.as_ref());
        Ok(Placement {
            memory: self.private.clone(),
            layout,
            lifetimes,
            outermost,
        })
    }
}

impl Placement {
    /// The address that a node names in an executable whose block starts at `start`.
    pub(crate) fn address(
        &self,
        node: NodeId,
        named: DevicePtr,
        bytes: u64,
        start: DevicePtr,
    ) -> Result<DevicePtr, GraphError> {
        if !PrivateMemory::is_placeholder(named) {
            return Ok(named);
        }
        let (chunk, offset) = find_private(&self.memory, node, named, bytes)?;
        let placed = start.checked_add(self.layout.offsets[chunk] + offset);
        placed.ok_or(GraphError::OutsidePrivate {
            node,
            address: named,
            bytes,
        })
    }

    /// Whether the chunk was named by the node, or the one whose body it is in, when memory was laid out.
    pub(crate) fn was_used(&self, node: NodeId, named: DevicePtr) -> bool {
        if !PrivateMemory::is_placeholder(named) {
            return true;
        }
        let Some((chunk, _)) = self.memory.find(named, 1) else {
            return false;
        };
        let behind = self.outermost.partition_point(|outer| *outer <= node);
        let outer = behind.checked_sub(1).map(u32::try_from);
        let uses = &self.lifetimes[chunk].uses;
        outer.is_some_and(|outer| outer.is_ok_and(|outer| uses.contains(&outer)))
    }
}

/// Makes a copy of the nodes into what the device is given: edges that say nothing go, placeholders become
/// addresses, host functions learn which streams they must not wait for.
struct Maker<'a> {
    placement: &'a Placement,
    start: DevicePtr,
    streams: &'a ReplayStreams,
    next: u32,
}

impl Maker<'_> {
    fn list(&mut self, nodes: &mut [GraphNode]) -> Result<(), GraphError> {
        if Order::is_affordable(nodes.len()) {
            let order = Order::of(nodes.iter().map(|node| node.after.as_slice()));
            for node in &mut *nodes {
                node.after = order.reduced(&node.after);
            }
        }
        for node in nodes {
            let name = NodeId(self.next);
            self.next += 1;
            adapt(
                name,
                &mut node.work,
                self.placement,
                self.start,
                self.streams,
            )?;
            if let NodeWork::If { body, .. } | NodeWork::While { body, .. } = &mut node.work {
                self.list(body)?;
            }
        }
        Ok(())
    }
}

/// Turns a node's placeholders into addresses, and marks its host function.
pub(crate) fn adapt(
    node: NodeId,
    work: &mut NodeWork,
    placement: &Placement,
    start: DevicePtr,
    streams: &ReplayStreams,
) -> Result<(), GraphError> {
    if let NodeWork::CallHost(function) = work {
        *function = streams.marked(Arc::clone(function));
    }
    visit_addresses(work, &mut |named, bytes| {
        placement.address(node, named, bytes, start)
    })
}

/// Calls `used` with each private chunk that the node or its body names.
fn uses_of(
    node: &GraphNode,
    next: &mut u32,
    private: &PrivateMemory,
    used: &mut dyn FnMut(usize),
) -> Result<(), GraphError> {
    let name = NodeId(*next);
    *next = next.saturating_add(1);
    // A copy, since visiting may write; only nodes with placeholders would need it, and graphs are made once.
    let mut work = match &node.work {
        NodeWork::If { condition, .. } | NodeWork::While { condition, .. } => NodeWork::If {
            condition: *condition,
            body: Vec::new(),
        },
        other => other.clone(),
    };
    visit_addresses(&mut work, &mut |named, bytes| {
        if PrivateMemory::is_placeholder(named) {
            used(find_private(private, name, named, bytes)?.0);
        }
        Ok::<_, GraphError>(named)
    })?;
    for inner in node.work.body().unwrap_or_default() {
        uses_of(inner, next, private, used)?;
    }
    Ok(())
}

fn find_private(
    private: &PrivateMemory,
    node: NodeId,
    address: DevicePtr,
    bytes: u64,
) -> Result<(usize, u64), GraphError> {
    private
        .find(address, bytes)
        .ok_or(GraphError::OutsidePrivate {
            node,
            address,
            bytes,
        })
}

/// The node with this number, counted as nodes are named.
fn find(nodes: &[GraphNode], mut number: u64) -> Option<&GraphNode> {
    for node in nodes {
        if number == 0 {
            return Some(node);
        }
        number -= 1;
        let body = node.work.body().unwrap_or_default();
        let inside = count(body);
        if number < inside {
            return find(body, number);
        }
        number -= inside;
    }
    None
}
