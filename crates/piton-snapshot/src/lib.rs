//! PyTorch's memory snapshots: read as histories of allocations, and written so that its viewer opens them.
//!
//! # Problem
//! Programs on PyTorch record what they ask of its allocator with `torch.cuda.memory._record_memory_history()` and dump it
//! with `_dump_snapshot()`; its viewer, `memory_viz`, shows such dumps. To judge a pool on real programs one has to read them, and
//! to look into a pool it helps to write them. But the files are pickles: programs for a little machine, which in Python may call
//! anything, and they come from strangers.
//!
//! # Idea
//! [`pickle`] reads the part of the language that makes plain data, and refuses the rest by name and offset before it does
//! anything. [`Snapshot`] is the plain data with names: segments, their blocks, and for each device a ring of
//! events. [`Snapshot::history`] turns the ring into requests that can be replayed; [`Snapshot::to_pickle`] writes it back.
//!
//! The structure is the one that PyTorch documents under "Understanding CUDA Memory Usage", *Snapshot API Reference*
//! (<https://docs.pytorch.org/docs/stable/torch_cuda_memory.html>): `Snapshot`, `Segment`, `Block`, `TraceEntry`.
//!
//! # Guarantees
//! - Nothing is executed, imported or looked up, whatever the file says.
//! - Time and memory grow with the length of the file and not with what it says. A value that is used twice is not copied, so a
//!   small file cannot unfold into a large one; and nothing recurses, however deeply values are nested.
//! - No public function panics, whatever it is given.
//!
//! # Not here
//! Stack traces: frames are passed over when reading and left empty when writing. Pools, which tell what to write.
//!
//! | I want to | type |
//! | --- | --- |
//! | read a dump | [`Snapshot::from_pickle`] |
//! | replay what it recorded | [`Snapshot::history`], [`Request`] |
//! | write one | [`Snapshot::to_pickle`] |
//! | read other plain pickles | [`pickle::read`], [`pickle::Value`] |
//!
//! ```
//! use piton_snapshot::pickle::Limits;
//! use piton_snapshot::{Action, Event, Request, Snapshot};
//!
//! let event = Event { action: Action::Allocate, address: 4096, bytes: 100, stream: 0, time_us: 0 };
//! let snapshot = Snapshot { segments: Vec::new(), device_events: vec![vec![event]] };
//! let read = Snapshot::from_pickle(&snapshot.to_pickle(), &Limits::default())?;
//! assert_eq!(read.history(0)?.requests, [Request::Allocate { id: 0, bytes: 100, stream: 0 }]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod history;
pub mod pickle;
mod read;
mod snapshot;
mod write;

pub use error::{HistoryError, SnapshotError};
pub use history::{History, Request};
pub use snapshot::{Action, Block, BlockState, Event, Segment, Snapshot};
