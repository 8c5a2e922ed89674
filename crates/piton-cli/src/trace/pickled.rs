//! PyTorch's memory snapshots as traces.
//!
//! The ring of the device that has most to tell is written as the lines of a trace, which are then read like any other, with
//! all that is looked at there. A ring is bounded, so all of it fits in memory.

use std::fmt::Write as _;
use std::io::Read;

use piton_snapshot::pickle::Limits;
use piton_snapshot::{Request, Snapshot};

use super::error::TraceErrorKind;
use super::event::{MAX_STREAM, TraceEvent};

/// Whether a pickle may begin with this byte, and no trace does: with its protocol from 2 on, and before that with the mark or
/// the empty dictionary or list that a snapshot is.
pub(super) fn begins(byte: u8) -> bool {
    matches!(byte, 0x80 | b'(' | b'}' | b']')
}

/// Reads a snapshot to its end and writes its history as lines.
pub(super) fn lines(source: impl Read) -> Result<String, TraceErrorKind> {
    let limits = Limits::default();
    let mut bytes = Vec::new();
    // One more byte than allowed is enough to tell that it is too long.
    let most = u64::try_from(limits.bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    source
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(TraceErrorKind::Io)?;
    let snapshot = Snapshot::from_pickle(&bytes, &limits)?;
    drop(bytes);
    let rings = snapshot.device_events.iter().enumerate();
    let Some((device, _)) = rings.max_by_key(|(_, ring)| ring.len()) else {
        return Err(TraceErrorKind::Empty);
    };
    let history = snapshot
        .history(device)
        .map_err(|_| TraceErrorKind::Empty)?;
    let mut lines = String::new();
    for request in history.requests {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{}", event(request));
    }
    if lines.is_empty() {
        return Err(TraceErrorKind::Empty);
    }
    Ok(lines)
}

fn event(request: Request) -> TraceEvent {
    // A stream beyond the largest is written as one that the reader refuses.
    let narrow = |stream: u32| u16::try_from(stream).unwrap_or(MAX_STREAM + 1);
    match request {
        Request::Allocate { id, bytes, stream } => TraceEvent::Allocate {
            id,
            bytes,
            stream: narrow(stream),
        },
        Request::Free { id, stream } => TraceEvent::Free {
            id,
            stream: narrow(stream),
        },
        Request::Use { id, stream } => TraceEvent::Use {
            id,
            stream: narrow(stream),
        },
    }
}
