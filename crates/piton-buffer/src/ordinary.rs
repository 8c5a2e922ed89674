//! Copies from and to ordinary memory, which a device cannot reach by itself.
//!
//! The bytes go through a ring of page-locked chunks, or straight where the copying thread does the device's half too; how is in
//! [`staged`](crate::staged). Here is what callers see.

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
use piton_driver::{DriverError, ErrorKind, Operation};
use piton_pinned::StagedDirection;

impl Stream {
    /// Copies ordinary memory to the device, through page-locked memory of the pool. `src` is free again when
    /// the call returns; the copy runs in stream order. Blocks while the device is 16 MiB behind. A simulated device's half of
    /// the copy may be carried out by the calling thread, and then needs no page-locked memory ([`StagedWay`](piton_pinned::StagedWay)).
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
    /// [`OtherDevice`](BufferError::OtherDevice), [`Pinned`](BufferError::Pinned), what the stream refuses,
    /// [`Stream`](BufferError::Stream) if the copy or work before it failed, and [`Driver`](BufferError::Driver) with
    /// [`OutOfHostMemory`](piton_driver::ErrorKind::OutOfHostMemory) where the host has no room for the vector.
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
        let no_room = |()| {
            let requested = elements.saturating_mul(element_bytes);
            let kind = ErrorKind::OutOfHostMemory { requested };
            DriverError::new(kind, Operation::AllocateHost, self.device())
        };
        let mut landed = bytemuck::try_zeroed_vec(len).map_err(no_room)?;
        self.read_into(src, &mut landed)?;
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
        let uses = [Use::read(src.memory)];
        let ordered = self.order(&uses)?;
        let direction = (StagedDirection::ToHost, dst.len());
        let mut staged = Staged::new::<T>(self, ordered.after(), direction);
        // SAFETY: as in `write`.
        let read = unsafe { staged.read(src.ptr(), dst) };
        let last = staged.last;
        drop(staged);
        if let Some(last) = last {
            ordered.note(&last.into());
        }
        read
    }
}
