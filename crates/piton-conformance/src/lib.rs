//! One suite that every backend passes, each gap with its reason.
//!
//! # The problem
//! The contract of `piton-driver` is prose. Unsafe code above relies on it, so a backend must be held to each
//! sentence of it, and what a device cannot do must be known, not merely left untested.
//!
//! # The idea
//! Each property that the contract states is a [`Case`]: a name that is a sentence, and a function that tries it
//! on a freshly opened driver. A [`Subject`] says how to open that driver and where its test kernels are. A case
//! ends in one of three ways: passed, failed, or *absent*. Absent needs a reason: the device does not hand out the
//! facet, or the subject declares the gap and says why. A declared gap that would pass is a failure too, so that
//! the list of gaps cannot go stale.
//!
//! # Writing a backend
//! | I want to … | take |
//! |---|---|
//! | say how my driver is opened | [`Subject::new`] |
//! | provide the kernels that cases launch | [`TestKernels`] |
//! | say what my driver cannot do | [`Subject::with_gap`] |
//! | run everything | [`run`] |
//! | print it | [`table`] |
//!
//! `tests/sim.rs` runs it on the simulated device and is the example to copy.
//!
//! # Not here
//! Speed: that is for the benches. What a backend does with commands that break the contract's `# Safety`: that is left open.

mod cases;
mod drive;
mod outcome;
mod report;
mod stage;
mod subject;
mod suite;
mod waker;

pub use outcome::{Failure, Outcome};
pub use report::{Report, Row, run, table};
pub use subject::{Facet, Gap, Subject, TestKernels};
pub use suite::{Case, suite};
