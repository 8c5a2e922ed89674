//! Streams, events and host functions over a driver's queues.
//!
//! # The problem
//! A compute graph is work in several sequences at once. They must be tied together where they meet, and the program asks
//! how far each has come, thousands of times a millisecond, without a host thread that waits for any of it.
//!
//! # The idea
//! A [`Stream`] is a lane of the runtime's timeline, served by one queue of a device. Position n of the queue is
//! the n-th place (`seq`) of the lane, so the queue's own counter is also the lane's: nothing is counted twice, and an
//! [`Event`] is just such a number. A stream that is to wait for an event first asks the timeline whether it comes after it
//! anyway; only if it does not, the device gets a command.
//!
//! ```
//! use piton_driver::{DeviceId, Driver};
//! use piton_sim::{DeviceConfig, SimConfig, SimDriver};
//! use piton_stream::{StreamOptions, Streams, Waited};
//! use piton_timeline::Timeline;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default()))?;
//! let device = driver.open(DeviceId(0))?;
//! let streams = Streams::new(Timeline::new());
//! let load = streams.create(&device, StreamOptions::labelled("load"))?;
//! let compute = streams.create(&device, StreamOptions::labelled("compute"))?;
//!
//! load.call_host(|| println!("first"))?;
//! let loaded = load.record();
//! compute.wait(&loaded)?;
//! compute.call_host(|| println!("second"))?;
//! compute.synchronize()?;
//! assert!(loaded.query()?);
//! assert_eq!(compute.wait(&loaded)?, Waited::Done);
//! # Ok(())
//! # }
//! ```
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | make streams | [`Streams::create`], [`StreamOptions`] |
//! | run a kernel, copy, fill | [`Stream::launch`] and its like; [`Command`] with [`Stream::submit`] |
//! | submit much from one thread, without locks | [`Stream::writer`], [`Writer`] |
//! | run a command after places on other streams, submitted with all its waits or not at all | [`Stream::submit_behind`] |
//! | submit without blocking the thread | [`Stream::try_submit`], [`Stream::submit_async`] |
//! | run a host function in order | [`Stream::call_host`] |
//! | remember a place | [`Stream::now`], [`Stream::record`], [`Stream::record_timed`] |
//! | ask, block, or await | [`Event::query`], [`Event::synchronize`], [`Event::completion`] |
//! | order one stream after another | [`Stream::wait`], [`Stream::wait_frontier`] |
//! | order a stream after the host | [`Semaphore`] |
//! | order streams of several processes | [`Semaphore::shared`], [`Semaphore::export`], [`Semaphore::import`] |
//! | wait for a value in memory, write one | [`Stream::wait_memory`], [`Stream::write_memory`] |
//! | end work early, go on after a failure | [`Stream::abort`], [`Stream::clear_error`] |
//! | see who waits for whom | [`Streams::dump`], [`LaneDump`] |
//! | notice what hangs | [`Watchdog`], [`StreamOptions::command_deadline`], [`Event::set_command_deadline`] |
//! | find a missing wait | [`Streams::sanitized`] |
//! | write work down as a graph instead | [`Stream::begin_capture`], [`Capture`] |
//! | know what failed | [`Stream::failure`], [`StreamFailure`] |
//!
//! # Guarantees
//! - A wait is left out only where it would change nothing: its point is done without failure, or comes before already,
//!   through a wait that was made.
//! - Work that is reported done has ended on the device, and the host sees what it wrote. A failure is reported only
//!   after the work has ended as well, so memory may be freed on either answer.
//! - Nothing accepted is lost: the work of a dropped stream still runs, its events still answer, and its queue goes away when it is
//!   empty.
//! - Calls that block hold no lock while they do, and refuse to wait for their own stream inside its host functions.
//! - In a fork of the process nothing here waits for a thread that stayed behind: what is known without a lock is
//!   answered, what is not is refused with [`StreamError::Forked`], and destructors leave what they have where it is.
//!   A stream that was being captured when the process forked is the exception: leave it alone.
//!
//! # Lock order
//! The sanitizer's, where there is one, is outermost: it is held while a command is offered. `Witness`'s comes
//! before it. A [`Writer`]'s hold of its queue may come before the sanitizer's too, since nobody else submits to that
//! queue meanwhile. `registry::Lanes`, then `Link`, then whatever the driver takes inside its own non-blocking calls. The timeline
//! takes a slot's source, then `Link`. `Stamps`, `Relay`, deadlines of commands and what
//! a lane has told of its failures are leaves: nothing is taken under them.
//! No lock is held while user code runs or a queue handle is dropped, since that may call into the driver.
//!
//! # Not here
//! Pools, and who may reuse a block: the allocators ask the timeline. Routes of copies: `piton-transfer`. Running commands: the
//! backend. Turning a capture into a graph: `piton-graph`.

mod admission;
mod behind;
mod capture;
mod command_deadline;
mod completion;
mod dump;
mod error;
mod event;
mod failure;
mod frontier_wait;
mod hold;
mod host_function;
mod lane_state;
mod link;
mod memory_operation;
#[cfg(all(test, loom))]
mod model_queue;
mod needs;
mod options;
mod outcome;
mod recovery;
mod registry;
mod relay;
mod semaphore;
mod stream;
mod submit;
mod timestamp;
mod visited;
mod wait;
mod watchdog;
mod witness;
mod writer;

pub use behind::SubmittingBehind;
pub use capture::{Capture, CaptureError, Captured, Offence};
pub use completion::Completion;
pub use dump::{Doing, LaneActivity, LaneDump, WaitsFor};
pub use error::{Facet, StreamError};
pub use event::Event;
pub use failure::{StreamFailure, StreamName};
pub use hold::Hold;
pub use host_function::ReplayStreams;
pub use options::{StreamOptions, WhenFull};
pub use outcome::{Submission, Waited};
pub use piton_driver::Command;
pub use registry::Streams;
pub use semaphore::Semaphore;
pub use stream::Stream;
pub use submit::Submitting;
pub use watchdog::{Expiry, OnExpiry, Watchdog, WatchdogThread};
pub use writer::Writer;
