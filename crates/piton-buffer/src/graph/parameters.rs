//! Changing what a ready graph's nodes are given by value. What memory they name stays, so replays stay safe.

use super::ReadyGraph;
use crate::{BufferError, copy::pattern};
use bytemuck::Pod;
use piton_driver::{Grid, NodeWork, Parameter};
use piton_graph::{GraphError, NodeId};

impl ReadyGraph {
    /// Gives a launch another value as parameter `index`, for replays that are submitted from now on.
    ///
    /// # Errors
    /// [`NotAValue`](BufferError::NotAValue) where the parameter is a buffer, of another size, or not there;
    /// [`Graph`](BufferError::Graph) for a node that is no launch. Nothing has changed.
    pub fn set_value<T: Pod>(
        &mut self,
        node: NodeId,
        index: usize,
        value: T,
    ) -> Result<(), BufferError> {
        self.change(node, |work| {
            let NodeWork::Launch {
                kernel, arguments, ..
            } = work
            else {
                return Err(unknown(node));
            };
            let signature = kernel.signature();
            let bytes = bytemuck::bytes_of(&value);
            let refused = BufferError::NotAValue {
                index,
                given: bytes.len(),
            };
            let offset = match signature.parameters().get(index) {
                Some(Parameter::Value { bytes: wanted, .. }) if *wanted as usize == bytes.len() => {
                    signature.offset(index)
                }
                _ => return Err(refused),
            };
            let at = offset.and_then(|offset| usize::try_from(offset).ok());
            match at.and_then(|at| arguments.get_mut(at..at + bytes.len())) {
                Some(place) => {
                    place.copy_from_slice(bytes);
                    Ok(())
                }
                None => Err(refused),
            }
        })
    }

    /// Gives a launch another grid, for replays that are submitted from now on. Its kernel stays within the buffers it
    /// was recorded with, as far as the device watches it.
    ///
    /// # Errors
    /// [`Graph`](BufferError::Graph) for a node that is no launch, or a grid without blocks or with too many.
    pub fn set_grid(&mut self, node: NodeId, blocks: Grid) -> Result<(), BufferError> {
        self.change(node, |work| match work {
            NodeWork::Launch { grid, .. } => {
                *grid = blocks;
                Ok(())
            }
            _ => Err(unknown(node)),
        })
    }

    /// Gives a fill another value of the same size, for replays that are submitted from now on.
    ///
    /// # Errors
    /// [`FillSize`](BufferError::FillSize); [`Graph`](BufferError::Graph) for a node that is no fill.
    pub fn set_fill<T: Pod>(&mut self, node: NodeId, value: T) -> Result<(), BufferError> {
        let fresh = pattern(bytemuck::bytes_of(&value))?;
        self.change(node, |work| match work {
            NodeWork::Fill { pattern, .. } if pattern.bytes() == fresh.bytes() => {
                *pattern = fresh;
                Ok(())
            }
            NodeWork::Fill { .. } => Err(BufferError::FillSize {
                bytes: size_of::<T>(),
            }),
            _ => Err(unknown(node)),
        })
    }

    /// Changes a copy of what the node was recorded as, and takes it if the device does.
    fn change(
        &mut self,
        node: NodeId,
        change: impl FnOnce(&mut NodeWork) -> Result<(), BufferError>,
    ) -> Result<(), BufferError> {
        let held = self.works.get_mut(&node).ok_or_else(|| unknown(node))?;
        let mut work = held.clone();
        change(&mut work)?;
        self.executable.update(node, work.clone())?;
        *held = work;
        Ok(())
    }
}

fn unknown(node: NodeId) -> BufferError {
    GraphError::UnknownNode { node }.into()
}
