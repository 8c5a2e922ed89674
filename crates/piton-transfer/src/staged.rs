//! Copies through host memory that nobody guards: their commands are the program's stream's and its
//! [companion's](crate::companion), and fail as those do.
//!
//! Where the stream is on the source it fills host memory itself, its companion empties it, and the stream waits for that.
//! Where it is on the destination its companion fills host memory, behind what the stream was given before, and the
//! stream empties it. That is a wait each way for a copy of one chunk. Several chunks take turns in
//! [`STAGING_CHUNKS`] blocks, which are filled again when they have been emptied.

#![expect(
    unsafe_code,
    reason = "passes the promises of `copy` on to the streams"
)]

use crate::{STAGING_CHUNKS, TransferError, engine::Engine, part::moved, transfers::Carried};
use piton_driver::{Command, PeerAddress};
use piton_pinned::PinnedBlock;
use piton_stream::Stream;
use piton_timeline::{Frontier, Timepoint};
use smallvec::SmallVec;

/// Bytes of a chunk at most.
const CHUNK_BYTES: u64 = 1 << 20;

/// What fills host memory and what empties it.
struct Legs<'a> {
    fills: &'a Stream,
    empties: &'a Stream,
    /// What has been submitted.
    submitted: Frontier,
}

/// A block of host memory and where it was last emptied.
struct Slot {
    block: PinnedBlock,
    emptied: Frontier,
}

/// Copies `bytes` bytes from `src` to `dst` through page-locked memory, in the order of `stream`, which is on one of the
/// two devices.
///
/// # Safety
/// As [`Transfers::copy`](crate::Transfers::copy).
#[track_caller]
pub(crate) unsafe fn carry(
    engine: &Engine,
    stream: &Stream,
    (dst, src): (PeerAddress, PeerAddress),
    bytes: u64,
) -> Carried {
    let fills_itself = stream.device().info().id == src.device;
    let far = if fills_itself { dst } else { src };
    let companion = match engine.companions.of(stream, far.device, &engine.ends) {
        Ok(companion) => companion,
        Err(error) => return Carried::nothing(error),
    };
    let (fills, empties) = if fills_itself {
        (stream, &companion.stream)
    } else {
        (&companion.stream, stream)
    };
    let mut legs = Legs {
        fills,
        empties,
        submitted: Frontier::new(),
    };
    let start = (!fills_itself).then(|| stream.now());
    // SAFETY: the caller promised it.
    let mut result = unsafe { legs.submit(engine, start, (dst, src), bytes) };
    // What comes next comes behind all of it, also where it was submitted in part.
    let waited = stream.wait_frontier(&legs.submitted);
    companion.note(stream);
    if result.is_ok() {
        result = waited.map_err(TransferError::from);
    }
    Carried {
        submitted: legs.submitted,
        result,
    }
}

impl Legs<'_> {
    /// All chunks, the first behind `start`.
    ///
    /// # Safety
    /// As [`carry`].
    #[track_caller]
    unsafe fn submit(
        &mut self,
        engine: &Engine,
        start: Option<Timepoint>,
        (dst, src): (PeerAddress, PeerAddress),
        bytes: u64,
    ) -> Result<(), TransferError> {
        let chunk = CHUNK_BYTES.min(bytes);
        let mut slots = take_slots(engine, src, chunk, bytes)?;
        let mut start = start.map(Frontier::from).unwrap_or_default();
        let (mut done, mut number) = (0, 0);
        while done < bytes {
            let here = chunk.min(bytes - done);
            let at = number % slots.len();
            let past = || TransferError::PastTheEnd { bytes: here };
            let source = moved(src, done).ok_or_else(past)?;
            let target = moved(dst, done).ok_or_else(past)?;
            // SAFETY: the caller promised it for the ranges; the block is this copy's.
            unsafe { self.chunk(&mut slots[at], &start, (target, source), here)? };
            start = Frontier::new();
            done += here;
            number += 1;
        }
        Ok(())
    }

    /// One chunk through one slot.
    ///
    /// # Safety
    /// As [`carry`], for this part of the ranges.
    #[track_caller]
    unsafe fn chunk(
        &mut self,
        slot: &mut Slot,
        start: &Frontier,
        (dst, src): (PeerAddress, PeerAddress),
        bytes: u64,
    ) -> Result<(), TransferError> {
        let host = slot.block.as_ptr();
        let fill = Command::CopyToHost {
            dst: host,
            src: src.ptr,
            bytes,
        };
        let empty = Command::CopyToDevice {
            dst: dst.ptr,
            src: host,
            bytes,
        };
        let behind = [std::mem::take(&mut slot.emptied), start.clone()];
        // SAFETY: the source is the caller's; the block belongs to this copy, has been emptied, and notes its uses.
        let filled = unsafe { self.fills.submit_behind(&behind, &fill)? };
        slot.block.record_write(filled);
        self.submitted.insert(filled);
        let filled = Frontier::from(filled);
        // SAFETY: the destination is the caller's, and the block has been filled by then.
        let emptied = unsafe { self.empties.submit_behind(&[filled], &empty)? };
        slot.block.record_read(emptied);
        self.submitted.insert(emptied);
        slot.emptied = emptied.into();
        Ok(())
    }
}

/// As many blocks as a copy of so many chunks takes turns in.
fn take_slots(
    engine: &Engine,
    src: PeerAddress,
    chunk: u64,
    bytes: u64,
) -> Result<SmallVec<[Slot; 1]>, TransferError> {
    let end = engine.ends.get(src.device)?;
    let count = bytes.div_ceil(chunk.max(1)).min(STAGING_CHUNKS as u64);
    let slots = (0..count).map(|_| {
        Ok(Slot {
            block: end.take_block(chunk)?,
            emptied: Frontier::new(),
        })
    });
    slots.collect()
}
