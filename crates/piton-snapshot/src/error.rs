//! What can be wrong with a snapshot.

use crate::pickle::PickleError;

/// A file that is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is no pickle of plain data.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// It is no dictionary with lists `segments` and `device_traces`.
    #[error("a pickle, but not of a memory snapshot: no lists `segments` and `device_traces`")]
    NotASnapshot,
    /// A segment lacks what every segment has, or it is something else.
    #[error("segment {segment} is not described as a segment is")]
    Segment {
        /// Its number, from 0.
        segment: usize,
    },
    /// An event lacks what every event of its kind has.
    #[error("event {event} of device {device} is not described as an event is")]
    Event {
        /// Number of the device.
        device: usize,
        /// Number of the event, from 0.
        event: usize,
    },
}

/// A snapshot without a history of this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The snapshot has fewer devices.
    #[error("no device {device}, the snapshot has {devices}")]
    NoDevice {
        /// The device asked for.
        device: usize,
        /// Devices there are.
        devices: usize,
    },
}
