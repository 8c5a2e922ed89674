//! Finds data races and uses of freed memory across streams, whatever the schedule was.
//!
//! # The problem
//! Two streams use the same bytes, and a wait between them is missing. Most schedules hide it: the copy was quick, the kernel
//! came late, the answer is right. Once a week it is wrong, on another machine, and nothing says why.
//!
//! # The idea
//! Whether two commands are *ordered* depends on the program and not on its schedule. They are ordered by their order on one
//! stream, by waits between streams, by signals, by host functions, or by what the host waited for before it submitted
//! the later one. This crate keeps vector clocks of exactly that, and shadow memory with the last uses of each
//! byte. Two uses that conflict and are not ordered are reported with both places in the program, even if on this
//! run one had long ended when the other began.
//!
//! That is why the sanitizer has clocks of its own. The timeline's clock takes work that is done for ordered, which is right for
//! reusing memory and useless for finding a missing wait.
//!
//! # What to take
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
//! - There are no false reports, within the limits below: of two places that are reported, the program ordered neither before
//!   the other.
//! - If two uses of a byte conflict and are not ordered, the one looked at later is reported, against the other or
//!   against a use that comes after the other.
//! - Reports do not depend on when work ran, except where a program itself decides by asking whether work is done.
//!
//! # Limits
//! - All host threads count as one: what one thread has waited for, all have. A race between two threads of the program that share
//!   a buffer and never synchronise with each other is not seen.
//! - A kernel is taken to use everything it could reach, in the way its signature says.
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
