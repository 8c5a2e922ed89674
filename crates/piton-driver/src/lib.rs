//! The contract between piton and a device driver: no policy, no state.
//!
//! # The problem
//! Pools, streams and copies should be written once and run on every accelerator, but vendors' interfaces differ
//! in names, in what they can do and in what they promise. This crate says what piton asks of a device: as
//! object-safe traits, with units, ordering, errors and safety on every method.
//!
//! # The idea
//! A [`Driver`] opens [`Device`]s. Every device has three things: [`Memory`], [`Queues`] that run
//! commands in order, and [`Kernels`] to run. Everything else is a *facet*: a method that returns
//! `Some(&dyn …)` if the device has the ability and `None` if it has not. So a caller asks before it calls,
//! and no method answers "unimplemented".
//!
//! **A queue is a counter.** Each accepted command gets the next [`Position`], 1, 2, 3, …; the device advances
//! [`Queue::completed`]. There are no event objects: "is it done", "wait for it", "wake me", "let another
//! queue wait" all name a queue and a position. CUDA keeps that counter with a stream write into a pinned page,
//! OpenCL with a marker's callback, Vulkan with a timeline semaphore, AscendCL with one event for each flush;
//! `docs/design/driver-contract.md` goes through the contract method by method for these four.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | open devices | [`Driver::open`] |
//! | know a device | [`Device::info`] |
//! | take and return device memory | [`Memory`] |
//! | place physical pages at addresses of my choice | [`VirtualMemory`] |
//! | share physical pages with another process | [`PageSharing`] |
//! | get host memory the device can copy from | [`HostMemory`] |
//! | run things in order | [`Queues::create`], [`Queue::submit`], [`Command`] |
//! | load and launch kernels | [`Kernels`], [`Kernel`], [`Launch`] |
//! | run a host function in a queue's order | [`HostFunctions`] |
//! | order work on something the host signals | [`Semaphores`] |
//! | order queues of several processes | [`SemaphoreSharing`] |
//! | wait for a value in device memory | [`MemoryWait`] |
//! | run many commands as one | [`Graphs`], [`ExecutableGraph`] |
//! | copy between devices | [`Peers`] |
//! | read the device's clock | [`Timestamps`] |
//! | use some of the cores only | [`ComputeUnits`] |
//! | see what ran when | [`ExecutionTrace`] |
//! | call the program's code in a backend | [`shield`] |
//!
//! # Who promises what
//! Traits whose answers unsafe code above relies on are `unsafe trait`s: who implements one promises what its
//! `# Safety` section says. Methods that let a device touch memory are `unsafe fn`s: there, the caller promises.
//!
//! # Not here
//! Caching, retries, choice of routes, ways of waiting: policy belongs to the crates above. Vendor libraries: the backends
//! below open them at run time.

mod activity;
mod address;
mod cleared_failures;
mod command;
mod compute_unit;
mod device;
mod driver;
mod error;
mod graph;
mod host_function;
mod host_memory;
mod info;
mod kernel;
mod memory;
mod memory_operation;
mod peer;
mod queue;
mod semaphore;
mod semaphore_sharing;
mod sharing;
pub mod shield;
mod signature;
mod timestamp;
mod trace;
mod virtual_memory;

pub use activity::{Awaited, Front, QueueActivity};
pub use address::{DevicePtr, DeviceRange};
pub use cleared_failures::ClearedFailures;
pub use command::{Command, Origin};
pub use compute_unit::{ComputeUnitKind, ComputeUnitSet, ComputeUnits};
pub use device::Device;
pub use driver::Driver;
pub use error::{DriverError, ErrorKind, Fault, Operation, ResourceKind, VendorCode};
pub use graph::{
    ExecutableGraph, GraphDescription, GraphNode, GraphRefusal, Graphs, NodeWork,
    RepeatedHostFunction,
};
pub use host_function::{HostFunction, HostFunctions};
pub use host_memory::{HostAllocation, HostMemory, HostMemoryOptions, Locking};
pub use info::{DeviceId, DeviceInfo, Limits, PciAddress};
pub use kernel::{Grid, Kernel, Kernels, Launch, Module, ModuleImage};
pub use memory::{Memory, MemoryUsage};
pub use memory_operation::{Comparison, MemoryWait, MemoryWord};
pub use peer::{LinkClass, PeerAddress, PeerLink, Peers};
pub use queue::{
    Admission, FillPattern, HardwareQueue, OnFailure, Placement, Position, Priority, PriorityRange,
    Queue, QueueFailure, QueueHold, QueueId, QueueOptions, QueueWait, QueueWriter, Queues,
    WaitOutcome,
};
pub use semaphore::{Semaphore, Semaphores, SignalledBy};
pub use semaphore_sharing::{ExportedSemaphore, SemaphoreSharing};
pub use sharing::{ExportedPages, PageSharing};
pub use signature::{Access, Parameter, Signature};
pub use timestamp::{TimestampPool, Timestamps};
pub use trace::{ExecutionRecord, ExecutionTrace, SemaphoreId, Signal};
pub use virtual_memory::{PageGranularity, PhysicalHandle, VirtualMemory};
