//! A block of page-locked memory, owned.

#![expect(
    unsafe_code,
    reason = "what a block is made of is passed on when the block is dropped"
)]

use crate::{
    PinnedError,
    core::{Core, Taken},
    label::Label,
    long_way,
    record::Record,
    tickets::Ticket,
};
use piton_driver::DevicePtr;
use piton_timeline::{Frontier, Timepoint};
use std::{mem::ManuallyDrop, ptr::NonNull};

/// A block of page-locked memory from a [`PinnedPool`](crate::PinnedPool).
///
/// The memory is initialised: zero when it came fresh from the driver, whatever was in it otherwise. The handle
/// owns it; dropping the handle gives it back without blocking, on any thread, whatever devices still do with it:
/// it is handed out again when every recorded use is complete. A block keeps its pool's memory alive after the
/// pool itself is dropped.
#[derive(Debug)]
pub struct PinnedBlock {
    record: ManuallyDrop<Box<Record>>,
    core: ManuallyDrop<Ticket<Core>>,
    /// What was asked for is at most what the record has.
    label: Label,
}

impl PinnedBlock {
    /// The owned handle of a block just taken out of the pool for a request that `label` says.
    #[inline]
    pub(crate) fn new((record, core): Taken, label: Label) -> Self {
        Self {
            record: ManuallyDrop::new(record),
            core: ManuallyDrop::new(core),
            label,
        }
    }

    /// First byte, for commands that name the block. Valid while the handle, or a recorded use, exists.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.record.memory.start()
    }

    /// Where kernels of the device read and write the block without a copy; none if they cannot. Such uses are recorded as
    /// those of copies are.
    pub fn device_address(&self) -> Option<DevicePtr> {
        self.core.source.device_address(self.as_ptr())
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.label.read().asked()).unwrap_or(0)
    }

    /// Bytes that belong to the block; at least [`bytes`](Self::bytes).
    pub fn capacity(&self) -> u64 {
        self.record.span.bytes
    }

    /// The content. Does not block; devices may be reading.
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device write is not complete.
    pub fn try_as_slice(&self) -> Result<&[u8], PinnedError> {
        let whole = self.record.memory.as_slice(&self.core.timeline)?;
        Ok(whole.get(..self.bytes()).unwrap_or_default())
    }

    /// The content, to be changed. Does not block.
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device use is not complete.
    pub fn try_as_mut_slice(&mut self) -> Result<&mut [u8], PinnedError> {
        let bytes = self.bytes();
        let whole = self.record.memory.as_mut_slice(&self.core.timeline)?;
        Ok(whole.get_mut(..bytes).unwrap_or_default())
    }

    /// Notes that a device reads the block until `point`, a timepoint of the pool's timeline. Whoever submits a
    /// command that reads the block calls this before the borrow under which it was submitted ends.
    pub fn record_read(&self, point: Timepoint) {
        self.label.note_use();
        self.record.memory.record_read(point);
    }

    /// Notes that a device writes the block until `point`; otherwise as [`record_read`](Self::record_read).
    pub fn record_write(&mut self, point: Timepoint) {
        self.label.note_use();
        self.record.memory.record_write(point);
    }

    /// Every device use recorded: when it is complete, the host may do anything with the block.
    pub fn uses(&self) -> Frontier {
        self.record.memory.uses()
    }

    /// The device writes recorded: when they are complete, the host may read the block.
    pub fn writes(&self) -> &Frontier {
        self.record.memory.writes()
    }
}

impl Drop for PinnedBlock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the field is not used after this.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        // SAFETY: the field is not used after this.
        let record = unsafe { ManuallyDrop::take(&mut self.record) };
        long_way::give_back(core, record, self.label.read());
    }
}
