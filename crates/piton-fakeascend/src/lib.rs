//! A stand-in for the Ascend host runtime's library (`libascendcl`), over the simulated device.
//!
//! It exports the entry points that `piton-ascend` looks up, over what [`piton_standin`] has, and is opened by its path. It
//! is strict where the real one may be lax: a handle that was destroyed, a call without a context, an event that streams may
//! not wait for, a notification that nobody records, physical memory given back while it is mapped, and host memory
//! registered from the middle of a page are refused, and so found. A failed kernel fails its stream and no other, events of
//! the stream pass all the same, and only the stream's answer tells: the default that the reference describes.
//!
//! # What it cannot prove
//! What the runtime does: how soon a stream tells of a failure, that an event of one device may be slept on while another
//! context is current, that arguments are copied when, what tails an allocation needs, how anything performs.
//!
//! # For tests
//! | I want to … | take |
//! |---|---|
//! | find the file | [`library::stand_in`] |
//! | one that lacks a function | [`library::without`] |
//! | an image of kernels | [`image::IMAGE`], [`image::read`] |
//! | have a call fail | [`fakeascend_fail`](control::fakeascend_fail), looked up in the opened library |
//! | know what was done that is not refused | [`fakeascend_mistakes`](control::fakeascend_mistakes), likewise |

pub mod calls;
pub mod control;
pub mod image;
pub mod library;
mod world;
