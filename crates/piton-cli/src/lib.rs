//! The `piton` command as a library, so that it can be tested and fuzzed.
//!
//! The binary parses its arguments, calls one of the [`command`]s and turns an error into an exit code; everything else
//! is here. The parts do not know each other: [`trace`] reads recorded allocation histories, [`digits`] the shipped
//! images, [`demo`] trains on them, and [`report`] turns plain numbers into a page.
//!
//! Unsafe code is denied as everywhere; two files have some, to vouch for the demonstration's kernels in OpenCL C and in PTX
//! ([`demo::opencl`] and its neighbour `cuda`).

pub mod command;
pub mod demo;
pub mod digits;
pub mod quantity;
pub mod replay;
pub mod report;
pub mod trace;
