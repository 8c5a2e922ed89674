//! Graphs: many commands and their order, put together once and run as one command.
//!
//! # Protocol
//! - [`Graphs::instantiate`] checks every node as a submission would, lays the parameters out, and gives an
//!   executable. [`Command::RunGraph`](crate::Command::RunGraph) runs it: one command, one position, whatever the
//!   number of nodes.
//! - A node starts when all nodes it comes `after` have ended. Nodes that no edge orders may run at the same time,
//!   or in any order. The position ends when every node has ended, or none that has not started will.
//! - A node that fails fails the position, with the node's operation and origin. Nodes ordered after it never run;
//!   nodes that are not ordered with it have run or have not. Later commands of the queue meet the failure as any.
//! - [`Queue::abort`](crate::Queue::abort) of a queue that runs a graph: nodes that have not started do not, and a
//!   loop ends. The position fails with [`Aborted`](crate::ErrorKind::Aborted).
//! - A replay runs with the parameters as they were when it was submitted; [`ExecutableGraph::update`] may be called
//!   meanwhile and is for later ones.
//! - Two replays of one executable are two commands like any others: ordered on one queue, and not ordered on two
//!   unless those are. Whoever submits them orders them where the memory of their nodes conflicts, which is nearly
//!   always. A backend whose driver runs an executable once at a time (CUDA does) orders them itself.
//! - An executable that is dropped while replays are in flight goes, with all that its description keeps, when
//!   the last of them has ended.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers and callers promise"
)]

use crate::{
    Command, DeviceId, DevicePtr, DriverError, FillPattern, Grid, Kernel, Launch, Operation,
    Origin, PeerAddress,
};
use std::{
    any::Any,
    fmt::{self, Debug},
    ptr::NonNull,
    sync::Arc,
};
use thiserror::Error;

/// A function of the host that runs at every replay.
pub type RepeatedHostFunction = Arc<dyn Fn() + Send + Sync + 'static>;

/// What a graph consists of.
#[derive(Clone, Debug, Default)]
pub struct GraphDescription {
    /// The nodes. Edges point to nodes that come earlier.
    pub nodes: Vec<GraphNode>,
    /// What must live as long as the executable and its replays: the memory that nodes name, if its owner gives it
    /// away. Dropped on any thread, under no lock.
    pub kept: Vec<Arc<dyn Any + Send + Sync>>,
}

/// One node.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// What it does.
    pub work: NodeWork,
    /// The nodes it comes after: indices of earlier nodes of the same list.
    pub after: Vec<u32>,
    /// Where in the program it was put into the graph.
    pub origin: Origin,
}

/// What a node does: a command that owns what it names. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone)]
pub enum NodeWork {
    /// Nothing. Useful to tie edges together.
    Empty,
    /// Launches a kernel; see [`Launch`].
    Launch {
        /// The kernel.
        kernel: Arc<dyn Kernel>,
        /// How many blocks.
        grid: Grid,
        /// The packed arguments.
        arguments: Box<[u8]>,
        /// How far each buffer argument reaches, or nothing at all.
        extents: Box<[u64]>,
    },
    /// Copies page-locked host memory to the device.
    CopyToDevice {
        /// Where to.
        dst: DevicePtr,
        /// Where from.
        src: NonNull<u8>,
        /// How many.
        bytes: u64,
    },
    /// Copies device memory to page-locked host memory.
    CopyToHost {
        /// Where to.
        dst: NonNull<u8>,
        /// Where from.
        src: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// Copies within the device. Overlapping ranges are refused.
    CopyOnDevice {
        /// Where to.
        dst: DevicePtr,
        /// Where from.
        src: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// Copies between two devices, one of which is the graph's. For devices with [`Peers`](crate::Peers).
    CopyPeer {
        /// Where to.
        dst: PeerAddress,
        /// Where from.
        src: PeerAddress,
        /// How many.
        bytes: u64,
    },
    /// Fills device memory with a repeated pattern.
    Fill {
        /// Where to.
        dst: DevicePtr,
        /// What with.
        pattern: FillPattern,
        /// How many; a multiple of the pattern's size.
        bytes: u64,
    },
    /// Calls a host function, as [`HostFunctions`](crate::HostFunctions) does. For devices with that facet.
    CallHost(RepeatedHostFunction),
    /// Runs a body once if the `u32` at `condition` is not zero when the node's turn has come.
    If {
        /// Where the value is; a multiple of 4.
        condition: DevicePtr,
        /// The nodes of the body; edges are indices within it.
        body: Vec<GraphNode>,
    },
    /// Runs a body as long as the `u32` at `condition` is not zero: looked at when the node's turn has come and
    /// after each run of the body. Nothing bounds the number of runs but an abort or a failure.
    While {
        /// Where the value is; a multiple of 4.
        condition: DevicePtr,
        /// The nodes of the body; edges are indices within it.
        body: Vec<GraphNode>,
    },
}

// SAFETY: everything but the host address of a copy is numbers and `Send + Sync` things. The address is only
// handed on; whoever submits a replay promises that it is valid on whatever thread that is.
unsafe impl Send for NodeWork {}

// SAFETY: a shared reference gives no more than a copy of the value, which is `Send`.
unsafe impl Sync for NodeWork {}

impl NodeWork {
    /// The command as a node, with everything it names owned; `None` for what has no place in a graph: waits,
    /// signals, timestamps, writes that others wait for, other graphs.
    pub fn of(command: &Command<'_>) -> Option<Self> {
        Some(match *command {
            Command::Launch(Launch {
                kernel,
                grid,
                arguments,
                extents,
            }) => Self::Launch {
                kernel: Arc::clone(kernel),
                grid,
                arguments: arguments.into(),
                extents: extents.into(),
            },
            Command::CopyToDevice { dst, src, bytes } => Self::CopyToDevice { dst, src, bytes },
            Command::CopyToHost { dst, src, bytes } => Self::CopyToHost { dst, src, bytes },
            Command::CopyOnDevice { dst, src, bytes } => Self::CopyOnDevice { dst, src, bytes },
            Command::CopyPeer { dst, src, bytes } => Self::CopyPeer { dst, src, bytes },
            Command::Fill {
                dst,
                pattern,
                bytes,
            } => Self::Fill {
                dst,
                pattern,
                bytes,
            },
            _ => return None,
        })
    }

    /// The contract's name for it. A node that only decides or ties edges together is part of running the graph.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Launch { .. } => Operation::Launch,
            Self::CopyToDevice { .. } => Operation::CopyToDevice,
            Self::CopyToHost { .. } => Operation::CopyToHost,
            Self::CopyOnDevice { .. } => Operation::CopyOnDevice,
            Self::CopyPeer { .. } => Operation::CopyPeer,
            Self::Fill { .. } => Operation::Fill,
            Self::CallHost(_) => Operation::CallHost,
            Self::Empty | Self::If { .. } | Self::While { .. } => Operation::RunGraph,
        }
    }

    /// The nodes of its body, if it has one.
    pub fn body(&self) -> Option<&[GraphNode]> {
        match self {
            Self::If { body, .. } | Self::While { body, .. } => Some(body),
            _ => None,
        }
    }
}

impl Debug for NodeWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::If { condition, body } => write!(f, "If({condition}, {} nodes)", body.len()),
            Self::While { condition, body } => {
                write!(f, "While({condition}, {} nodes)", body.len())
            }
            other => write!(f, "{:?}", other.operation()),
        }
    }
}

/// Why a graph was not instantiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("node {node}: {error}")]
pub struct GraphRefusal {
    /// The node the error is about, numbered as [`ExecutableGraph::update`] numbers them.
    pub node: u32,
    /// What is wrong with it.
    #[source]
    pub error: DriverError,
}

/// Making executables of graphs.
pub trait Graphs: Send + Sync {
    /// Checks a graph and makes an executable of it. May take long; do it once.
    ///
    /// Nothing runs, so nothing is asked of the memory that nodes name; whoever submits a replay promises that.
    ///
    /// # Errors
    /// The first node refused: what [`Queue::submit`](crate::Queue::submit) refuses of such a command;
    /// [`InvalidIndex`](crate::ErrorKind::InvalidIndex) for an edge to a node that is not earlier;
    /// [`Misaligned`](crate::ErrorKind::Misaligned) and [`UnknownAddress`](crate::ErrorKind::UnknownAddress) for a
    /// condition.
    fn instantiate(
        &self,
        graph: GraphDescription,
    ) -> Result<Arc<dyn ExecutableGraph>, GraphRefusal>;
}

/// A graph that is ready to run.
///
/// # Safety
/// Implementers promise the protocol at the top of this module: unsafe code above frees and reuses memory on the
/// order of nodes, and on what is kept until the last replay has ended.
pub unsafe trait ExecutableGraph: Any + Send + Sync + Debug {
    /// The device it runs on.
    fn device(&self) -> DeviceId;

    /// How many nodes it has, those of bodies included.
    fn node_count(&self) -> u32;

    /// Gives a node other ends or arguments, for replays that are submitted from now on. Does not wait for those
    /// in flight.
    ///
    /// Nodes are numbered in the order of the description, from 0; a body's nodes come right behind the node they
    /// belong to. The kind stays, and so does a kernel's signature; the kernel itself may be another. Of a node with
    /// a body the condition is changed, and the body given is not looked at.
    ///
    /// # Errors
    /// [`InvalidIndex`](crate::ErrorKind::InvalidIndex) for a node that is not there;
    /// [`OtherNode`](crate::ErrorKind::OtherNode) for another kind of work or another signature; and what
    /// [`Graphs::instantiate`] refuses. The executable is as it was.
    fn update(&self, node: u32, work: &NodeWork) -> Result<(), DriverError>;
}
