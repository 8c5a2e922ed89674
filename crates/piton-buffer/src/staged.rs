//! The two halves of a copy that goes through page-locked chunks, and how they follow each other.
//!
//! # The idea
//! The host's half is between ordinary memory and a chunk, the device's between the chunk and the device's memory. Two ways
//! ([`StagedWay`]):
//! - *Overlapped*: the device copies one chunk while the host fills or empties the next.
//! - *In turn*: the thread holds the idle stream ([`Hold`]), submits the device's half and carries it out itself while the chunk lies in its
//!   core's cache. Where the stream cannot be held, because the device does its own work or still has some, the chunk
//!   goes the other way. So a thread that finds the device busy leaves the chunk to it, and goes on.
//!
//! A copy in turn needs no chunk where the device takes ordinary memory as it is ([`Admitted`]): the one thread at work does the
//! device's half *straight* from it or to it, sees its end, and goes on.
//!
//! The host looks at a chunk only when the device is done with it, so nothing is copied twice and no chunk waits for its turn
//! longer than it must.
//!
//! A write takes more chunks, up to a bound, before it waits: what is not larger than that returns without the device having
//! moved, as a write on a stream that is held up must. A read waits for the device in any case, and needs no more chunks
//! than keep both busy.

#![expect(
    unsafe_code,
    reason = "submits copies whose ends its callers have checked and ordered"
)]

use crate::{BufferError, Stream, admitted::Admitted, landing::Landing, staged_pace::Pace};
use bytemuck::Pod;
use piton_copy::copy_cached;
use piton_driver::{Command, DevicePtr};
use piton_pinned::{Chunk, PinnedBlock, StagedDirection, StagedWay, StagingRing};
use piton_stream::{Event, Hold};
use piton_sync::thread;
use piton_timeline::{Frontier, Timepoint};
use std::ptr::NonNull;

/// Bytes that a write has under way before it waits for the device.
const WRITE_BYTES: usize = 16 << 20;
/// Chunks that a read has under way.
const READ_CHUNKS: usize = 4;
/// Looks at an idle stream that another thread is about to let go.
const LOOKS: u32 = 100;

/// Copies through chunks, of one call.
pub(crate) struct Staged<'a, W> {
    stream: &'a Stream,
    /// What the first copy comes behind; nothing once it was submitted.
    after: &'a [Frontier],
    ring: StagingRing<W>,
    pace: Pace<'a>,
    /// Elements of a chunk.
    step: usize,
    /// The last copy submitted. A stream runs in order: all are done when this one is.
    pub(crate) last: Option<Timepoint>,
}

impl<'a, W> Staged<'a, W> {
    pub(crate) fn new<T: Pod>(
        stream: &'a Stream,
        after: &'a [Frontier],
        (direction, len): (StagedDirection, usize),
    ) -> Self {
        let pool = stream.context().pinned();
        let chunk_bytes = pool.staging().chunk_bytes();
        let step = chunk_bytes.checked_div(size_of::<T>()).unwrap_or(1);
        let step = step.clamp(1, len.max(1));
        let most = match direction {
            StagedDirection::ToDevice => (WRITE_BYTES / chunk_bytes).max(2),
            StagedDirection::ToHost => READ_CHUNKS,
        };
        let (chunk, bytes) = (step * size_of::<T>(), len.saturating_mul(size_of::<T>()));
        Self {
            stream,
            after,
            ring: StagingRing::new(pool, chunk, align_of::<T>(), most),
            pace: Pace::new(stream, direction, (bytes, chunk)),
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

    /// Has the device's copies name ordinary memory, where that may be of use: a single chunk is left to the device.
    ///
    /// # Safety
    /// As for [`Admitted::new`].
    unsafe fn admit<T>(&self, memory: NonNull<[T]>) -> Option<Admitted<'a>> {
        if memory.len() <= self.step {
            return None;
        }
        let device = self.stream.context().device();
        // SAFETY: the caller's promise.
        unsafe { Admitted::new(&**device, memory.cast(), memory.len() * size_of::<T>()) }
    }

    /// The stream, where the next chunk is to go in turn and can.
    fn hold(&mut self) -> Option<Hold<'a>> {
        if self.pace.way() == StagedWay::Overlapped {
            return None;
        }
        let hold = self.stream.raw().hold();
        if hold.is_none() {
            self.pace.give_up();
        }
        hold
    }

    /// The device's half of a chunk is submitted: it is carried out here, or the device is told to begin, if there is more to
    /// come. A device may be in no hurry to, and would then copy a chunk only when somebody waits for it, and not while
    /// the host fills the next or empties the last.
    fn go_on(
        &self,
        hold: Option<Hold<'_>>,
        point: Timepoint,
        is_last: bool,
    ) -> Result<(), BufferError> {
        match hold {
            Some(hold) => hold.help(point),
            None if is_last => {}
            None => self.stream.raw().flush()?,
        }
        Ok(())
    }

    /// Host memory is about to be used anew: what used it before is over, and nobody's concern any more.
    fn forget(&self, start: NonNull<u8>, bytes: u64) {
        if let Some(sanitizer) = self.stream.raw().sanitizer() {
            sanitizer.forget_host(start, bytes);
        }
    }

    /// The stream, where the next part is to go straight and can: nothing is under way on it, and nothing would have to be waited
    /// for. A thread that has ended the stream's last command may be about to let it go, and gets the time to.
    fn hold_straight(&self, admitted: Option<&Admitted<'_>>) -> Option<Hold<'a>> {
        admitted.filter(|_| self.pace.way() == StagedWay::InTurn)?;
        let timeline = self.stream.context().streams.timeline();
        if !self
            .after
            .iter()
            .all(|frontier| frontier.is_complete(timeline))
        {
            return None;
        }
        let stream = self.stream.raw();
        for _ in 0..LOOKS {
            if let Some(hold) = stream.hold() {
                return Some(hold);
            }
            if stream.depth() > 0 {
                return None;
            }
            thread::yield_now();
        }
        None
    }

    /// Submits a copy between the device and so many bytes of admitted memory, carries it out, and returns when it has ended,
    /// however it did.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    #[track_caller]
    unsafe fn carry_out(
        &mut self,
        hold: Hold<'_>,
        (memory, bytes): (NonNull<u8>, usize),
        command: &Command<'_>,
    ) -> Result<(), BufferError> {
        // SAFETY: the caller's promise.
        let point = unsafe { self.submit(command)? };
        hold.help(point);
        let streams = &self.stream.context().streams;
        let mut ended = streams.wait(point, None);
        // A wait that was refused has seen no end, and until then the memory is in use.
        while !streams.timeline().is_complete(point) {
            thread::yield_now();
            ended = streams.wait(point, None);
        }
        self.forget(memory, bytes as u64);
        let _reached = ended?;
        if self.pace.has_passed(bytes) {
            self.pace.go_on();
        }
        Ok(())
    }
}

impl Staged<'_, Event> {
    /// # Safety
    /// `dst` is live device memory for all of `src` until the copies have ended that were submitted, and conflicting uses
    /// are ordered with the stream.
    #[track_caller]
    pub(crate) unsafe fn write<T: Pod>(
        &mut self,
        dst: DevicePtr,
        src: &[T],
    ) -> Result<(), BufferError> {
        let mut at = 0;
        // SAFETY: it is borrowed for longer than this lives, and `carry_out` sees the end of each copy that names it.
        let admitted = unsafe { self.admit(NonNull::from(src)) };
        for part in src.chunks(self.step) {
            let bytes: &[u8] = bytemuck::cast_slice(part);
            let (to, length) = (dst.checked_add(at).unwrap_or(dst), bytes.len() as u64);
            if let Some(hold) = self.hold_straight(admitted.as_ref()) {
                let (dst, src, memory) = (to, NonNull::from(bytes).cast(), bytes.len());
                let bytes = length;
                let command = Command::CopyToDevice { dst, src, bytes };
                // SAFETY: the caller's promise, for a part; the memory is admitted, and nobody writes it meanwhile.
                unsafe { self.carry_out(hold, (src, memory), &command)? };
                at += length;
                continue;
            }
            let mut chunk = self.chunk()?;
            if let Some(room) = chunk.try_as_mut_slice()?.get_mut(..bytes.len()) {
                copy_cached(room, bytes);
            }
            let hold = self.hold();
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
            at += length;
            self.go_on(hold, point, at >= size_of_val(src) as u64)?;
            if self.pace.has_passed(bytes.len()) {
                self.pace.wait(&event)?;
            }
            self.ring.put(chunk, event);
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
        self.forget(chunk.as_ptr(), chunk.capacity());
        Ok(chunk)
    }
}

impl Staged<'_, Underway> {
    /// Fills `dst` from its start on.
    ///
    /// # Safety
    /// `src` is live device memory for all of `dst` until the copies have ended that were submitted, and conflicting uses
    /// are ordered with the stream.
    #[track_caller]
    pub(crate) unsafe fn read<T: Pod>(
        &mut self,
        src: DevicePtr,
        dst: &mut [T],
    ) -> Result<(), BufferError> {
        // SAFETY: it is borrowed for longer than this lives, and `carry_out` sees the end of each copy that names it.
        let admitted = unsafe { self.admit(NonNull::from(&mut *dst)) };
        let (whole, step) = (size_of_val(dst), self.step * size_of::<T>());
        let (mut landing, mut free) = (Landing::new(bytemuck::cast_slice_mut(dst)), None);
        for at in (0..whole).step_by(step.max(1)) {
            let (from, length) = (
                src.checked_add(at as u64).unwrap_or(src),
                step.min(whole - at),
            );
            if let Some(hold) = self.hold_straight(admitted.as_ref()) {
                free = self.land_all(&mut landing)?.or(free);
                if let Some(dst) = landing.next(length) {
                    let (src, bytes) = (from, length as u64);
                    let command = Command::CopyToHost { dst, src, bytes };
                    // SAFETY: the caller's promise, for a part; the memory is admitted, and nobody uses it meanwhile.
                    unsafe { self.carry_out(hold, (dst, length), &command)? };
                }
                continue;
            }
            let mut chunk = match free.take() {
                Some(chunk) => chunk,
                None => self.chunk(&mut landing)?,
            };
            self.forget(chunk.as_ptr(), chunk.capacity());
            let hold = self.hold();
            let is_here = hold.is_some();
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
            self.go_on(hold, point, at + length >= whole)?;
            let has_passed = self.pace.has_passed(length);
            // What was submitted before is over where the stream could be held, and so, most likely, is this.
            if is_here || has_passed {
                free = self.land_all(&mut landing)?;
            }
            if has_passed {
                self.pace.go_on();
            }
        }
        self.land_all(&mut landing)?;
        Ok(())
    }

    /// The next chunk, when what was in it has landed.
    #[track_caller]
    fn chunk(&mut self, landing: &mut Landing<'_>) -> Result<PinnedBlock, BufferError> {
        match self.ring.take(|_| false)? {
            Chunk::Free(chunk) => Ok(chunk),
            Chunk::InUse(chunk, underway) => underway.land(chunk, landing),
        }
    }

    /// Lands all that is under way. The chunk that landed last comes back.
    #[track_caller]
    fn land_all(&mut self, landing: &mut Landing<'_>) -> Result<Option<PinnedBlock>, BufferError> {
        let mut free = None;
        while let Some(Chunk::InUse(chunk, underway)) = self.ring.take_oldest() {
            free = Some(underway.land(chunk, landing)?);
        }
        Ok(free)
    }
}

/// A part of a read that is on its way.
pub(crate) struct Underway {
    event: Event,
    /// Bytes of it.
    length: usize,
}

impl Underway {
    /// Waits for the part and lands it; the chunk is free then.
    #[track_caller]
    fn land(
        self,
        chunk: PinnedBlock,
        landing: &mut Landing<'_>,
    ) -> Result<PinnedBlock, BufferError> {
        self.event.synchronize()?;
        landing.land(chunk.try_as_slice()?.get(..self.length).unwrap_or_default());
        Ok(chunk)
    }
}
