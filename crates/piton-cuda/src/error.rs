//! Why there is no CUDA.

use crate::status::Status;
use piton_native::{Searched, SearchedLibrary};
use thiserror::Error;

/// Why CUDA could not be opened. An ordinary answer on a machine without it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// No library of any of the names could be opened.
    #[error("no CUDA library: {}", Searched(.searched))]
    NoLibrary {
        /// Each name and the answer, in the order in which they were looked for.
        searched: Vec<SearchedLibrary>,
    },
    /// The library lacks a function that no queue or memory can do without.
    #[error("{library} has no {symbol}")]
    NoSymbol {
        /// The library that was opened.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// The library is there, and no device.
    #[error("the CUDA driver knows no device")]
    NoDevice,
    /// The thread that looks at queues could not be started.
    #[error("no thread could be started")]
    NoThread,
    /// A call failed.
    #[error("{call} answered {status}")]
    Call {
        /// Which.
        call: &'static str,
        /// With what.
        status: Status,
    },
}

/// What a device can do only if the library has certain functions.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Ability {
    /// Physical pages mapped at addresses of the caller's choice.
    #[error("virtual memory")]
    VirtualMemory,
    /// Other devices' memory.
    #[error("peers")]
    Peers,
    /// Priorities of queues.
    #[error("priorities")]
    Priorities,
    /// Counters that a stream writes and waits for; events take their place.
    #[error("counters in memory")]
    MemoryCounters,
    /// What a kernel takes, as the library knows it.
    #[error("checks of kernels' parameters")]
    KernelParameters,
}

/// An ability that the library has not, and the first function that it would need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no {ability}: the library has no {symbol}")]
pub struct MissingAbility {
    /// What is missing.
    pub ability: Ability,
    /// The function.
    pub symbol: &'static str,
}
