//! The name of a node, and where in a node's work device memory is named.

use piton_driver::{DevicePtr, GraphNode, NodeWork, Parameter, Signature};
use std::fmt;

/// A node of a graph. The number counts nodes in the order they were added, those of bodies behind the node they
/// belong to; a captured graph's nodes are numbered as they were submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// How many nodes a list has, bodies included.
pub(crate) fn count(nodes: &[GraphNode]) -> u64 {
    let bodies = nodes.iter().filter_map(|node| node.work.body());
    nodes.len() as u64 + bodies.map(count).sum::<u64>()
}

/// Visits each device address that the work itself names (not those of a body), with the bytes it says it uses
/// there, and puts what comes back in its place.
pub(crate) fn visit_addresses<E>(
    work: &mut NodeWork,
    visit: &mut dyn FnMut(DevicePtr, u64) -> Result<DevicePtr, E>,
) -> Result<(), E> {
    match work {
        NodeWork::Launch {
            kernel,
            arguments,
            extents,
            ..
        } => return visit_arguments(kernel.signature(), arguments, extents, visit),
        NodeWork::CopyToDevice { dst, bytes, .. } | NodeWork::Fill { dst, bytes, .. } => {
            *dst = visit(*dst, *bytes)?;
        }
        NodeWork::CopyToHost { src, bytes, .. } => *src = visit(*src, *bytes)?,
        NodeWork::CopyOnDevice { dst, src, bytes } => {
            *dst = visit(*dst, *bytes)?;
            *src = visit(*src, *bytes)?;
        }
        NodeWork::CopyPeer { dst, src, bytes } => {
            dst.ptr = visit(dst.ptr, *bytes)?;
            src.ptr = visit(src.ptr, *bytes)?;
        }
        NodeWork::If { condition, .. } | NodeWork::While { condition, .. } => {
            *condition = visit(*condition, 4)?;
        }
        _ => {}
    }
    Ok(())
}

fn visit_arguments<E>(
    signature: &Signature,
    arguments: &mut [u8],
    extents: &[u64],
    visit: &mut dyn FnMut(DevicePtr, u64) -> Result<DevicePtr, E>,
) -> Result<(), E> {
    let mut extents = extents.iter();
    for (index, parameter) in signature.parameters().iter().enumerate() {
        if !matches!(parameter, Parameter::Buffer { .. }) {
            continue;
        }
        // A launch that does not say how far a buffer reaches uses its first byte at least.
        let bytes = extents.next().copied().unwrap_or(1);
        let offset = signature.offset(index).map(usize::try_from);
        let Some(Ok(at)) = offset else { continue };
        if let Some(packed) = arguments.get_mut(at..at + 8)
            && let Ok(held) = <[u8; 8]>::try_from(&*packed)
        {
            let moved = visit(DevicePtr::new(u64::from_ne_bytes(held)), bytes)?;
            packed.copy_from_slice(&moved.address().to_ne_bytes());
        }
    }
    Ok(())
}
