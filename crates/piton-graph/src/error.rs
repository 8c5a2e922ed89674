//! Why a graph came to nothing.

use piton_driver::{DevicePtr, DriverError, Origin};
use piton_stream::StreamError;
use thiserror::Error;

use crate::NodeId;

/// Why a graph was not built, instantiated, updated or replayed. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// The stream refused the replay or the wait before it.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The device refused a call that is about no node.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The device refused a node.
    #[error("{node}, added at {origin}: {error}")]
    Node {
        /// Which.
        node: NodeId,
        /// Where it was added or submitted.
        origin: Origin,
        /// Why.
        error: DriverError,
    },
    /// The device has no graphs.
    #[error("the device has no graphs")]
    Unsupported,
    /// The command has no place in a graph: it waits, signals, or is a graph itself.
    #[error("the command has no place in a graph")]
    NotANode,
    /// A node is not in the graph, or not in the list that the new node is added to.
    #[error("{node} is not in this list of nodes")]
    UnknownNode {
        /// Which.
        node: NodeId,
    },
    /// More nodes than are numbered.
    #[error("a graph has {limit} nodes at most")]
    TooManyNodes {
        /// How many there may be.
        limit: u64,
    },
    /// Bodies within bodies, more than there can be.
    #[error("bodies of a graph lie in each other {limit} deep at most")]
    TooDeep {
        /// How many there may be.
        limit: u32,
    },
    /// A private chunk of no bytes or too many.
    #[error("a private chunk of {bytes} bytes is not between 1 and {maximum}")]
    InvalidSize {
        /// Bytes asked for.
        bytes: u64,
        /// Most that is left to ask for.
        maximum: u64,
    },
    /// A node reaches past the end of a private chunk, or names one that was not made for this graph.
    #[error("{node} names {bytes} bytes at {address}, which is not within a private chunk")]
    OutsidePrivate {
        /// Which node.
        node: NodeId,
        /// The address it names, before instantiation.
        address: DevicePtr,
        /// How many bytes it says it uses there.
        bytes: u64,
    },
    /// An update would use a private chunk that the node did not use when the memory was laid out.
    #[error("{node} did not use the private chunk at {address} when memory was laid out")]
    NewPrivateUse {
        /// Which node.
        node: NodeId,
        /// The address it names, before instantiation.
        address: DevicePtr,
    },
    /// The memory given for private chunks is too small.
    #[error("{given} bytes of private memory where {needed} are needed")]
    BlockTooSmall {
        /// Bytes given.
        given: u64,
        /// Bytes needed.
        needed: u64,
    },
}
