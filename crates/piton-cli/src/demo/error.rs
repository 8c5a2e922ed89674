//! Why a demonstration did not come to its end.

use piton::{BufferError, RuntimeError, StreamError};

use crate::digits::DigitsError;

use super::comparison::LengthMismatch;
use super::config::ConfigError;

/// Why a demonstration did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The training asked for makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine has fewer devices than the training should use.
    #[error("{wanted} devices asked for, the machine has {present}")]
    TooFewDevices {
        /// Devices asked for.
        wanted: usize,
        /// Devices there are.
        present: u32,
    },
    /// The shipped images are damaged.
    #[error(transparent)]
    Digits(#[from] DigitsError),
    /// There is no OpenCL to train on.
    #[error(transparent)]
    OpenCl(#[from] piton_opencl::OpenError),
    /// There is no CUDA to train on.
    #[error(transparent)]
    Cuda(#[from] piton_cuda::OpenError),
    /// The runtime could not be made.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Work was refused or failed.
    #[error(transparent)]
    Work(#[from] BufferError),
    /// A wait for work failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The devices' parameters are not as many as the reference's.
    #[error(transparent)]
    Length(#[from] LengthMismatch),
}
