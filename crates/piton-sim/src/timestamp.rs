//! The device's clock, and slots that queues write it into.

use crate::device::SimDevice;
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, TimestampPool, Timestamps};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{any::Any, sync::Arc};

/// Slots a pool has at most.
const MAX_SLOTS: u32 = 1 << 20;
/// What a slot holds before anything is written: no clock runs for 584 years.
const EMPTY: u64 = u64::MAX;

/// Slots for times.
#[derive(Debug)]
pub(crate) struct SimTimestamps {
    device: SimDevice,
    slots: Box<[AtomicU64]>,
}

impl SimTimestamps {
    pub(crate) fn write(&self, index: u32, time: u64) {
        if let Some(slot) = self.slots.get(index as usize) {
            slot.store(time, Ordering::Release);
        }
    }

    fn slot(&self, index: u32, operation: Operation) -> Result<&AtomicU64, DriverError> {
        let (at, limit) = (u64::from(index), self.slots.len() as u64);
        let kind = ErrorKind::InvalidIndex { index: at, limit };
        let missing = self.device.error(kind, operation);
        self.slots.get(index as usize).ok_or(missing)
    }
}

impl TimestampPool for SimTimestamps {
    fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    fn read(&self, index: u32) -> Result<Option<u64>, DriverError> {
        let slot = self.slot(index, Operation::WriteTimestamp)?;
        let time = slot.load(Ordering::Acquire);
        Ok((time != EMPTY).then_some(time))
    }
}

impl Timestamps for SimDevice {
    fn now(&self) -> u64 {
        self.machine().engine.now()
    }

    fn resolution(&self) -> u64 {
        1
    }

    fn create(&self, slots: u32) -> Result<Arc<dyn TimestampPool>, DriverError> {
        let operation = Operation::CreateTimestamps;
        if slots == 0 || slots > MAX_SLOTS {
            let (bytes, maximum) = (u64::from(slots), u64::from(MAX_SLOTS));
            return Err(self.error(ErrorKind::InvalidSize { bytes, maximum }, operation));
        }
        self.gate(operation)?;
        let slots = (0..slots).map(|_| AtomicU64::new(EMPTY)).collect();
        Ok(Arc::new(SimTimestamps {
            device: self.inside(),
            slots,
        }))
    }
}

impl SimDevice {
    /// The simulated pool behind `pool`, if it is one of this device's with such a slot.
    pub(crate) fn own_timestamps(
        &self,
        pool: &Arc<dyn TimestampPool>,
        index: u32,
    ) -> Result<Arc<SimTimestamps>, DriverError> {
        let operation = Operation::WriteTimestamp;
        let pool: Arc<dyn Any + Send + Sync> = Arc::clone(pool) as _;
        let foreign = ErrorKind::ForeignObject {
            given: DeviceId(u32::MAX),
        };
        let pool = pool
            .downcast::<SimTimestamps>()
            .map_err(|_| self.error(foreign, operation))?;
        if !pool.device.is(self) {
            let given = pool.device.id();
            return Err(self.error(ErrorKind::ForeignObject { given }, operation));
        }
        pool.slot(index, operation)?;
        Ok(pool)
    }
}
