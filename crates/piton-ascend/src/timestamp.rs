//! The device's clock, and slots that queues write it into: an event each, whose time the runtime tells in microseconds
//! since the device's start.

#![expect(unsafe_code, reason = "records events, which touch no memory")]

use crate::{
    device::AscendDevice,
    ffi::{Called, RawEvent, StreamCore, Ticket},
};
use piton_driver::{DriverError, TimestampPool, Timestamps};
use piton_native::{
    slots::{SlotPool, Stamp},
    stream::VendorEvent,
};
use piton_sync::atomic::Ordering;
use std::sync::Arc;

/// The step of the device's times, in nanoseconds.
const RESOLUTION: u64 = 1000;

/// An event that was recorded.
#[derive(Debug)]
pub(crate) struct Written(RawEvent);

impl Stamp for Written {
    fn is_over(&self) -> bool {
        matches!(self.0.is_over(), Ok(true))
    }

    fn time(&self) -> Option<u64> {
        let microseconds = self.0.microseconds().ok()?;
        microseconds.checked_mul(RESOLUTION)
    }
}

/// Leaves an event that keeps the time at the end of a stream.
fn recorded(stream: &Arc<StreamCore>) -> Called<(Written, Ticket)> {
    let event = RawEvent::timed(&stream.vendor().context)?;
    let ticket = stream.hand_over(|stream| {
        stream.call(|core, raw| {
            // SAFETY: the event is alive and of the stream's context; it names no memory.
            unsafe { (core.event_record)(event.raw(), raw) }
        })
    })?;
    Ok((Written(event), ticket))
}

/// Has a stream write the time into a slot.
pub(crate) fn write(
    slots: &SlotPool<AscendDevice, Written>,
    index: u32,
    stream: &Arc<StreamCore>,
) -> Called<Ticket> {
    let (written, ticket) = recorded(stream)?;
    slots.write(index, written);
    Ok(ticket)
}

/// The time that the device has now.
fn read(stream: &Arc<StreamCore>) -> Option<u64> {
    let (written, _ticket) = recorded(stream).ok()?;
    written.0.wait().ok()?;
    written.time()
}

impl Timestamps for AscendDevice {
    /// Asks the device by an event of a stream of its own, which takes some microseconds.
    fn now(&self) -> u64 {
        let now = self.clock.as_ref().and_then(read).unwrap_or(0);
        let before = self.latest.fetch_max(now, Ordering::Relaxed);
        before.max(now)
    }

    fn resolution(&self) -> u64 {
        RESOLUTION
    }

    fn create(&self, slots: u32) -> Result<Arc<dyn TimestampPool>, DriverError> {
        let pool = SlotPool::<Self, Written>::create(self, slots)?;
        Ok(pool)
    }
}
