//! What can be wrong with a trace, and where.

use std::{fmt, path::PathBuf};

use super::event::{MAX_BYTES, MAX_STREAM};

/// A trace that cannot be read on, with the place where it went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {kind}", file.display(), Line(*line))]
pub struct TraceError {
    /// The file, as it was named by the caller.
    pub file: PathBuf,
    /// Line from 1; 0 if the file could not be opened at all.
    pub line: u64,
    /// What is wrong.
    #[source]
    pub kind: TraceErrorKind,
}

/// Where in a file, for a message; nothing where that is no line.
struct Line(u64);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, ":{line}"),
        }
    }
}

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// The operating system would not let the file be opened or read.
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
    /// The file holds no events at all.
    #[error("holds no events")]
    Empty,
    /// The compressed stream stops before its end: the file was cut off.
    #[error("the gzip stream is cut off after {lines} whole lines")]
    TruncatedGzip {
        /// Lines that came out whole.
        lines: u64,
    },
    /// The compressed stream is damaged, or is followed by something that is not gzip.
    #[error("the gzip stream is damaged after {lines} whole lines")]
    CorruptGzip {
        /// Lines that came out whole.
        lines: u64,
    },
    /// The file begins like a memory snapshot and is none that can be read.
    #[error("not a memory snapshot: {0}")]
    Snapshot(#[from] piton_snapshot::SnapshotError),
    /// A line goes on and on; this is not a trace.
    #[error("line is longer than {limit} bytes")]
    OverlongLine {
        /// Longest line possible, in bytes.
        limit: usize,
    },
    /// The line does not say anything a trace can say.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The line contradicts those before it.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// A line that is wrong whatever came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Bytes that are not text.
    #[error("not UTF-8 from byte {column} of the line")]
    NotUtf8 {
        /// First byte that is wrong, from 1.
        column: usize,
    },
    /// Nothing on the line.
    #[error("empty line")]
    Empty,
    /// Neither `a` nor `f` nor `u`.
    #[error("unknown event, expected `a`, `f` or `u`")]
    UnknownEvent,
    /// Too few or too many fields for this event.
    #[error("{fields} fields, expected {expected}")]
    Fields {
        /// Fields found, the event's letter included.
        fields: usize,
        /// Fields such an event has.
        expected: usize,
    },
    /// A field is not a decimal number below 2^64.
    #[error("field {field} is not a whole number below 2^64")]
    NotANumber {
        /// The field, from 1.
        field: usize,
    },
    /// An allocation of nothing.
    #[error("allocation of zero bytes")]
    ZeroBytes,
    /// An allocation no device can hold.
    #[error("allocation of {bytes} bytes, more than the {MAX_BYTES} of any device")]
    ImpossibleSize {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A stream number beyond the limit.
    #[error("stream {stream}, largest possible is {MAX_STREAM}")]
    StreamTooLarge {
        /// Stream named.
        stream: u64,
    },
}

/// A line that is wrong after the lines before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// An id allocated a second time; ids are never reused.
    #[error("id {id} is allocated a second time")]
    DuplicateId {
        /// The id.
        id: u64,
    },
    /// A free or use of an id that was never allocated.
    #[error("id {id} was never allocated")]
    UnknownId {
        /// The id.
        id: u64,
    },
    /// A second free.
    #[error("id {id} is freed twice")]
    FreedTwice {
        /// The id.
        id: u64,
    },
    /// A use of what is freed already.
    #[error("id {id} is used after it was freed")]
    UsedAfterFree {
        /// The id.
        id: u64,
    },
    /// A free that names another stream than the allocation.
    #[error("id {id} is freed on stream {stream}, but was allocated on stream {allocated_on}")]
    FreedOnOtherStream {
        /// The id.
        id: u64,
        /// Stream of the free.
        stream: u16,
        /// Stream of the allocation.
        allocated_on: u16,
    },
    /// A use on the stream that allocated the block: such uses are in order and never recorded.
    #[error("id {id} is recorded as used on stream {stream}, which allocated it")]
    UsedOnOwnStream {
        /// The id.
        id: u64,
        /// The stream.
        stream: u16,
    },
    /// All blocks live together exceed 2^64 bytes.
    #[error("live bytes exceed 2^64")]
    LiveBytesOverflow,
}
