//! The device's clock, and slots that queues write it into.
//!
//! CUDA tells only how long it was from one event to another, in milliseconds as a float. So the clock counts from a *base*:
//! an event whose time is known. A float keeps about seven digits, so a base is replaced when it is a second old, and times
//! stay true to 0.1 us or so. A slot keeps the base that was in force when it was written.

#![expect(unsafe_code, reason = "records events, which touch no memory")]

use crate::{
    device::CudaDevice,
    ffi::{Called, RawEvent, StreamCore, Ticket},
    status::Status,
};
use piton_driver::{DriverError, TimestampPool, Timestamps};
use piton_native::{
    slots::{SlotPool, Stamp},
    stream::VendorEvent,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::sync::Arc;

/// What CUDA says the step of an event's time is, in nanoseconds.
const RESOLUTION: u64 = 500;

/// After so many nanoseconds the clock counts from a new base.
const BASE_AGE: u64 = 1_000_000_000;

/// An event whose time is known.
#[derive(Clone, Debug)]
struct Base {
    event: Arc<RawEvent>,
    at_ns: u64,
}

impl Base {
    fn time_of(&self, event: &RawEvent) -> Called<u64> {
        Ok(self.at_ns + event.nanoseconds_since(&self.event)?)
    }
}

/// The clock of a device.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Where events are recorded to learn the time: nothing else is on it.
    stream: Arc<StreamCore>,
    base: Mutex<Base>,
    /// The latest time told.
    latest: AtomicU64,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start(stream: Arc<StreamCore>) -> Called<Self> {
        let base = Base {
            event: Arc::new(recorded(&stream)?),
            at_ns: 0,
        };
        base.event.wait()?;
        Ok(Self {
            stream,
            base: Mutex::new(base),
            latest: AtomicU64::new(0),
        })
    }

    fn base(&self) -> Base {
        self.base.lock().clone()
    }

    fn read(&self) -> Called<u64> {
        let event = recorded(&self.stream)?;
        event.wait()?;
        let base = self.base();
        let now = base.time_of(&event)?;
        if now - base.at_ns > BASE_AGE {
            let at_ns = now;
            let event = Arc::new(event);
            *self.base.lock() = Base { event, at_ns };
        }
        Ok(now)
    }
}

/// An event that keeps the time, recorded now.
fn recorded(stream: &Arc<StreamCore>) -> Called<RawEvent> {
    let event = RawEvent::timed(&stream.vendor().context)?;
    record(&event, stream)?;
    Ok(event)
}

fn record(event: &RawEvent, stream: &Arc<StreamCore>) -> Called<Ticket> {
    stream.hand_over(|stream| {
        stream.call(|core, stream| {
            // SAFETY: the event is alive and of the stream's context; it names no memory.
            unsafe { (core.event_record)(event.raw(), stream) }
        })
    })
}

/// An event that was recorded, and the base that its time counts from.
#[derive(Debug)]
pub(crate) struct Written {
    event: RawEvent,
    base: Base,
}

impl Stamp for Written {
    fn is_over(&self) -> bool {
        matches!(self.event.is_over(), Ok(true))
    }

    fn time(&self) -> Option<u64> {
        self.base.time_of(&self.event).ok()
    }
}

/// Has a stream write the time into a slot.
pub(crate) fn write(
    slots: &SlotPool<CudaDevice, Written>,
    index: u32,
    stream: &Arc<StreamCore>,
) -> Called<Ticket> {
    let device = SlotPool::device(slots).ok_or(Status::INVALID_DEVICE)?;
    let event = RawEvent::timed(&stream.vendor().context)?;
    let ticket = record(&event, stream)?;
    let base = device.clock.base();
    slots.write(index, Written { event, base });
    Ok(ticket)
}

impl Timestamps for CudaDevice {
    /// Asks the device by an event of its own stream, which takes some microseconds.
    fn now(&self) -> u64 {
        let now = self.clock.read().unwrap_or(0);
        let before = self.clock.latest.fetch_max(now, Ordering::Relaxed);
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
