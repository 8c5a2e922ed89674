//! A copy staged through page-locked host memory.
//!
//! The bytes go in chunks: out of the source on one stream, into the destination on another, the second half of
//! one chunk beside the first half of the next. A chunk's host memory is used again only when the copy out of it
//! has ended, which the stream that fills it waits for, on the device.
//!
//! Both streams start behind the caller's stream, and the caller's stream goes on behind the last chunk.

#![expect(
    unsafe_code,
    reason = "passes the promises of `carry` on to the streams"
)]

use crate::{TransferError, transfers::End};
use piton_driver::DevicePtr;
use piton_pinned::PinnedBlock;
use piton_stream::Stream;
use piton_timeline::{Frontier, Timepoint};

/// Bytes of a chunk.
pub const STAGING_CHUNK_BYTES: u64 = 1 << 20;
/// Chunks of host memory a copy uses at most.
pub const STAGING_CHUNKS: usize = 4;

#[derive(Debug)]
struct Chunk {
    block: PinnedBlock,
    /// The copy out of it into the destination.
    emptied: Option<Timepoint>,
}

/// One staged copy being submitted.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    from: &'a End,
    to: &'a End,
    chunks: Vec<Chunk>,
    submitted: Frontier,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(from: &'a End, to: &'a End) -> Self {
        Self {
            from,
            to,
            chunks: Vec::new(),
            submitted: Frontier::new(),
        }
    }

    /// Everything submitted so far has ended there.
    pub(crate) fn submitted(&self) -> Frontier {
        self.submitted.clone()
    }

    /// Submits the whole copy.
    ///
    /// # Safety
    /// As [`Transfers::copy`](crate::Transfers::copy).
    #[track_caller]
    pub(crate) unsafe fn carry(
        &mut self,
        stream: &Stream,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<(), TransferError> {
        let start = stream.record();
        self.from.out.wait(&start)?;
        self.to.into.wait(&start)?;
        let mut done = 0;
        for number in 0.. {
            if done == bytes {
                break;
            }
            let length = (bytes - done).min(STAGING_CHUNK_BYTES);
            let ends = (dst.checked_add(done), src.checked_add(done));
            let (Some(dst), Some(src)) = ends else { break };
            // SAFETY: the caller promised it for the whole ranges, of which these are parts.
            unsafe { self.carry_chunk(number % STAGING_CHUNKS, dst, src, length)? };
            done += length;
        }
        // Streams run in order: behind their last commands lies everything.
        stream.wait_frontier(&self.submitted)?;
        self.submitted.insert(stream.now());
        Ok(())
    }

    /// # Safety
    /// As [`carry`](Self::carry).
    unsafe fn carry_chunk(
        &mut self,
        slot: usize,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<(), TransferError> {
        let (from, to) = (self.from, self.to);
        let chunk = self.chunk(slot, bytes)?;
        if let Some(emptied) = chunk.emptied {
            from.out.wait_timepoint(emptied)?;
        }
        let host = chunk.block.as_ptr();
        // SAFETY: the host memory is the chunk's own, at least `bytes` long, and its block goes back to its pool
        // only behind the uses recorded in it. The caller promised the rest for the source.
        let filled = unsafe { from.out.copy_to_host(host, src, bytes)? };
        chunk.block.record_write(filled);
        let note = |submitted: &mut Frontier, point| submitted.insert(point);
        let waited = to.into.wait_timepoint(filled);
        // SAFETY: as above, for the destination; the copy waits until the chunk is filled.
        let emptied = waited.and_then(|_| unsafe { to.into.copy_to_device(dst, host, bytes) });
        if let Ok(emptied) = emptied {
            chunk.block.record_read(emptied);
            chunk.emptied = Some(emptied);
        }
        note(&mut self.submitted, filled);
        note(&mut self.submitted, emptied?);
        Ok(())
    }

    fn chunk(&mut self, slot: usize, bytes: u64) -> Result<&mut Chunk, TransferError> {
        if slot >= self.chunks.len() {
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            let block = self.from.pinned.allocate(length)?;
            if let Some(sanitizer) = self.from.out.sanitizer() {
                // What used it before is over: that is the pool's promise.
                sanitizer.forget_host(block.as_ptr(), block.capacity());
            }
            self.chunks.push(Chunk {
                block,
                emptied: None,
            });
        }
        let last = self.chunks.len().saturating_sub(1);
        Ok(&mut self.chunks[slot.min(last)])
    }
}
