//! Putting a graph together by hand: nodes, what each comes after, bodies.

use crate::{Graph, GraphError, NodeId, PrivateMemory, node::count};
use piton_driver::{Command, DevicePtr, GraphNode, NodeWork, Origin};
use piton_stream::Captured;
use std::panic::Location;

/// A list of nodes being put together: a graph's, or a body's within it.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    nodes: Vec<GraphNode>,
    /// The names of `nodes`, ascending.
    names: Vec<NodeId>,
    /// The name of the next node of the whole graph.
    next: u32,
    /// How many bodies it lies in.
    depth: u32,
}

/// Bodies within bodies, at most: lists are walked by calls within calls, on whatever thread has them.
const MOST_DEPTH: u32 = 128;

impl GraphBuilder {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node that comes after others of this list.
    ///
    /// # Errors
    /// [`UnknownNode`](GraphError::UnknownNode) for one that is in no list, or in another;
    /// [`TooManyNodes`](GraphError::TooManyNodes).
    #[track_caller]
    pub fn add(&mut self, work: NodeWork, after: &[NodeId]) -> Result<NodeId, GraphError> {
        let after = self.indices(after)?;
        self.push(work, after, Location::caller())
    }

    /// Adds a command as a node; what it names by reference is copied.
    ///
    /// # Errors
    /// As [`add`](Self::add); [`NotANode`](GraphError::NotANode) for what has no place in a graph.
    #[track_caller]
    pub fn add_command(
        &mut self,
        command: &Command<'_>,
        after: &[NodeId],
    ) -> Result<NodeId, GraphError> {
        let work = NodeWork::of(command).ok_or(GraphError::NotANode)?;
        let after = self.indices(after)?;
        self.push(work, after, Location::caller())
    }

    /// Adds a body that runs once if the `u32` at `condition` is not zero when its turn has come.
    ///
    /// # Errors
    /// As [`add`](Self::add), and what `body` returns; then nothing was added. [`TooDeep`](GraphError::TooDeep) for more bodies
    /// within bodies than can be.
    #[track_caller]
    pub fn add_if(
        &mut self,
        condition: DevicePtr,
        after: &[NodeId],
        body: impl FnOnce(&mut Self) -> Result<(), GraphError>,
    ) -> Result<NodeId, GraphError> {
        let origin = Location::caller();
        let (after, body) = (self.indices(after)?, self.body(body)?);
        self.push(NodeWork::If { condition, body }, after, origin)
    }

    /// Adds a body that runs as long as the `u32` at `condition` is not zero, looked at before each run.
    ///
    /// # Errors
    /// As [`add_if`](Self::add_if).
    #[track_caller]
    pub fn add_while(
        &mut self,
        condition: DevicePtr,
        after: &[NodeId],
        body: impl FnOnce(&mut Self) -> Result<(), GraphError>,
    ) -> Result<NodeId, GraphError> {
        let origin = Location::caller();
        let (after, body) = (self.indices(after)?, self.body(body)?);
        self.push(NodeWork::While { condition, body }, after, origin)
    }

    /// Adds what a capture recorded; its first nodes come after `after`. Returns the names, in order of submission.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_captured(
        &mut self,
        captured: Captured,
        after: &[NodeId],
    ) -> Result<Vec<NodeId>, GraphError> {
        let after = self.indices(after)?;
        let mut names = Vec::with_capacity(captured.nodes.len());
        let base = Self::index(self.nodes.len())?;
        for node in captured.nodes {
            let edges = node.after.iter().map(|edge| {
                let unknown = GraphError::UnknownNode {
                    node: NodeId(*edge),
                };
                let earlier = base.checked_add(*edge);
                earlier
                    .filter(|edge| (*edge as usize) < self.nodes.len())
                    .ok_or(unknown)
            });
            let mut edges: Vec<u32> = edges.collect::<Result<_, _>>()?;
            if edges.is_empty() {
                edges.clone_from(&after);
            }
            names.push(self.push(node.work, edges, node.origin)?);
        }
        Ok(names)
    }

    /// The graph, with the private chunks its nodes name.
    pub fn finish(self, private: PrivateMemory) -> Graph {
        Graph::new(self.nodes, private)
    }

    /// A body, whose nodes are named from behind the node that it will belong to.
    fn body(
        &self,
        body: impl FnOnce(&mut Self) -> Result<(), GraphError>,
    ) -> Result<Vec<GraphNode>, GraphError> {
        let (depth, limit) = (self.depth + 1, MOST_DEPTH);
        if depth > limit {
            return Err(GraphError::TooDeep { limit });
        }
        let mut inner = Self {
            next: self.next.saturating_add(1),
            depth,
            ..Self::default()
        };
        body(&mut inner)?;
        Ok(inner.nodes)
    }

    fn push(
        &mut self,
        work: NodeWork,
        after: Vec<u32>,
        origin: Origin,
    ) -> Result<NodeId, GraphError> {
        let limit = u64::from(u32::MAX);
        let names = 1 + work.body().map_or(0, count);
        let next = u64::from(self.next) + names;
        let next = u32::try_from(next).map_err(|_| GraphError::TooManyNodes { limit })?;
        let name = NodeId(self.next);
        self.next = next;
        self.names.push(name);
        self.nodes.push(GraphNode {
            work,
            after,
            origin,
        });
        Ok(name)
    }

    fn indices(&self, after: &[NodeId]) -> Result<Vec<u32>, GraphError> {
        let index = |node: &NodeId| {
            let unknown = GraphError::UnknownNode { node: *node };
            let found = self.names.binary_search(node);
            found.map_err(|_| unknown).and_then(Self::index)
        };
        after.iter().map(index).collect()
    }

    fn index(at: usize) -> Result<u32, GraphError> {
        let limit = u64::from(u32::MAX);
        u32::try_from(at).map_err(|_| GraphError::TooManyNodes { limit })
    }
}
