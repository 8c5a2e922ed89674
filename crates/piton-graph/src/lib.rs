//! Graphs of work: captured from streams or built by hand, instantiated once, replayed as one command.
//!
//! # The problem
//! An engine that runs the same hundred kernels a thousand times a second pays for each of them every time: its
//! arguments are checked and copied, its waits resolved, its place in a ring taken, though nothing has changed.
//!
//! # The idea
//! A graph is the work written down once: nodes, and for each node the nodes it comes after. Instantiating checks all of
//! it, drops edges that others imply, lays out the parameters, and places the graph's private chunks in one block, where chunks
//! whose lifetimes do not meet share bytes. A replay is then *one* command of a stream, whatever the graph's size.
//!
//! ```
//! use piton_driver::{DeviceId, Driver, FillPattern, NodeWork};
//! use piton_graph::{GraphBuilder, PrivateMemory};
//! use piton_sim::{DeviceConfig, SimConfig, SimDriver};
//! use piton_stream::{StreamOptions, Streams};
//! use piton_timeline::Timeline;
//!
//! # #[expect(unsafe_code, reason = "replays promise their memory")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default()))?;
//! let device = driver.open(DeviceId(0))?;
//! let stream = Streams::new(Timeline::new()).create(&device, StreamOptions::labelled("compute"))?;
//!
//! let mut private = PrivateMemory::new();
//! let (a, b) = (private.chunk(4096)?, private.chunk(4096)?);
//! let mut graph = GraphBuilder::new();
//! let fill = |dst, word| NodeWork::Fill { dst, pattern: FillPattern::Word(word), bytes: 4096 };
//! let filled = graph.add(fill(a.ptr(), 7), &[])?;
//! let copy = NodeWork::CopyOnDevice { dst: b.ptr(), src: a.ptr(), bytes: 4096 };
//! graph.add(copy, &[filled])?;
//!
//! let mut executable = graph.finish(private).instantiate(&device)?;
//! // SAFETY: its nodes name private chunks and nothing else.
//! unsafe { executable.launch(&stream)? };
//! executable.update(filled, fill(a.ptr(), 8))?;
//! // SAFETY: as above.
//! unsafe { executable.launch(&stream)? };
//! stream.synchronize()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | write down what a program submits | [`Stream::begin_capture`](piton_stream::Stream::begin_capture), [`Graph::from_capture`] |
//! | build a graph node by node | [`GraphBuilder`], [`NodeId`] |
//! | run a part if, or as long as, a value on the device is not zero | [`GraphBuilder::add_if`], [`GraphBuilder::add_while`] |
//! | have memory that lives within a replay | [`PrivateMemory`], [`PrivateChunk`] |
//! | make it ready to run | [`Graph::instantiate`], [`Executable`] |
//! | run it | [`Executable::launch`] |
//! | run it with other arguments | [`Executable::update`] |
//!
//! # Guarantees
//! - A replay leaves memory as the captured program would have left it, whatever order the device chooses among nodes
//!   that no edge orders.
//! - Replays of one executable never overlap. An update is for later ones.
//! - Private memory is given back when the executable and its last replay are gone, and no earlier.
//!
//! # Not here
//! Recording a capture: `piton-stream`. Running a graph: the backend. Graphs within graphs: there are none. Knowing which
//! buffers a replay may use: launching is unsafe here, and `piton-buffer` makes it safe.

mod builder;
mod error;
mod executable;
mod graph;
mod layout;
mod node;
mod order;
mod private_memory;

pub use builder::GraphBuilder;
pub use error::GraphError;
pub use executable::{Behind, Executable};
pub use graph::Graph;
pub use node::NodeId;
pub use piton_driver::NodeWork;
pub use private_memory::{PrivateBlock, PrivateChunk, PrivateMemory};
