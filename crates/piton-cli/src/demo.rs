//! The demonstration: a small network trained data-parallel on the shipped images.
//!
//! What is trained and in which order is plain data shared by everyone: [`TrainingConfig`], [`network`] (shape and first
//! values of the parameters) and [`batch`] (which image goes to which device at which step). On devices, `run` drives a
//! `replica` per device, `staging` brings the images, `ring` sums the gradients, the kernels of [`piton_training`] compute. [`mod@reference`] is
//! the same training in plain single-threaded loops; it uses no device, no pool and none of the kernels, so it can judge
//! them, and [`comparison`] says by how much the two may differ. [`Outcome`] has it all.

pub mod batch;
pub mod comparison;
pub mod config;
mod copying;
pub mod cuda;
mod error;
pub mod network;
pub mod opencl;
mod outcome;
mod page;
pub mod reference;
mod replica;
mod ring;
mod run;
mod staging;

pub use config::{ConfigError, TrainingConfig};
pub use copying::Copying;
pub use error::DemoError;
pub use outcome::{ACCURACY_WANTED, Backend, DemoOptions, Outcome, PinnedParts};
