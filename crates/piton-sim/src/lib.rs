//! The embedded simulated device: a real backend, and the tutorial for writing one.
//!
//! # What it is
//! A machine of one or more devices inside the process. It is a device, not a mock: it has address spaces of
//! its own backed by pages of a memfd, hardware queues whose commands run on worker threads, copy engines,
//! kernels, a clock, links to other devices, and faults on demand. Whatever runs on it takes the path it would
//! take on hardware, errors included.
//!
//! # The idea
//! *Addresses* of a device are no pointers of this process: bits 44 to 50 name the device, so using one as a
//! pointer faults at once. The bytes lie in a window of this process's address space; offset in the device's
//! space = offset in the window, so a range that is contiguous for the device is contiguous here.
//!
//! *Execution* is a set of ready queues. A worker, or a host thread that waits, takes the most urgent one, runs
//! a bounded slice of its commands, and puts it back. A queue that must wait for another hangs on that one's
//! counter and is woken by it; no thread is held.
//!
//! *Time* is either real, or virtual: no worker threads, a seeded choice among ready queues, modelled
//! durations. The same seed gives the same trace.
//!
//! # Reading order for a writer of backends
//! [`SimDriver`] (`driver`) → `device` → `memory`, `virtual_memory`, `host_memory` → `queue` → `kernel`,
//! `module` → the facets: `host_function`, `semaphore`, `peer`, `timestamp`, `compute_unit`, `trace`. What a real
//! device does in hardware is in `engine`, `execute`, `grid`, `progress`, `address_space`, `physical`.
//!
//! # Writing a kernel
//! ```
//! use piton_driver::{Parameter, Signature};
//! use piton_sim::{KernelDefinition, SimModule};
//!
//! // y[i] += a * x[i], 1024 elements a block.
//! let signature = Signature::new([
//!     Parameter::write::<f32>(),
//!     Parameter::read::<f32>(),
//!     Parameter::value::<f32>(),
//!     Parameter::value::<u32>(),
//! ]);
//! let saxpy = KernelDefinition::new("saxpy", signature, |block| {
//!     let n = u64::from(block.value::<u32>(3)?);
//!     let start = u64::from(block.index().x) * 1024;
//!     let range = start.min(n)..(start + 1024).min(n);
//!     let a = block.value::<f32>(2)?;
//!     let x = block.read::<f32>(1, range.clone())?;
//!     for (y, x) in block.write::<f32>(0, range)?.iter_mut().zip(x) {
//!         *y += a * x;
//!     }
//!     Ok(())
//! });
//! let module = SimModule::new("vector").with(saxpy);
//! # drop(module);
//! ```
//!
//! *Links* are shared in virtual time, where commands run in its order: copies that run at once share the rates of their links by the fluid
//! model of `piton-fluid` (`traffic`). Under a seeded order, which explores schedules and not times, a copy takes
//! what it would alone; in real time, what memcpy takes.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("piton-sim needs Linux and 64-bit addresses: its pages come from memfd and mmap");

mod address_space;
mod block;
mod check;
mod claims;
mod command;
mod compute_unit;
mod config;
mod cost;
mod deadlock;
mod device;
mod driver;
mod engine;
mod execute;
mod fault;
mod front;
mod graph;
mod grid;
mod host_function;
mod host_memory;
mod idle;
mod kept;
mod kernel;
mod listeners;
mod machine;
mod memory;
mod memory_wait;
mod module;
mod moments;
mod movement;
mod pace;
mod parameters;
mod peer;
mod physical;
mod plan;
mod presence;
mod progress;
mod queue;
mod ready;
mod resource;
mod ring;
mod runner;
mod semaphore;
mod semaphore_sharing;
mod sequel;
mod shared_pages;
mod sharing;
mod stall;
mod tally;
mod timestamp;
mod trace;
mod traffic;
mod trouble;
mod turns;
mod urgency;
mod virtual_memory;
mod window;
mod word;

pub use block::{Block, BlockIndex};
pub use config::{
    Backing, ClockMode, DeviceConfig, LinkConfig, MAX_DEVICES, ScheduleOrder, SimConfig, SimError,
    Wires,
};
pub use device::{MemoryCounters, SimDevice};
pub use driver::SimDriver;
pub use fault::{FaultPlan, Trigger};
pub use module::{KernelDefinition, SimModule};
