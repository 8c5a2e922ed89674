//! What cannot be captured.

use piton_driver::{DeviceId, Operation, Origin};
use piton_timeline::{LaneId, Timepoint};
use std::fmt;
use thiserror::Error;

/// A call that spoilt a capture, and where it was made. The call itself returns it, and so do later calls on the
/// capture's streams and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{offence}, at {place}, cannot be captured")]
pub struct CaptureError {
    /// Which call.
    pub offence: Offence,
    /// Where in the program. For what no call says (a stream dropped or not joined back), where the stream entered
    /// the capture.
    pub place: Origin,
}

/// A call that cannot be captured.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offence {
    /// Waiting on the host for a stream of the capture.
    Synchronize,
    /// Asking whether a stream of the capture has ended.
    Query,
    /// Waiting on the host for an event of the capture.
    WaitOnHost,
    /// Asking whether an event of the capture is reached, or when.
    QueryEvent,
    /// Saying how long a command before an event of the capture may take.
    CommandDeadline,
    /// Making a future of a stream or an event of the capture.
    Completion,
    /// A command that has no place in a graph.
    Command(Operation),
    /// A host function that works once; [`Stream::call_host_each_time`](crate::Stream::call_host_each_time) takes one
    /// that works again.
    HostFunctionOnce,
    /// A wait for work outside the capture that has not ended, or has failed: a replay would not wait for it.
    WorkOutside {
        /// What was waited for.
        point: Timepoint,
    },
    /// A wait for an event of another capture, or of one that has ended.
    OtherCapture,
    /// A wait by a stream of another device than the capture's.
    OtherDevice {
        /// That device.
        device: DeviceId,
    },
    /// Beginning a capture of a stream that takes part in one.
    BeginAgain,
    /// Ending a capture before its first stream has waited for the last node of this one.
    NotJoined {
        /// The stream.
        lane: LaneId,
    },
    /// Dropping a stream of the capture.
    StreamDropped {
        /// The stream.
        lane: LaneId,
    },
    /// More nodes than a graph numbers.
    TooManyNodes,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synchronize => f.write_str("waiting on the host for a captured stream"),
            Self::Query => f.write_str("asking how far a captured stream is"),
            Self::WaitOnHost => f.write_str("waiting on the host for a captured event"),
            Self::QueryEvent => f.write_str("asking whether a captured event is reached"),
            Self::CommandDeadline => f.write_str("a deadline of a captured command"),
            Self::Completion => f.write_str("a future of captured work"),
            Self::Command(operation) => write!(f, "{operation}"),
            Self::HostFunctionOnce => f.write_str("a host function that works once"),
            Self::WorkOutside { point } => write!(f, "a wait for {point:?}, outside and not ended"),
            Self::OtherCapture => f.write_str("a wait for an event of another capture"),
            Self::OtherDevice { device } => write!(f, "a wait by a stream of {device}"),
            Self::BeginAgain => f.write_str("beginning a capture inside a capture"),
            Self::NotJoined { lane } => write!(f, "{lane:?}, which was not waited for,"),
            Self::StreamDropped { lane } => write!(f, "dropping {lane:?}, which entered"),
            Self::TooManyNodes => f.write_str("one more node"),
        }
    }
}
