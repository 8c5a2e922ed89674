//! Finds data races and uses of freed memory across streams, whatever the schedule was.
//!
//! # The problem
//! Two streams use the same bytes, and a wait is missing. Most schedules hide it: the copy was quick, the kernel
//! came late, the answer is right. It is wrong once a week, elsewhere, and nothing says where.
//!
//! # The idea
//! Whether two commands are *ordered* is a matter of the program and not of its schedule: by their order on one
//! stream, by waits between streams, by signals, by host functions, by what the host waited for before it submitted
//! the later one. This crate keeps vector clocks of exactly that, and shadow memory with the last uses of each
//! byte. Two uses that conflict and are not ordered are reported with both places in the program, even if on this
//! run one had long ended when the other began.
//!
//! That is why it has clocks of its own: the timeline's takes what is done for ordered, which is right for reusing
//! memory and useless for finding a missing wait.
//!
//! # Words
//! | I want to … | take |
//! |---|---|
//! | make one | [`Sanitizer::new`], [`SanitizerConfig`] |
//! | tell of a stream's commands | [`Sanitizer::attempt`], [`Effect`], [`Footprint`] |
//! | tell of a graph's nodes | [`Sanitizer::graph`], [`GraphFootprint`] |
//! | tell what the host learnt | [`Sanitizer::saw`] |
//! | tell of memory's owners | [`Sanitizer::hand_out`], [`Sanitizer::take_back`] |
//! | know what was found | [`Sanitizer::reports`], [`Report`], [`Sanitizer::counts`] |
//! | refuse what races instead | [`Response::Refuse`] |
//! | order what is not seen here | [`Sanitizer::mark`], [`Sanitizer::follow`] |
//!
//! # Guarantees
//! - What is reported is so: no order that the program made ties the two together, with the limits below.
//! - Of two uses of a byte that conflict in no order, the one looked at later is reported, against the other or
//!   against a use that comes after the other.
//! - Reports do not depend on when work ran, but for what a program decides by asking whether work is done.
//!
//! # Limits
//! - The host is one: what one thread waited for, all have. A race between two threads of the program that share a
//!   buffer without ever meeting is not seen.
//! - A kernel is taken to use all it could reach, the way its signature says.
//! - An event stands for its lane's place, and that place for all waits up to the next command: a wait that needed
//!   no command and came after the event was recorded counts as if before it.
//! - Which signal met a wait is not known; see [`Effect::WaitsForSignal`]. Signals from outside are not seen.
//! - What the host itself reads and writes in page-locked memory is not seen, only what commands do.
//!
//! # Lock order
//! One lock, held while a command is offered to its queue (the driver's own locks come under it), and never while a
//! listener is called.
//!
//! # Not here
//! Streams, pools, drivers: they tell, and this crate is pure bookkeeping.

#![forbid(unsafe_code)]

mod clock;
mod config;
mod effect;
mod footprint;
mod graph;
mod interval_map;
mod lane;
mod ledger;
mod node_set;
mod replay;
mod report;
mod sanitizer;
mod shadow;
mod signal;
mod uses;

pub use config::{Listener, Response, SanitizerConfig};
pub use effect::{Author, Awaits, Effect, FunctionId};
pub use footprint::{Footprint, Space, Touched};
pub use graph::GraphFootprint;
pub use report::{Action, Hazard, Report, Site};
pub use sanitizer::{Attempt, Counts, HandOut, Mark, Sanitizer};
pub use signal::SignalId;
