//! Copies from and to ordinary memory, which a device cannot reach by itself.
//!
//! # The idea
//! The bytes go through a ring of page-locked chunks: the device copies one while the host fills or empties the next. The
//! host looks at a chunk only when the device is done with it, so nothing is copied twice and no chunk waits for its turn
//! longer than it must.
//!
//! A write takes more chunks, up to a bound, before it waits: what is not larger than that returns without the device having
//! moved, as a write on a stream that is held up must. A read waits for the device in any case, and needs no more chunks
//! than keep both busy.

#![expect(
    unsafe_code,
    reason = "submits copies whose ends it has checked and ordered"
)]

use crate::{
    BufferError, DeviceSlice, DeviceSliceMut, Stream,
    copy::check_lengths,
    stream::{Use, size_in_bytes},
};
use bytemuck::Pod;
use piton_copy::{copy_cached, copy_streaming};
use piton_driver::{Command, DevicePtr};
use piton_pinned::{Chunk, PinnedBlock, StagingRing};
use piton_stream::Event;
use piton_timeline::{Frontier, Timepoint};

/// Bytes of a chunk, or of one element where that is more. See `docs/benchmarks.md`.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes that a read leaves in the caches; what follows them would only push out what lies there.
const CACHED_BYTES: usize = 4 << 20;
/// Chunks that a write takes before it waits for the device.
const WRITE_CHUNKS: usize = 64;
/// Chunks that a read has under way.
const READ_CHUNKS: usize = 4;

/// Copies through chunks, of one call.
struct Staged<'a, W> {
    stream: &'a Stream,
    /// What the first copy comes behind; nothing once it was submitted.
    after: &'a [Frontier],
    ring: StagingRing<W>,
    /// Elements of a chunk.
    step: usize,
    /// The last copy submitted. A stream runs in order: all are done when this one is.
    last: Option<Timepoint>,
}

impl Stream {
    /// Copies ordinary memory to the device, through page-locked memory of the pool. `src` is free again when
    /// the call returns; the copy runs in stream order. Blocks while the device is 16 MiB behind.
    ///
    /// # Errors
    /// [`LengthMismatch`](BufferError::LengthMismatch), [`OtherDevice`](BufferError::OtherDevice),
    /// [`Pinned`](BufferError::Pinned), and what the stream refuses. [`Stream`](BufferError::Stream) too if work before it
    /// is found to have failed while it blocks, or if it would block inside a host function of this stream: the first part
    /// of the elements may have been copied then, whole chunks of it.
    #[track_caller]
    pub fn write<'a, T: Pod>(
        &self,
        dst: impl Into<DeviceSliceMut<'a, T>>,
        src: &[T],
    ) -> Result<(), BufferError> {
        let dst = dst.into();
        size_in_bytes::<T>(src.len() as u64)?;
        check_lengths(src.len() as u64, dst.len())?;
        let uses = [Use::write(dst.memory)];
        let ordered = self.order(&uses)?;
        let mut staged = Staged::new::<T>(self, ordered.after(), (src.len(), WRITE_CHUNKS));
        // SAFETY: the range is the destination's own, ordered, and kept alive by the use noted below, which covers what
        // was submitted also where the whole was not.
        let written = unsafe { staged.write(dst.ptr(), src) };
        if let Some(last) = staged.last {
            ordered.note(&last.into());
        }
        written
    }

    /// Copies from the device into a vector. Blocks until it is there.
    ///
    /// # Errors
    /// [`OtherDevice`](BufferError::OtherDevice), [`Pinned`](BufferError::Pinned), what the stream refuses, and
    /// [`Stream`](BufferError::Stream) if the copy or work before it failed.
    #[track_caller]
    pub fn read<'a, T: Pod>(
        &self,
        src: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<Vec<T>, BufferError> {
        let src = src.into();
        let (elements, element_bytes) = (src.len(), size_of::<T>() as u64);
        let len = usize::try_from(elements).map_err(|_| BufferError::InvalidLength {
            elements,
            element_bytes,
        })?;
        let mut landed = Vec::with_capacity(len);
        self.read_parts(src, len, |part| landed.extend_from_slice(part))?;
        Ok(landed)
    }

    /// Copies from the device into ordinary memory. Blocks until it is there.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`LengthMismatch`](BufferError::LengthMismatch). The first part of `dst` may have been
    /// written if the copy failed.
    #[track_caller]
    pub fn read_into<'a, T: Pod>(
        &self,
        src: impl Into<DeviceSlice<'a, T>>,
        dst: &mut [T],
    ) -> Result<(), BufferError> {
        let src = src.into();
        check_lengths(src.len(), dst.len() as u64)?;
        let len = dst.len();
        let (mut room, mut landed) = (bytemuck::cast_slice_mut::<T, u8>(dst), 0);
        self.read_parts(src, len, |part| {
            let part = bytemuck::cast_slice::<T, u8>(part);
            if let Some((now, later)) = std::mem::take(&mut room).split_at_mut_checked(part.len()) {
                if landed < CACHED_BYTES {
                    now.copy_from_slice(part);
                } else {
                    copy_streaming(now, part);
                }
                room = later;
                landed += part.len();
            }
        })
    }

    /// Hands the elements to `land`, part by part, in order.
    #[track_caller]
    fn read_parts<T: Pod>(
        &self,
        src: DeviceSlice<'_, T>,
        len: usize,
        land: impl FnMut(&[T]),
    ) -> Result<(), BufferError> {
        let uses = [Use::read(src.memory)];
        let ordered = self.order(&uses)?;
        let mut staged = Staged::new::<T>(self, ordered.after(), (len, READ_CHUNKS));
        // SAFETY: as in `write`.
        let read = unsafe { staged.read(src.ptr(), len, land) };
        if let Some(last) = staged.last {
            ordered.note(&last.into());
        }
        read
    }
}

impl<'a, W> Staged<'a, W> {
    fn new<T: Pod>(stream: &'a Stream, after: &'a [Frontier], (len, most): (usize, usize)) -> Self {
        let step = CHUNK_BYTES.checked_div(size_of::<T>()).unwrap_or(1);
        let step = step.clamp(1, len.max(1));
        let pool = stream.context().pinned();
        Self {
            stream,
            after,
            ring: StagingRing::new(pool, step * size_of::<T>(), align_of::<T>(), most),
            step,
            last: None,
        }
    }

    /// Submits a copy; the first with the waits it needs, or not at all.
    ///
    /// # Safety
    /// See [the safety of submission](piton_stream::Stream#safety-of-submission); that the stream comes behind `after`
    /// counts.
    #[track_caller]
    unsafe fn submit(&mut self, command: &Command<'_>) -> Result<Timepoint, BufferError> {
        // SAFETY: the caller promised the same.
        let point = unsafe { self.stream.raw().submit_behind(self.after, command)? };
        self.after = &[];
        self.last = Some(point);
        Ok(point)
    }

    /// Has the device begin with what was submitted. A device may be in no hurry to, and would then copy a chunk only when
    /// somebody waits for it, and not while the host fills the next or empties the last.
    fn start(&self) -> Result<(), BufferError> {
        Ok(self.stream.raw().flush()?)
    }

    /// A chunk is about to be used anew: what used it before is over, and nobody's concern any more.
    fn forget(&self, chunk: &PinnedBlock) {
        if let Some(sanitizer) = self.stream.raw().sanitizer() {
            sanitizer.forget_host(chunk.as_ptr(), chunk.capacity());
        }
    }
}

impl Staged<'_, Event> {
    /// # Safety
    /// `dst` is live device memory for all of `src` until the copies have ended that were submitted, and conflicting uses
    /// are ordered with the stream.
    #[track_caller]
    unsafe fn write<T: Pod>(&mut self, dst: DevicePtr, src: &[T]) -> Result<(), BufferError> {
        let mut at = 0;
        for part in src.chunks(self.step) {
            let bytes: &[u8] = bytemuck::cast_slice(part);
            let mut chunk = self.chunk()?;
            if let Some(room) = chunk.try_as_mut_slice()?.get_mut(..bytes.len()) {
                copy_cached(room, bytes);
            }
            let (to, length) = (dst.checked_add(at).unwrap_or(dst), bytes.len() as u64);
            // SAFETY: the caller's promise, for a part; the chunk is as long, nobody uses it, and it goes back to its pool
            // behind the use recorded in it.
            let point = unsafe {
                self.submit(&Command::CopyToDevice {
                    dst: to,
                    src: chunk.as_ptr(),
                    bytes: length,
                })?
            };
            chunk.record_read(point);
            let event = self.stream.raw().record();
            self.ring.put(chunk, event);
            at += length;
            if at < size_of_val(src) as u64 {
                self.start()?;
            }
        }
        Ok(())
    }

    fn chunk(&mut self) -> Result<PinnedBlock, BufferError> {
        let is_over = |event: &Event| event.query().unwrap_or(false);
        let chunk = match self.ring.take(is_over)? {
            Chunk::Free(chunk) => chunk,
            Chunk::InUse(chunk, event) => {
                event.synchronize()?;
                chunk
            }
        };
        self.forget(&chunk);
        Ok(chunk)
    }
}

impl Staged<'_, Underway> {
    /// # Safety
    /// `src` is live device memory of `len` elements until the copies have ended that were submitted, and conflicting uses
    /// are ordered with the stream.
    #[track_caller]
    unsafe fn read<T: Pod>(
        &mut self,
        src: DevicePtr,
        len: usize,
        mut land: impl FnMut(&[T]),
    ) -> Result<(), BufferError> {
        let mut at = 0;
        for start in (0..len).step_by(self.step) {
            let length = self.step.min(len - start) * size_of::<T>();
            let mut chunk = match self.ring.take(|_| false)? {
                Chunk::Free(chunk) => chunk,
                Chunk::InUse(chunk, underway) => underway.land(chunk, &mut land)?,
            };
            self.forget(&chunk);
            let from = src.checked_add(at).unwrap_or(src);
            // SAFETY: as in `write`.
            let point = unsafe {
                self.submit(&Command::CopyToHost {
                    dst: chunk.as_ptr(),
                    src: from,
                    bytes: length as u64,
                })?
            };
            chunk.record_write(point);
            let event = self.stream.raw().record();
            self.ring.put(chunk, Underway { event, length });
            at += length as u64;
            if start + self.step < len {
                self.start()?;
            }
        }
        while let Some(Chunk::InUse(chunk, underway)) = self.ring.take_oldest() {
            drop(underway.land(chunk, &mut land)?);
        }
        Ok(())
    }
}

/// A part of a read that is on its way.
struct Underway {
    event: Event,
    /// Bytes of it.
    length: usize,
}

impl Underway {
    /// Waits for the part, and hands it on; the chunk is free then.
    #[track_caller]
    fn land<T: Pod>(
        self,
        chunk: PinnedBlock,
        land: &mut impl FnMut(&[T]),
    ) -> Result<PinnedBlock, BufferError> {
        self.event.synchronize()?;
        let bytes = chunk.try_as_slice()?.get(..self.length).unwrap_or_default();
        land(bytemuck::try_cast_slice(bytes).unwrap_or_default());
        Ok(chunk)
    }
}
