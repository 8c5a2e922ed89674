//! piton is a host-side runtime for heterogeneous accelerators.
//!
//! It is the layer between a compute-graph engine and a device driver: it pools device memory and page-locked host
//! memory, runs prioritised streams over hardware queues, and routes copies between devices by topology. It runs
//! anywhere on simulated devices, and on real drivers behind the same contract. A [`Runtime`] opens the devices of one
//! driver; everything else is made from it.
//!
//! ```
//! use piton::Runtime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::simulated(2)?; // two devices; a real driver takes the same calls
//! let stream = runtime.device(0)?.stream("main")?;
//! let mut x = stream.allocate::<f32>(1024)?;
//! stream.write(&mut x, &[2.0; 1024])?;
//!
//! // On another device. The copy takes the best route, and starts once `x` has been written.
//! let other = runtime.device(1)?.stream("other")?;
//! let mut y = other.allocate::<f32>(1024)?;
//! other.copy_peer(&x, &mut y)?;
//! drop(x); // freed in stream order: after the copy that reads it
//! assert_eq!(other.read(&y)?, vec![2.0; 1024]);
//! # Ok(())
//! # }
//! ```
//!
//! A kernel, and two streams that need no event between them:
//!
//! ```
//! use piton::{Grid, Runtime, sim};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A kernel: y[i] += a * x[i], 256 elements a block.
//! let signature = sim::Signature::new([
//!     sim::Parameter::write::<f32>(),
//!     sim::Parameter::read::<f32>(),
//!     sim::Parameter::value::<f32>(),
//! ]);
//! let saxpy = sim::KernelDefinition::new("saxpy", signature, |block| {
//!     let start = u64::from(block.index().x) * 256;
//!     let a: f32 = block.value(2)?;
//!     let x = block.read::<f32>(1, start..start + 256)?;
//!     for (y, x) in block.write::<f32>(0, start..start + 256)?.iter_mut().zip(x) {
//!         *y += a * x;
//!     }
//!     Ok(())
//! });
//!
//! let runtime = Runtime::simulated(1)?;
//! runtime.register(sim::SimModule::new("vector").with(saxpy))?;
//! let device = runtime.device(0)?;
//! let saxpy = device.load("vector")?.kernel("saxpy")?;
//!
//! // Two streams. The host waits for nothing before `read`, and no event is needed: buffers remember who uses
//! // them, so the kernel on `compute` starts once `upload` has written `x` and `y`.
//! let (upload, compute) = (device.stream("upload")?, device.stream("compute")?);
//! let mut x = upload.allocate::<f32>(1024)?;
//! let mut y = upload.allocate::<f32>(1024)?;
//! upload.write(&mut x, &[2.0; 1024])?;
//! upload.fill(&mut y, 1.0)?;
//! compute.launch(&saxpy, Grid::linear(4)).write(&mut y).read(&x).value(3.0_f32).submit()?;
//! drop(x); // freed in stream order: after the kernel that reads it
//! assert_eq!(compute.read(&y)?, vec![7.0; 1024]);
//! # Ok(())
//! # }
//! ```
//!
//! A stream can wait for a value in device memory. A watchdog reports work that hangs, and ends it:
//!
//! ```
//! use piton::{Comparison, OnExpiry, Runtime};
//! use std::time::{Duration, Instant};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::simulated(1)?;
//! let device = runtime.device(0)?;
//! let (mut consumer, producer) = (device.stream("consumer")?, device.stream("producer")?);
//! let mut ready = producer.allocate_zeroed::<u32>(4)?;
//!
//! consumer.wait_value(&ready, 0, Comparison::AtLeast, 1)?;
//! consumer.call_host(|| println!("ready"))?;
//! producer.write_value(&mut ready, 0, 1)?;
//! consumer.synchronize()?;
//!
//! // Nobody will write this one.
//! consumer.wait_value(&ready, 1, Comparison::Equal, 1)?;
//! let mut watchdog = runtime.watchdog(Duration::from_secs(1), OnExpiry::Abort);
//! watchdog.check(Instant::now());
//! for expiry in watchdog.check(Instant::now() + Duration::from_secs(2)) {
//!     println!("{expiry}"); // which stream, at what, since when, and what the others are at
//! }
//! assert!(consumer.synchronize().is_err());
//! if let Some(failure) = consumer.clear_error()? {
//!     println!("{failure}"); // aborted, and where the wait was submitted
//! }
//! consumer.call_host(|| println!("goes on"))?;
//! consumer.synchronize()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | open devices | [`Runtime::simulated`], [`Runtime::new`], [`RuntimeConfig`] |
//! | run work in order | [`Device::stream`], [`Stream`] |
//! | hold elements on a device | [`Stream::allocate`], [`DeviceBuffer`] |
//! | hold elements in page-locked host memory, which the device copies by itself | [`Device::pinned`], [`PinnedBuffer`] |
//! | have kernels use page-locked elements in place, without a copy | [`PinnedBuffer::into_view`], [`HostView`], [`Stream::take_back`] |
//! | launch a kernel | [`Device::load`], [`Module::kernel`], [`Stream::launch`] |
//! | copy, and wait or `.await` | [`Stream::copy_to_device`], [`Stream::copy_to_host`], [`Transfer`] |
//! | copy between devices | [`Stream::copy_peer`], [`Runtime::routes`], [`RuntimeConfig::transfers`] |
//! | give a copy a larger share of the links it shares with others | [`Stream::copy_peer_weighing`], [`CopyWeight`] |
//! | know which links failed, end copies that hang | [`Runtime::incidents`], [`Runtime::check_copies`] |
//! | measure what copies between devices reach | [`Runtime::calibrate`], [`TransferConfig::measuring`] |
//! | order streams by hand, time them | [`Stream::record`], [`Stream::wait`], [`Event`] |
//! | write work down once and replay it as one command | [`Device::graph`], [`GraphRecorder`], [`ReadyGraph`] |
//! | run host code in stream order | [`Stream::call_host`] |
//! | find a race or a use of freed memory | [`RuntimeConfig::sanitizer`], [`Runtime::sanitizer`] |
//! | wait for a value in a buffer, write one | [`Stream::wait_value`], [`Stream::write_value`] |
//! | make a stream wait for the host | [`Device::semaphore`], [`Stream::wait_semaphore`] |
//! | make streams of several processes wait for each other | [`Device::shared_semaphore`], [`Device::export_semaphore`], [`Device::import_semaphore`] |
//! | end work early, go on after a failure | [`Stream::abort`], [`Stream::clear_error`] |
//! | see which stream waits for what | [`Runtime::dump_streams`], [`LaneDump`] |
//! | notice work that hangs, and end it | [`Runtime::watchdog`], [`Watchdog`] |
//! | see what ran when, in Perfetto | [`Device::start_trace`], [`Device::finish_trace`], [`write_chrome_trace`] |
//! | keep memory to a part of a program, or to a graph | [`Device::private_pool`], [`Stream::allocate_from`], [`GraphRecorder::keep_scratch_in`] |
//! | serve the steps of a program that repeats from a plan | [`Device::planned_pool`], [`PlannedPool`], [`Stream::allocate_planned`] |
//! | lend the pages of a sleeping program back to the device, keeping addresses and contents | [`Stream::suspend`], [`Stream::resume`] |
//! | give idle memory back to the device | [`DevicePool::trim`](piton_alloc::DevicePool::trim) and [`shrink_to`](piton_alloc::DevicePool::shrink_to) of [`Device::memory`] |
//! | see what the pools hold | [`Device::memory_stats`], [`Device::pinned_stats`] |
//! | look at a memory pool in PyTorch's viewer | [`Runtime::memory_snapshot`], [`MemorySnapshot`] |
//! | wait, where a device is full, until work lets memory go | [`Stream::allocate_waiting`], [`Stream::allocate_async`], [`FullNow::frees_at`] |
//! | free caches of mine when a device is full | [`DevicePool::on_out_of_memory`], [`FullNow`] |
//! | have something of a crate below that is not re-exported | [`crates`] |
//!
//! # Guarantees
//! - Safe code cannot free, reuse, move or read memory while work still uses it, and cannot let two streams race over a
//!   buffer: buffers remember who uses them, and host memory moves into the copies that use it.
//! - Dropping anything never blocks and loses no device work.
//! - Bad input is a typed error that names the value and the limit.
//! - This crate has no unsafe code. `docs/unsafe.md` lists where piton has some, and why.
//!
//! # Not here
//! Operators, tensor graphs and automatic differentiation belong to the engine on top. Each part of piton can also be
//! used by itself: `piton-alloc`, `piton-pinned`, `piton-stream`, `piton-topology` and the others are crates of their own.

#![forbid(unsafe_code)]

mod calibration;
mod config;
mod device;
mod error;
mod memory_snapshot;
mod runtime;
mod simulated;
mod topology;

pub use config::{Devices, RuntimeConfig};
pub use device::{Device, Module};
pub use error::RuntimeError;
pub use memory_snapshot::memory_snapshot;
pub use runtime::Runtime;

pub use piton_alloc::{
    AddressLookup, AllocError, ConfigError, CrossLane, DevicePool, ExactBlocks, FullNow,
    MemoryPoolConfig, PlaceConfig, PlaceError, Plan, Planned, PlannedStats, PoolLimit,
    PoolSnapshot, PoolStats, Recorder, SearchRule, ServeError, VirtualAddressing,
};
pub use piton_buffer::{
    BufferError, DeviceBuffer, DeviceSlice, DeviceSliceMut, GraphCondition, GraphError,
    GraphLaunch, GraphRecorder, GraphSlice, GraphSliceMut, HostView, KeptIn, KernelLaunch,
    LentBuffer, LoadedKernel as Kernel, NodeId, PinnedBuffer, PlannedPool, PrivatePool, ReadyGraph,
    Replay, ResumeFailed, ScratchBuffer, Stream, SuspendFailed, SuspendedBuffers, Transfer,
    TransferFailed, Word,
};
pub use piton_driver::{
    Comparison, ComputeUnitSet, DeviceId, DeviceInfo, DevicePtr, DriverError, ErrorKind,
    ExecutionRecord, ExportedSemaphore, Grid, HardwareQueue, Locking, ModuleImage, OnFailure,
    Operation, Placement, Priority, WaitOutcome,
};
pub use piton_pinned::{
    HostPages, PinnedClassStats, PinnedError, PinnedPool, PinnedPoolConfig, PinnedStats,
    PinnedThreadStats, Refused, StagedDirection, StagedWay, Staging, StagingChoice, StagingConfig,
    StagingStats,
};
pub use piton_sanitizer::{
    Action, Hazard, Report, Response, Sanitizer, SanitizerConfig, Site, Space,
};
pub use piton_snapshot::Snapshot as MemorySnapshot;
pub use piton_stream::{
    Completion, Doing, Event, Expiry, LaneActivity, LaneDump, OnExpiry, Semaphore, StreamError,
    StreamFailure, StreamName, StreamOptions, Submission, Waited, WaitsFor, Watchdog,
    WatchdogThread, WhenFull,
};
pub use piton_topology::{Calibration, Machine, RouteKind, Router};
pub use piton_trace::{DeviceTrace, Written, write_chrome as write_chrome_trace};
pub use piton_transfer::{
    Compared, CopyWeight, Incident, Leg, NamedLink, Reason, RouteUse, TransferConfig, TransferError,
};

/// The crates below, whole and in the versions this one is made with: for what is not re-exported here.
pub mod crates {
    pub use {
        piton_alloc, piton_buffer, piton_driver, piton_pinned, piton_sanitizer, piton_sim,
        piton_snapshot, piton_stream, piton_topology, piton_trace, piton_transfer,
    };
}

/// Simulated devices: their configuration, their kernels, their faults.
pub mod sim {
    pub use piton_driver::{Fault, Parameter, Signature};
    pub use piton_sim::{
        Backing, Block, BlockIndex, ClockMode, DeviceConfig, FaultPlan, KernelDefinition,
        LinkConfig, MAX_DEVICES, ScheduleOrder, SimConfig, SimDevice, SimDriver, SimError,
        SimModule, Trigger, Wires,
    };
}
