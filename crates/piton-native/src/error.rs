//! Why a vendor's devices are not there, and what they cannot do.

use crate::{
    backend::VendorStatus,
    library::{Searched, SearchedLibrary},
};
use std::fmt;
use thiserror::Error;

/// Why a vendor's library could not be opened. An ordinary answer on a machine without it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError<S: VendorStatus + fmt::Display> {
    /// No library of any of the names could be opened.
    #[error("no {} library: {}", S::VENDOR, Searched(.searched))]
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
    #[error("the {} driver knows no device", S::VENDOR)]
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
        status: S,
    },
}

/// What a device can do only if the library has certain functions.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Ability {
    /// Physical pages mapped at addresses of the caller's choice.
    #[error("virtual memory")]
    VirtualMemory,
    /// Physical pages that other processes map too.
    #[error("pages shared with other processes")]
    PageSharing,
    /// What sizes of pages are best.
    #[error("granularity of pages")]
    PageGranularity,
    /// Memory of the program's that devices reach.
    #[error("registered host memory")]
    HostRegistration,
    /// Other devices' memory.
    #[error("peers")]
    Peers,
    /// What connects two devices.
    #[error("topology of pairs")]
    PairTopology,
    /// Priorities of queues.
    #[error("priorities")]
    Priorities,
    /// Counters that a stream writes and waits for; events take their place.
    #[error("counters in memory")]
    MemoryCounters,
    /// Waits between devices by notifications; events take their place.
    #[error("notifications")]
    Notifications,
    /// Events as many as one likes; the hardware's limited ones take their place.
    #[error("events without limit")]
    UnlimitedEvents,
    /// Times of the device.
    #[error("times")]
    Timestamps,
    /// Kernels loaded from memory; the library's older functions take their place.
    #[error("kernels from memory")]
    BinariesFromMemory,
    /// Arguments of a launch in one block; the library's lists of arguments take their place.
    #[error("arguments in one block")]
    BlockArguments,
    /// What a kernel takes, as the library knows it.
    #[error("checks of kernels' parameters")]
    KernelParameters,
    /// What was last said of a failure.
    #[error("words of failures")]
    FailureText,
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
