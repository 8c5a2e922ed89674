//! Images on their way to a device: page-locked buffers, two of a kind, taken in turn.
//!
//! While the device copies from one buffer the host fills the other. A buffer moves into the copy that reads it and
//! comes back from it; filling it again waits for that copy, which is two steps old by then.

use bytemuck::Pod;
use piton::{BufferError, Device, DeviceBuffer, PinnedBuffer, Stream, Transfer};

use crate::digits::{Digits, PIXELS};

/// Buffers of one kind that take turns.
const IN_TURN: usize = 2;

/// The images and labels of one device's share of a step, on the device.
#[derive(Debug)]
pub(super) struct Share {
    /// A row of pixels per image.
    pub(super) images: DeviceBuffer<f32>,
    /// A label per image.
    pub(super) labels: DeviceBuffer<u32>,
}

/// One device's staging buffers.
#[derive(Debug)]
pub(super) struct Staging {
    images: Turns<f32>,
    labels: Turns<u32>,
}

impl Staging {
    pub(super) fn new(device: &Device, batch: usize) -> Result<Self, BufferError> {
        Ok(Self {
            images: Turns::new(device, batch * PIXELS)?,
            labels: Turns::new(device, batch)?,
        })
    }

    /// Copies a share to the device on `copies`. Waits for the copy of two shares ago, then returns at once.
    pub(super) fn send(
        &mut self,
        digits: &Digits,
        share: &[usize],
        copies: &Stream,
    ) -> Result<Share, BufferError> {
        let images = self.images.send(copies, |pixels| {
            for (place, index) in pixels.chunks_exact_mut(PIXELS).zip(share) {
                if let Some(image) = digits.image(*index) {
                    place.copy_from_slice(image);
                }
            }
        })?;
        let labels = self.labels.send(copies, |labels| {
            for (place, index) in labels.iter_mut().zip(share) {
                *place = digits.label(*index).unwrap_or_default().into();
            }
        })?;
        Ok(Share { images, labels })
    }
}

/// Buffers that take turns.
#[derive(Debug)]
struct Turns<T: Pod> {
    slots: [Option<Slot<T>>; IN_TURN],
    next: usize,
    device: Device,
    len: usize,
}

#[derive(Debug)]
enum Slot<T: Pod> {
    Ready(PinnedBuffer<T>),
    Copying(Transfer<PinnedBuffer<T>>),
}

impl<T: Pod> Turns<T> {
    fn new(device: &Device, len: usize) -> Result<Self, BufferError> {
        let slot = || device.pinned(len).map(Slot::Ready).map(Some);
        Ok(Self {
            slots: [slot()?, slot()?],
            next: 0,
            device: device.clone(),
            len,
        })
    }

    fn send(
        &mut self,
        copies: &Stream,
        fill: impl FnOnce(&mut [T]),
    ) -> Result<DeviceBuffer<T>, BufferError> {
        let slot = &mut self.slots[self.next];
        self.next = (self.next + 1) % IN_TURN;
        let mut buffer = match slot.take() {
            Some(Slot::Ready(buffer)) => buffer,
            Some(Slot::Copying(transfer)) => transfer.wait()?,
            // A send that failed between has taken the buffer with it.
            None => self.device.pinned(self.len)?,
        };
        fill(buffer.as_mut_slice());
        let mut there = copies.allocate(self.len as u64)?;
        *slot = Some(Slot::Copying(copies.copy_to_device(buffer, &mut there)?));
        Ok(there)
    }
}
