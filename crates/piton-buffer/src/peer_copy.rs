//! Copies between buffers of two devices.

#![expect(
    unsafe_code,
    reason = "submits copies whose ends it has checked and ordered"
)]

use crate::{BufferError, DeviceSlice, DeviceSliceMut, Stream, copy::check_lengths, stream::Use};
use bytemuck::Pod;
use piton_driver::PeerAddress;
use piton_transfer::CopyWeight;

impl Stream {
    /// Copies elements from a buffer of one device to a buffer of another; this stream is on one of the two. The
    /// route is chosen by the machine's topology: directly where the devices reach each other, through
    /// page-locked host memory where not. Later work of this stream comes after the copy.
    ///
    /// # Errors
    /// [`LengthMismatch`](BufferError::LengthMismatch), [`OtherRuntime`](BufferError::OtherRuntime),
    /// [`OtherDevice`](BufferError::OtherDevice) if the stream is on neither device,
    /// [`Transfer`](BufferError::Transfer) for what cannot be carried out.
    #[track_caller]
    pub fn copy_peer<'a, T: Pod>(
        &self,
        src: impl Into<DeviceSlice<'a, T>>,
        dst: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<(), BufferError> {
        self.copy_peer_weighing(src, dst, CopyWeight::ONE)
    }

    /// As [`copy_peer`](Self::copy_peer), with more of the links that it shares with other copies of this stream's priority: one
    /// that weighs three gets three times what one that weighs one does. Copies below
    /// [`guarded_bytes`](piton_transfer::TransferConfig::guarded_bytes), in a capture or within one device all weigh one.
    ///
    /// # Errors
    /// As [`copy_peer`](Self::copy_peer).
    #[track_caller]
    pub fn copy_peer_weighing<'a, T: Pod>(
        &self,
        src: impl Into<DeviceSlice<'a, T>>,
        dst: impl Into<DeviceSliceMut<'a, T>>,
        weight: CopyWeight,
    ) -> Result<(), BufferError> {
        let (src, dst) = (src.into(), dst.into());
        check_lengths(src.len(), dst.len())?;
        let end = |device, ptr| PeerAddress { device, ptr };
        let from = end(src.memory.context.id(), src.ptr());
        let to = end(dst.memory.context.id(), dst.ptr());
        if ![from.device, to.device].contains(&self.device()) {
            return Err(BufferError::OtherDevice {
                stream: self.device(),
                object: to.device,
            });
        }
        let uses = [Use::read(src.memory), Use::write(dst.memory)];
        let ordered = self.order_anywhere(&uses)?;
        self.raw().wait_frontiers(ordered.after())?;
        // SAFETY: both ends are `DeviceMemory` of this runtime (`order_anywhere` checks), which live until the uses
        // noted in them have ended; all points the copy reports are noted, also when it fails half way. The
        // stream waits for every conflicting use first.
        let carried = unsafe {
            self.context()
                .transfers()
                .copy_weighing(self.raw(), to, from, src.bytes(), weight)
        };
        ordered.note(&carried.submitted);
        Ok(carried.result?)
    }
}
