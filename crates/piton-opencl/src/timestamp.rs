//! The device's clock, and slots that queues write it into: a marker each, whose end is the time.
//!
//! Only queues made to keep times have them, so the facet is there where the configuration asks for it.

use crate::{
    device::OpenClDevice,
    ffi::{Event, NativeQueue},
};
use piton_driver::{DriverError, TimestampPool, Timestamps};
use piton_native::{
    NativeEvent, NativeQueue as _, Progress,
    slots::{SlotPool, Stamp},
};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

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

impl Stamp for Event {
    fn is_over(&self) -> bool {
        self.progress() == Progress::Done
    }

    fn time(&self) -> Option<u64> {
        self.times().map(|(_, end)| end)
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
        let pool = SlotPool::<Self, Event>::create(self, slots)?;
        Ok(pool)
    }
}
