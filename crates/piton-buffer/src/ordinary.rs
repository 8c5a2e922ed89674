//! Copies from and to ordinary memory, which a device cannot reach by itself.
//!
//! The bytes go through a ring of page-locked chunks; how is in [`staged`](crate::staged). Here is what callers see, and where
//! the bytes that come from a device go.

#![expect(
    unsafe_code,
    reason = "submits copies whose ends it has checked and ordered"
)]

use crate::{
    BufferError, DeviceSlice, DeviceSliceMut, Stream,
    copy::check_lengths,
    staged::Staged,
    stream::{Use, size_in_bytes},
};
use bytemuck::Pod;
use piton_copy::copy_streaming;
use piton_pinned::StagedDirection;

/// Bytes that a read leaves in the caches; what follows them would only push out what lies there.
const CACHED_BYTES: usize = 4 << 20;

impl Stream {
    /// Copies ordinary memory to the device, through page-locked memory of the pool. `src` is free again when
    /// the call returns; the copy runs in stream order. Blocks while the device is 16 MiB behind. A simulated device's half of
    /// the copy may be carried out by the calling thread ([`StagedWay`](piton_pinned::StagedWay)).
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
        let mut staged = Staged::new::<T>(
            self,
            ordered.after(),
            (StagedDirection::ToDevice, src.len()),
        );
        // SAFETY: the range is the destination's own, ordered, and kept alive by the use noted below, which covers what
        // was submitted also where the whole was not.
        let written = unsafe { staged.write(dst.ptr(), src) };
        let last = staged.last;
        drop(staged);
        if let Some(last) = last {
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
        let mut staged = Staged::new::<T>(self, ordered.after(), (StagedDirection::ToHost, len));
        // SAFETY: as in `write`.
        let read = unsafe { staged.read(src.ptr(), len, land) };
        let last = staged.last;
        drop(staged);
        if let Some(last) = last {
            ordered.note(&last.into());
        }
        read
    }
}
