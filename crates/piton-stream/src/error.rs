//! What can go wrong with streams and events.

use crate::{CaptureError, StreamFailure};
use piton_driver::{DeviceId, DriverError, Priority, PriorityRange};
use piton_sanitizer::Report;
use piton_timeline::{TimelineError, Timepoint};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// Why a call on a stream, an event or a timepoint was refused or came to nothing.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The driver refused the call. Nothing was submitted.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The timeline has no lane left.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    /// The work waited for, or work before it on the same stream, failed.
    #[error(transparent)]
    Poisoned(#[from] Arc<StreamFailure>),
    /// A priority outside the device's range. Smaller is higher; nothing is clamped.
    #[error("priority {} is not between {} (highest) and {} (lowest)", .given.0, .range.highest.0, .range.lowest.0)]
    PriorityOutOfRange {
        /// The priority given.
        given: Priority,
        /// What the device knows. A device without priorities knows only the default.
        range: PriorityRange,
    },
    /// The device lacks the ability the call needs.
    #[error("{device} has no {facet}")]
    Unsupported {
        /// The device.
        device: DeviceId,
        /// What it lacks.
        facet: Facet,
    },
    /// A host function waits on the host for its own stream, which waits for the function to return.
    #[error("a host function cannot wait on the host for {point:?} of its own stream")]
    WouldDeadlock {
        /// What was waited for.
        point: Timepoint,
    },
    /// The stream's work has not ended, so its failure cannot be forgotten.
    #[error("{submitted} commands were submitted and {completed} have ended")]
    NotDrained {
        /// How many were submitted.
        submitted: u64,
        /// How many have ended.
        completed: u64,
    },
    /// This process is a fork of the one that made the runtime, whose threads are not here.
    #[error("the runtime was made by the process that this one is a fork of")]
    Forked,
    /// The timepoint was never submitted on any stream of this runtime.
    #[error("{point:?} was never submitted on a stream of this runtime")]
    UnknownTimepoint {
        /// The point named.
        point: Timepoint,
    },
    /// The event belongs to another runtime.
    #[error("the event at {point:?} belongs to another runtime")]
    ForeignEvent {
        /// The event's place, in its own runtime.
        point: Timepoint,
    },
    /// The stream has no room and its policy is [`WhenFull::Refuse`](crate::WhenFull::Refuse).
    #[error("the stream holds its {capacity} commands and refuses more")]
    Full {
        /// How many commands the stream holds.
        capacity: u64,
    },
    /// The command races with another, or uses memory that is not its own, and the sanitizer is to refuse such.
    /// Nothing was submitted.
    #[error("refused: {0}")]
    Hazard(Arc<Report>),
    /// The event was recorded without a time.
    #[error("the event at {point:?} was recorded without a time")]
    NotTimed {
        /// The event's place.
        point: Timepoint,
    },
    /// The call cannot be captured, or the capture was spoilt by one that could not.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Two devices have two clocks; their times cannot be compared.
    #[error("{start} and {end} have clocks of their own")]
    DifferentClocks {
        /// The device of the first event.
        start: DeviceId,
        /// The device of the second.
        end: DeviceId,
    },
}

/// An ability of a device that streams pass on and some devices lack.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// Host functions in a queue's order.
    HostFunctions,
    /// Counters that the host signals.
    Semaphores,
    /// Such counters that other processes have too.
    SemaphoreSharing,
    /// The device's clock.
    Timestamps,
    /// Other devices' memory.
    Peers,
    /// Queues limited to some cores.
    ComputeUnits,
    /// Graphs that run as one command.
    Graphs,
    /// Waits for values in device memory, and writes of them.
    MemoryOperations,
}

impl fmt::Display for Facet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostFunctions => "host functions",
            Self::Semaphores => "semaphores",
            Self::SemaphoreSharing => "semaphores of several processes",
            Self::Timestamps => "timestamps",
            Self::Peers => "access to peers",
            Self::ComputeUnits => "choice of compute units",
            Self::Graphs => "graphs",
            Self::MemoryOperations => "waits for values in memory",
        })
    }
}
