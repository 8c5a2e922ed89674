//! Ascend devices under piton's driver contract.
//!
//! # The problem
//! A program that runs on simulated devices should run on Ascend's with no other change than its kernels, and should build and
//! start on machines that have neither a device nor a runtime for one.
//!
//! # The idea
//! The same as for CUDA: **open at run time, and hand the driver only what the device can do without the host.** The host runtime's
//! library is looked for when [`AscendDriver::open`] is called; if there is none, the answer is an ordinary error that says what was
//! looked for. A function that the library lacks and that only one facet needs is a [`MissingAbility`]: that facet is absent, or
//! uses older functions instead.
//!
//! Written from the public reference alone (*Runtime API (C)*, hiascend.com); no device has seen it yet.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | open the devices | [`AscendDriver::open`], [`AscendConfig`] |
//! | choose the pages of device memory | [`MemoryPolicy`] |
//! | bring kernels | [`AscendModule`] |
//! | know why there is no device | [`OpenError`] |
//! | know what the library lacks | [`AscendDriver::missing`] |
//! | read a vendor code | [`Status`] |

mod config;
mod device;
mod driver;
mod ffi;
mod fill;
mod host_memory;
mod kernel;
mod memory;
mod peer;
mod queue;
mod status;
mod timestamp;
mod virtual_memory;

pub use config::{AscendConfig, MemoryPolicy};
pub use driver::AscendDriver;
pub use kernel::AscendModule;
pub use piton_native::{Ability, MissingAbility, SearchedLibrary};
pub use status::Status;

/// Why Ascend's runtime could not be opened. An ordinary answer on a machine without it.
pub type OpenError = piton_native::OpenError<Status>;
