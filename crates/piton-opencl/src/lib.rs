//! OpenCL devices under piton's driver contract.
//!
//! # The problem
//! The contract was written together with a simulated device of our own. A driver that others wrote keeps it honest, and
//! OpenCL has one that runs on any machine: pocl, which makes a device of the processor.
//!
//! # The idea
//! **Open at run time, and hand the driver only what the device can do without the host.** The vendor's library is looked for when
//! [`OpenClDriver::open`] is called; if there is none, the answer is an ordinary error that says what was looked for. Device memory
//! is shared virtual memory, so an address in the middle of a block is an address too, and the pools above can sub-allocate. Queues,
//! semaphores and host functions are those of `piton-native`, over in-order queues of OpenCL.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | open the devices of a platform | [`OpenClDriver::open`], [`OpenClConfig`] |
//! | know why there is none | [`OpenError`] |
//! | bring kernels | [`OpenClModule`], [`OpenClDriver::register`] |
//! | see why a module does not build | [`OpenClDriver::build_log`] |
//! | read a vendor code | [`Status`] |
//!
//! # Guarantees
//! Those of the contract. Failures that the host knows of (a host function's panic, a dependency's failure, an abort) stop
//! everything that comes after them. A failure of the device is known only when the driver reports it, and commands that the
//! driver already had by then may have run.
//!
//! # Not here
//! Virtual memory, sub-devices, graphs, images. `docs/design/opencl.md` says why, and what was measured.

mod addresses;
mod binaries;
mod config;
mod device;
mod driver;
mod error;
mod ffi;
mod host_memory;
mod kernel;
mod memory;
mod peer;
mod priority;
mod spir_v;
mod status;
mod timestamp;
mod undeclared;

pub use config::OpenClConfig;
pub use driver::OpenClDriver;
pub use error::{Lack, OpenError, UnusableDevice};
pub use kernel::OpenClModule;
pub use piton_native::SearchedLibrary;
pub use status::Status;
