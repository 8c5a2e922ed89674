//! The device's clock, and slots that queues write it into: a marker each, whose end is the time.
//!
//! Only queues made to keep times have them, so the facet is there where the configuration asks for it.

use crate::{
    device::OpenClDevice,
    ffi::{Event, NativeQueue},
};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, TimestampPool, Timestamps};
use piton_native::{NativeEvent, NativeQueue as _, NativeSlots, Progress};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::sync::{Arc, Weak};

/// Most slots of a pool.
const MOST_SLOTS: u32 = 1 << 20;

/// The clock of a device whose queues keep times.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Asked for the time by a marker, where the driver has no clock to ask.
    queue: NativeQueue,
    resolution: u64,
    /// The latest time told: drivers' clocks may be read on several cores.
    latest: AtomicU64,
}

impl Clock {
    pub(crate) const fn new(queue: NativeQueue, resolution: u64) -> Self {
        Self {
            queue,
            resolution,
            latest: AtomicU64::new(0),
        }
    }

    /// When a marker that has nothing before it ends.
    fn marked(&self) -> Option<u64> {
        let event = self.queue.marker().ok()?;
        self.queue.flush().ok()?;
        event.wait();
        event.times().map(|(_, end)| end)
    }
}

#[derive(Debug, Default)]
struct Slot {
    time: Option<u64>,
    /// The marker that writes it next.
    marker: Option<Event>,
}

/// Slots of a device.
#[derive(Debug)]
pub(crate) struct SlotPool {
    device: Weak<OpenClDevice>,
    id: DeviceId,
    slots: Vec<Mutex<Slot>>,
}

impl SlotPool {
    /// The slot will hold the time at which this marker ends.
    pub(crate) fn written(&self, index: u32, marker: Event) {
        if let Some(slot) = self.slots.get(index as usize) {
            slot.lock().marker = Some(marker);
        }
    }
}

impl NativeSlots<OpenClDevice> for SlotPool {
    fn is_of(&self, device: &OpenClDevice) -> bool {
        std::ptr::eq(self.device.as_ptr(), device)
    }

    fn device(&self) -> DeviceId {
        self.id
    }
}

impl TimestampPool for SlotPool {
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
        let is_done = |event: &Event| event.progress() == Progress::Done;
        if let Some(marker) = slot.marker.take_if(|marker| is_done(marker)) {
            slot.time = marker.times().map(|(_, end)| end);
        }
        Ok(slot.time)
    }
}

impl Timestamps for OpenClDevice {
    fn now(&self) -> u64 {
        let Some(clock) = &self.clock else {
            return 0;
        };
        let now = self.handle.clock().or_else(|| clock.marked()).unwrap_or(0);
        let before = clock.latest.fetch_max(now, Ordering::Relaxed);
        before.max(now)
    }

    fn resolution(&self) -> u64 {
        self.clock.as_ref().map_or(1, |clock| clock.resolution)
    }

    fn create(&self, slots: u32) -> Result<Arc<dyn TimestampPool>, DriverError> {
        let operation = Operation::CreateTimestamps;
        self.alive(operation)?;
        if !(1..=MOST_SLOTS).contains(&slots) {
            let invalid = ErrorKind::InvalidSize {
                bytes: slots.into(),
                maximum: MOST_SLOTS.into(),
            };
            return Err(DriverError::new(invalid, operation, self.info.id));
        }
        Ok(Arc::new(SlotPool {
            device: self.this.clone(),
            id: self.info.id,
            slots: (0..slots).map(|_| Mutex::default()).collect(),
        }))
    }
}
