//! The demonstration: a small network trained data-parallel on the shipped images.
//!
//! What is trained and in which order is plain data shared by everyone: [`TrainingConfig`], [`network`] (shape and first
//! values of the parameters) and [`batch`] (which image goes to which device at which step). [`reference`] is the same
//! training in plain single-threaded loops; it uses no device, no pool and none of the kernels, so it can judge them.

pub mod batch;
pub mod comparison;
pub mod config;
pub mod network;
pub mod reference;

pub use config::{ConfigError, TrainingConfig};
