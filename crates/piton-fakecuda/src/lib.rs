//! A stand-in for NVIDIA's library (`libcuda`), over the simulated device.
//!
//! # The problem
//! `piton-cuda` calls a library that build machines do not have. Which functions it calls, in which order, with what arguments, and
//! what it makes of the answers can be tested all the same.
//!
//! # The idea
//! A shared library that exports the entry points that `piton-cuda` looks up, opened by its path, over what
//! [`piton_standin`] has: streams are queues of the simulated device, memory is its memory, and kernels are functions that
//! are found by the names which the loaded PTX declares ([`ptx`]). It is strict where the real one is lax: a handle that was destroyed, a call without a
//! context, memory that is used before access to it was granted, and a stream told to wait for a value that nobody has been
//! told to write are refused, and so found.
//!
//! # What it cannot prove
//! What NVIDIA's library does. Its own idea of that is the public reference's and ours: that a failed kernel takes its
//! context along, what a stream's write is ordered with, how events keep time. Nothing here says how fast anything is.
//!
//! # For tests
//! | I want to … | take |
//! |---|---|
//! | find the file | [`library::stand_in`] |
//! | one that lacks a function | [`library::without`] |
//! | have a call fail | [`fakecuda_fail`](control::fakecuda_fail), looked up in the opened library |
//! | know what was done that is not refused | [`fakecuda_mistakes`](control::fakecuda_mistakes), [`fakecuda_has_access`](control::fakecuda_has_access), likewise |

pub mod calls;
pub mod control;
mod counter;
pub mod library;
pub mod ptx;
mod world;
