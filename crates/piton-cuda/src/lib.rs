//! CUDA devices under piton's driver contract.
//!
//! # The problem
//! A program that runs on simulated devices should run on NVIDIA's with no other change than its kernels, and should build and
//! start on machines that have neither a GPU nor a driver for one.
//!
//! # The idea
//! **Open at run time, and hand the driver only what the device can do without the host.** NVIDIA's library is looked for when
//! [`CudaDriver::open`] is called; if there is none, the answer is an ordinary error that says what was looked for. A function that
//! the library lacks and that only one facet needs is a [`MissingAbility`], and that facet is absent.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | open the devices | [`CudaDriver::open`], [`CudaConfig`] |
//! | know why there is none | [`OpenError`] |
//! | know what the library lacks | [`CudaDriver::missing`] |
//! | bring kernels, as CUDA C, PTX or a binary | [`CudaModule`], [`CudaDriver::register`] |
//! | know whether CUDA C can be compiled here | [`CudaDriver::compiler`] |
//! | read a vendor code | [`Status`] |

mod compiler;
mod config;
mod device;
mod driver;
mod ffi;
mod host_memory;
mod kernel;
mod memory;
#[cfg(unix)]
mod page_sharing;
mod peer;
mod queue;
mod status;
mod timestamp;
mod virtual_memory;

pub use compiler::{CompilerError, CompilerStatus};
pub use config::CudaConfig;
pub use driver::CudaDriver;
pub use kernel::{CudaBlock, CudaModule};
pub use piton_native::{Ability, MissingAbility, SearchedLibrary};
pub use status::Status;

/// Why CUDA could not be opened. An ordinary answer on a machine without it.
pub type OpenError = piton_native::OpenError<Status>;
