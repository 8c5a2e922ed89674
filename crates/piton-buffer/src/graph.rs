//! Graphs over buffers: recorded safely, replayed safely.
//!
//! # The idea
//! A [`GraphRecorder`] is told what to do with which buffers, in the program's order, and nothing of streams or events:
//! a node comes after the nodes that used its memory before in a conflicting way, so what is independent may overlap.
//! Memory that lives within a replay is a [`ScratchBuffer`] of the graph.
//!
//! Recording borrows buffers for the call only. A replay is given them again: [`ReadyGraph::replay`], then
//! [`Replay::read`] and [`Replay::write`] for each buffer that the graph uses. So the borrow checker keeps everybody
//! else out while the replay is ordered behind the buffers' last uses and noted as their next, as with a launch; what
//! was recorded and is not given is an error; and buffers may come and go between replays.

mod launch;
mod operand;
mod parameters;
mod recorder;
mod replay;

pub use launch::GraphLaunch;
pub use operand::{GraphCondition, GraphSlice, GraphSliceMut, ScratchBuffer};
pub use recorder::GraphRecorder;
pub use replay::{ReadyGraph, Replay};
