//! Buffers that remember their uses, and safe operations on them.
//!
//! # The problem
//! A stream runs its commands later, and they name memory by address. A program that frees, reuses, reads or moves that memory
//! before they have run corrupts data, and a raw command does not say which memory is still in use.
//!
//! # The idea
//! A [`DeviceBuffer`] carries the timepoints of its last reads and writes. Every operation here takes buffers
//! by reference, shared to read and exclusive to write. It makes its stream wait for the earlier uses it depends on
//! (mostly there is nothing to wait for, since the timeline knows what is ordered already), submits, and notes the new use. Dropping a
//! buffer frees its memory after its last uses. Page-locked host memory moves *into* a copy and comes back from it, so
//! no reference to it exists while a device may write it.
//!
//! The crates below (`piton-stream`, `piton-transfer`) have unsafe functions, whose callers must promise that memory stays valid
//! and ordered. This is the one crate that makes those promises on behalf of safe code. The facade `piton` re-exports it and adds
//! no unsafe code of its own.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | run work in order | [`Stream`] |
//! | hold elements on a device | [`Stream::allocate`], [`DeviceBuffer`] |
//! | keep memory to a part of a program, or to a graph | [`PrivatePool`], [`Stream::allocate_from`], [`GraphRecorder::keep_scratch_in`] |
//! | serve steps that repeat from a plan | [`PlannedPool`], [`Stream::allocate_planned`] |
//! | use a part of a buffer | [`DeviceBuffer::slice`], [`DeviceSlice`], [`DeviceSliceMut`] |
//! | hold elements a device can copy by itself | [`Stream::pinned`], [`PinnedBuffer`] |
//! | have a device copy elements of a `Vec` or box that the program has already | [`Stream::register`], [`PinnedBuffer::into_boxed_slice`] |
//! | have a device copy elements that the program only borrows | [`Stream::lend`], [`LentBuffer`] |
//! | lend a device its pages back for a while, keeping addresses and contents | [`Stream::suspend`], [`Stream::resume`] |
//! | have kernels use page-locked elements in place, without a copy | [`PinnedBuffer::into_view`], [`HostView`], [`Stream::take_back`] |
//! | launch a kernel | [`Stream::launch`], [`KernelLaunch`] |
//! | load kernels, once | [`DeviceContext::load`], [`LoadedModule`], [`LoadedKernel`] |
//! | copy and get the host memory back | [`Stream::copy_to_device`], [`Stream::copy_to_host`], [`Transfer`] |
//! | copy from and to ordinary memory | [`Stream::write`], [`Stream::read`], [`Stream::read_into`] |
//! | write work down once and replay it as one command | [`GraphRecorder`], [`ReadyGraph`], [`Replay`] |
//! | wait for a value in a buffer, write one | [`Stream::wait_value`], [`Stream::write_value`] |
//! | make a stream wait for the host | [`Stream::wait_semaphore`], [`Stream::signal_semaphore`] |
//! | end work early, go on after a failure | [`Stream::abort`], [`Stream::clear_error`] |
//! | see who waits for whom, notice what hangs | [`DeviceContext::dump_streams`], [`DeviceContext::watchdog`] |
//! | copy between buffers of one device, or of two | [`Stream::copy`], [`Stream::copy_peer`], [`Stream::copy_peer_weighing`] |
//!
//! # Guarantees
//! - Work that conflicts over a buffer is ordered as the program submitted it, whatever streams it is on.
//! - Memory is not reused, freed or handed back before every command that names it has ended, even if the program drops or
//!   forgets values in any order, or panics.
//!
//! # Where it starts
//! [`DeviceContext::open`] makes pools, streams and copies for a set of open devices.
//!
//! # Not here
//! Opening devices, choosing drivers, reading configuration: the facade.

mod admitted;
mod arguments;
mod context;
mod copy;
mod device_buffer;
mod device_memory;
mod error;
mod graph;
mod host_view;
mod landing;
mod launch;
mod lent;
mod memory_value;
mod modules;
mod ordinary;
mod patient;
mod peer_copy;
mod pinned_buffer;
mod planned_pool;
mod private_pool;
mod recovery;
mod semaphores;
mod staged;
mod staged_pace;
mod stream;
mod suspended;
mod transfer;
mod uses;
mod witness;

pub use context::DeviceContext;
pub use device_buffer::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
pub use error::BufferError;
pub use graph::{
    GraphCondition, GraphLaunch, GraphRecorder, GraphSlice, GraphSliceMut, ReadyGraph, Replay,
    ScratchBuffer,
};
pub use host_view::HostView;
pub use launch::KernelLaunch;
pub use lent::LentBuffer;
pub use memory_value::Word;
pub use modules::{LoadedKernel, LoadedModule, MAX_MODULES, ModuleCache};
pub use pinned_buffer::PinnedBuffer;
pub use planned_pool::PlannedPool;
pub use private_pool::PrivatePool;
pub use stream::Stream;
pub use suspended::{KeptIn, ResumeFailed, SuspendFailed, SuspendedBuffers};
pub use transfer::{Transfer, TransferFailed};

pub use piton_graph::{GraphError, NodeId};
