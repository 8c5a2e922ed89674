//! What cannot be asked of flows.

use crate::flow::{FlowId, ResourceId};

/// A call that cannot be answered or carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FluidError {
    /// A resource that does not exist.
    #[error("{resource} does not exist; there are {resources}")]
    UnknownResource {
        /// The resource named.
        resource: ResourceId,
        /// How many there are.
        resources: u32,
    },
    /// A flow that has ended, was cancelled, or never began.
    #[error("{flow} is not under way")]
    UnknownFlow {
        /// The flow named.
        flow: FlowId,
    },
    /// A flow without bytes, which would end before it begins.
    #[error("a flow of zero bytes")]
    NoBytes,
    /// A flow of no weight, which would never end.
    #[error("a flow of weight zero")]
    NoWeight,
    /// A flow through nothing, which no resource limits.
    #[error("a flow through no resource")]
    NoResource,
    /// What is left cannot move: every flow under way has rate zero and none is about to begin.
    #[error("{flows} flows are under way and none can move, {flow} first")]
    Stalled {
        /// How many are left.
        flows: usize,
        /// The first of them.
        flow: FlowId,
    },
}
