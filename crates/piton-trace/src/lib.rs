//! Traces of what devices ran, as files that Perfetto and `chrome://tracing` open.
//!
//! # The problem
//! A device reports what it ran as a list of [`ExecutionRecord`](piton_driver::ExecutionRecord)s. Where the time went can be seen
//! when they are drawn side by side: one track for each queue, and an arrow from each command that was waited for to the one that
//! waited.
//!
//! # The idea
//! [`write_chrome`] writes the trace event format as it goes, one event after another, and keeps nothing but indices:
//! - a process for each device, a thread for each queue under its label;
//! - a complete event (`X`) for each command, with its position, bytes and rate, and where it was submitted;
//! - an arrow (`s`, `t`, `f`) for each wait whose awaited command is in the trace, whether the wait is for a queue, a semaphore
//!   or a value in memory: from that command's end to the end of the wait, and on to the start of the next command.
//!
//! Events of one thread may lie within each other and must not cross. What crosses, such as nodes of a graph that run
//! side by side, goes to further threads beside the queue's own.
//!
//! # Clocks
//! Each device has a clock of its own, and this crate does not relate them: times of two devices compare only as far
//! as their clocks do. Simulated devices of one machine share a clock.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | write a trace | [`write_chrome`], [`DeviceTrace`] |
//! | know which command a wait waited for | [`waits`], [`WaitArrow`] |
//!
//! # Not here
//! Recording: the backend does. Opening the file: <https://ui.perfetto.dev>, which works without a network once loaded.

#![forbid(unsafe_code)]

mod arrow;
mod chrome;
mod device_trace;
mod event;
mod row;

pub use arrow::{Place, WaitArrow, waits};
pub use chrome::{Written, write_chrome};
pub use device_trace::DeviceTrace;
