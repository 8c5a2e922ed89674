//! Copies between host and device and within a device, and fills.

#![expect(
    unsafe_code,
    reason = "submits copies whose ends it has checked and ordered"
)]

use crate::{
    BufferError, DeviceSlice, DeviceSliceMut, PinnedBuffer, Stream, Transfer, stream::Use,
};
use bytemuck::Pod;
use piton_driver::{Command, FillPattern};

impl Stream {
    /// Copies a page-locked buffer to the device. The buffer moves into the copy and comes back with it.
    ///
    /// # Errors
    /// [`LengthMismatch`](BufferError::LengthMismatch), [`OtherDevice`](BufferError::OtherDevice), and what the
    /// stream refuses; nothing was copied.
    #[track_caller]
    pub fn copy_to_device<'a, T: Pod>(
        &self,
        src: PinnedBuffer<T>,
        dst: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<Transfer<PinnedBuffer<T>>, BufferError> {
        self.upload(&src, dst.into())?;
        Ok(Transfer::new(src, self.raw().record()))
    }

    /// The same for a buffer that stays where it is, and that nobody writes until the copy has ended: by a shared reference nobody
    /// can, and who has it for himself again has waited.
    #[track_caller]
    pub(crate) fn upload<T: Pod>(
        &self,
        src: &PinnedBuffer<T>,
        dst: DeviceSliceMut<'_, T>,
    ) -> Result<(), BufferError> {
        self.same_host(src)?;
        check_lengths(src.len() as u64, dst.len())?;
        let command = Command::CopyToDevice {
            dst: dst.ptr(),
            src: src.start(),
            bytes: dst.bytes(),
        };
        let uses = [Use::write(dst.memory)];
        let ordered = self.order(&uses)?;
        // SAFETY: the host memory is the buffer's own, of that length (checked), and goes back to its pool only
        // behind the use noted below. The device end is ordered, and kept alive by the use noted in it.
        let point = unsafe { self.submit_ordered(ordered, &command)? };
        src.note_read(point);
        Ok(())
    }

    /// Copies from the device to a page-locked buffer. The buffer moves into the copy and comes back with it.
    ///
    /// # Errors
    /// As [`copy_to_device`](Self::copy_to_device).
    #[track_caller]
    pub fn copy_to_host<'a, T: Pod>(
        &self,
        src: impl Into<DeviceSlice<'a, T>>,
        mut dst: PinnedBuffer<T>,
    ) -> Result<Transfer<PinnedBuffer<T>>, BufferError> {
        let src = src.into();
        self.same_host(&dst)?;
        check_lengths(src.len(), dst.len() as u64)?;
        let command = Command::CopyToHost {
            dst: dst.start(),
            src: src.ptr(),
            bytes: src.bytes(),
        };
        let uses = [Use::read(src.memory)];
        let ordered = self.order(&uses)?;
        // SAFETY: as in `copy_to_device`; the buffer was moved in, so no reference to its memory exists.
        let point = unsafe { self.submit_ordered(ordered, &command)? };
        dst.note_write(point);
        Ok(Transfer::new(dst, self.raw().record()))
    }

    /// Copies elements between two buffers of this device.
    ///
    /// # Errors
    /// [`LengthMismatch`](BufferError::LengthMismatch), [`OtherDevice`](BufferError::OtherDevice), and what the
    /// stream refuses.
    #[track_caller]
    pub fn copy<'a, T: Pod>(
        &self,
        src: impl Into<DeviceSlice<'a, T>>,
        dst: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<(), BufferError> {
        let (src, dst) = (src.into(), dst.into());
        check_lengths(src.len(), dst.len())?;
        let command = Command::CopyOnDevice {
            dst: dst.ptr(),
            src: src.ptr(),
            bytes: src.bytes(),
        };
        let uses = [Use::read(src.memory), Use::write(dst.memory)];
        let ordered = self.order(&uses)?;
        // SAFETY: both ends are of this device, apart (one is borrowed exclusively), ordered, and kept alive by
        // the uses noted in them.
        unsafe { self.submit_ordered(ordered, &command)? };
        Ok(())
    }

    /// Fills a buffer with one value of 1, 2 or 4 bytes.
    ///
    /// # Errors
    /// [`FillSize`](BufferError::FillSize) for other sizes; [`OtherDevice`](BufferError::OtherDevice); what the
    /// stream refuses.
    #[track_caller]
    pub fn fill<'a, T: Pod>(
        &self,
        dst: impl Into<DeviceSliceMut<'a, T>>,
        value: T,
    ) -> Result<(), BufferError> {
        self.fill_bytes(dst.into(), pattern(bytemuck::bytes_of(&value))?)
    }

    /// Sets every byte of a buffer to zero.
    ///
    /// # Errors
    /// [`OtherDevice`](BufferError::OtherDevice); what the stream refuses.
    #[track_caller]
    pub fn clear<'a, T: Pod>(
        &self,
        dst: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<(), BufferError> {
        self.fill_bytes(dst.into(), FillPattern::Byte(0))
    }

    #[track_caller]
    fn fill_bytes<T: Pod>(
        &self,
        dst: DeviceSliceMut<'_, T>,
        pattern: FillPattern,
    ) -> Result<(), BufferError> {
        let command = Command::Fill {
            dst: dst.ptr(),
            pattern,
            bytes: dst.bytes(),
        };
        let uses = [Use::write(dst.memory)];
        let ordered = self.order(&uses)?;
        // SAFETY: the range is a buffer's own, ordered, and kept alive by the use noted in it.
        unsafe { self.submit_ordered(ordered, &command)? };
        Ok(())
    }

    /// Page-locked memory is known to the driver it came from; another runtime's is not.
    fn same_host<T: Pod>(&self, host: &PinnedBuffer<T>) -> Result<(), BufferError> {
        self.context().same_runtime(host.context())
    }
}

pub(crate) fn check_lengths(
    source_elements: u64,
    destination_elements: u64,
) -> Result<(), BufferError> {
    if source_elements == destination_elements {
        return Ok(());
    }
    Err(BufferError::LengthMismatch {
        source_elements,
        destination_elements,
    })
}

pub(crate) fn pattern(value: &[u8]) -> Result<FillPattern, BufferError> {
    match *value {
        [byte] => Ok(FillPattern::Byte(byte)),
        [a, b] => Ok(FillPattern::Half(u16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Ok(FillPattern::Word(u32::from_ne_bytes([a, b, c, d]))),
        _ => Err(BufferError::FillSize { bytes: value.len() }),
    }
}
