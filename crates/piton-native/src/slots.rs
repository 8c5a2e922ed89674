//! Slots that queues write the device's time into.

use crate::backend::{NativeDevice, NativeSlots};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, TimestampPool};
use piton_sync::Mutex;
use std::{
    fmt::Debug,
    sync::{Arc, Weak},
};

/// Most slots of a pool.
const MOST_SLOTS: u32 = 1 << 20;

/// What a vendor left in a queue to learn the time.
pub trait Stamp: Debug + Send + Sync + 'static {
    /// Whether the queue has passed it.
    fn is_over(&self) -> bool;

    /// When that was, in nanoseconds of the device's clock. Asked when it is over.
    fn time(&self) -> Option<u64>;
}

#[derive(Debug)]
struct Slot<T> {
    time: Option<u64>,
    /// What writes it next.
    stamp: Option<T>,
}

/// Slots of a device.
#[derive(Debug)]
pub struct SlotPool<D, T> {
    device: Weak<D>,
    id: DeviceId,
    slots: Vec<Mutex<Slot<T>>>,
}

impl<D: NativeDevice, T: Stamp> SlotPool<D, T> {
    /// Makes slots, none of which holds a time.
    ///
    /// # Errors
    /// [`InvalidSize`](ErrorKind::InvalidSize), [`DeviceLost`](ErrorKind::DeviceLost).
    pub fn create(device: &D, slots: u32) -> Result<Arc<Self>, DriverError> {
        let operation = Operation::CreateTimestamps;
        device.standing().alive(operation)?;
        if !(1..=MOST_SLOTS).contains(&slots) {
            let invalid = ErrorKind::InvalidSize {
                bytes: slots.into(),
                maximum: MOST_SLOTS.into(),
            };
            return Err(device.refusal(invalid, operation));
        }
        let counted = device.counted();
        let empty = |_| {
            Mutex::new(Slot {
                time: None,
                stamp: None,
            })
        };
        Ok(Arc::new(Self {
            device: counted.map_or_else(Weak::new, |device| Arc::downgrade(&device)),
            id: device.info().id,
            slots: (0..slots).map(empty).collect(),
        }))
    }

    /// The device, if it is open.
    pub fn device(&self) -> Option<Arc<D>> {
        self.device.upgrade()
    }

    /// The slot will hold the time at which the stamp is over. One that is not there is left alone.
    pub fn write(&self, index: u32, stamp: T) {
        if let Some(slot) = self.slots.get(index as usize) {
            slot.lock().stamp = Some(stamp);
        }
    }
}

impl<D: NativeDevice, T: Stamp> NativeSlots<D> for SlotPool<D, T> {
    fn is_of(&self, device: &D) -> bool {
        std::ptr::eq(self.device.as_ptr(), device)
    }

    fn device(&self) -> DeviceId {
        self.id
    }
}

impl<D: NativeDevice, T: Stamp> TimestampPool for SlotPool<D, T> {
    fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    fn read(&self, index: u32) -> Result<Option<u64>, DriverError> {
        let invalid = ErrorKind::InvalidIndex {
            index: index.into(),
            limit: self.len().into(),
        };
        let error = DriverError::new(invalid, Operation::WriteTimestamp, self.id);
        let mut slot = self.slots.get(index as usize).ok_or(error)?.lock();
        if let Some(stamp) = slot.stamp.take_if(|stamp| stamp.is_over()) {
            slot.time = stamp.time();
        }
        Ok(slot.time)
    }
}
