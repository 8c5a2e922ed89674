//! A vendor of nothing, for models: commands are numbers, and the device is a thread of the model that says how many are done.

use super::{Counter, Fate, Stream, StreamStatus, VendorEvent, VendorStream};
use crate::backend::VendorStatus;
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{ptr::NonNull, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) u32);

impl VendorStatus for Code {
    const VENDOR: &'static str = "nobody";

    fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        DriverError::new(ErrorKind::Vendor, operation, device)
    }
}

impl StreamStatus for Code {
    const UNAVAILABLE: Self = Self(1);

    fn code(self) -> u32 {
        self.0
    }

    fn from_code(code: u32) -> Self {
        Self(code)
    }
}

/// Over when as many commands are done as were handed over before it was left.
#[derive(Debug)]
pub(super) struct Mark {
    done: Arc<AtomicU64>,
    behind: AtomicU64,
}

impl VendorEvent for Mark {
    type Status = Code;

    fn is_over(&self) -> Result<bool, Code> {
        Ok(self.done.load(Ordering::Acquire) >= self.behind.load(Ordering::Relaxed))
    }

    fn wait(&self) -> Result<(), Code> {
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Vendor {
    fate: Arc<Fate<Self>>,
    counter: Option<Counter>,
    /// Commands handed over: written under the stream's lock.
    handed: AtomicU64,
    /// Commands that the device has done.
    pub(super) done: Arc<AtomicU64>,
}

impl Vendor {
    /// A stream on which so many commands are done from the start, with a counter or with events.
    pub(super) fn stream(done: u64, has_counter: bool) -> Arc<Stream<Self>> {
        // SAFETY: in models a counter is a number of its own, and looks at no place.
        #[expect(unsafe_code, reason = "a model has no memory of a device's")]
        let counter = has_counter.then(|| unsafe { Counter::new(NonNull::dangling()) });
        Stream::new(Self {
            fate: Arc::default(),
            counter,
            handed: AtomicU64::new(0),
            done: Arc::new(AtomicU64::new(done)),
        })
    }

    /// Hands a command over.
    pub(super) fn hand(stream: &Arc<Stream<Self>>) -> super::Ticket<Self> {
        let handed = stream.hand_over(|vendor| {
            vendor.handed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        handed.unwrap_or_else(|code| panic!("{code:?}"))
    }
}

impl VendorStream for Vendor {
    const NAME: &'static str = "model";
    const RECORDS_AGAIN: bool = true;
    const PASSES_FAILURES: bool = false;

    type Status = Code;
    type Event = Mark;

    fn fate(&self) -> &Arc<Fate<Self>> {
        &self.fate
    }

    fn make_event(&self) -> Result<Mark, Code> {
        Ok(Mark {
            done: Arc::clone(&self.done),
            behind: AtomicU64::new(0),
        })
    }

    fn record(&self, event: &Mark) -> Result<(), Code> {
        let handed = self.handed.load(Ordering::Relaxed);
        event.behind.store(handed, Ordering::Relaxed);
        Ok(())
    }

    fn wait_event(&self, _: &Mark) -> Result<(), Code> {
        Ok(())
    }

    fn ask(&self) -> Result<(), Code> {
        Ok(())
    }

    fn counter(&self) -> Option<&Counter> {
        self.counter.as_ref()
    }

    fn close(&mut self, _: bool) {}
}
