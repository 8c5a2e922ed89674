//! Events of CUDA: a mark in a stream that can be slept on, waited for by other streams, and may keep the time.

#![expect(
    unsafe_code,
    reason = "calls of CUDA, and a handle that threads may share"
)]

use super::{
    Called, Context,
    declarations::{self, EVENT_BLOCKING, EVENT_WITHOUT_TIME},
};
use crate::status::Status;
use piton_native::stream::VendorEvent;
use std::{ptr, sync::Arc};

/// An event, given back when dropped.
#[derive(Debug)]
pub(crate) struct RawEvent {
    context: Arc<Context>,
    raw: declarations::Event,
}

// SAFETY: events may be used from every thread; only streams of the context record them.
unsafe impl Send for RawEvent {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawEvent {}

impl RawEvent {
    /// An event to sleep on.
    pub(crate) fn mark(context: &Arc<Context>) -> Called<Self> {
        Self::new(context, EVENT_BLOCKING | EVENT_WITHOUT_TIME)
    }

    /// An event that keeps the time.
    pub(crate) fn timed(context: &Arc<Context>) -> Called<Self> {
        Self::new(context, EVENT_BLOCKING)
    }

    fn new(context: &Arc<Context>, flags: u32) -> Called<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: a place of the right type.
        context.call(|core| unsafe { (core.event_create)(&raw mut raw, flags) })?;
        Ok(Self {
            context: Arc::clone(context),
            raw,
        })
    }

    pub(crate) const fn raw(&self) -> declarations::Event {
        self.raw
    }

    /// Nanoseconds from `earlier` to this; both have ended and keep times.
    pub(crate) fn nanoseconds_since(&self, earlier: &Self) -> Called<u64> {
        let mut milliseconds = 0.0_f32;
        let (from, to) = (earlier.raw, self.raw);
        self.context.call(|core| {
            // SAFETY: a place of the right type; both events are alive.
            unsafe { (core.event_elapsed)(&raw mut milliseconds, from, to) }
        })?;
        Ok(whole_nanoseconds(milliseconds))
    }
}

impl VendorEvent for RawEvent {
    type Status = Status;

    /// An event that was never recorded is over at once.
    fn is_over(&self) -> Called<bool> {
        let asked = self.context.call(|core| {
            // SAFETY: the event is alive.
            unsafe { (core.event_query)(self.raw) }
        });
        match asked {
            Ok(()) => Ok(true),
            Err(Status::NOT_READY) => Ok(false),
            Err(status) => Err(status),
        }
    }

    fn wait(&self) -> Called<()> {
        // SAFETY: the event is alive.
        self.context
            .call(|core| unsafe { (core.event_wait)(self.raw) })
    }
}

/// The time in whole nanoseconds; what is negative is none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such casts saturate, and what is negative becomes zero"
)]
fn whole_nanoseconds(milliseconds: f32) -> u64 {
    (f64::from(milliseconds) * 1e6).round() as u64
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: the event is ours. One that has not ended is given back when it has.
        let _called = self
            .context
            .call(|core| unsafe { (core.event_destroy)(self.raw) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_nanoseconds_and_never_below_zero() {
        assert_eq!(whole_nanoseconds(1.5), 1_500_000);
        assert_eq!(whole_nanoseconds(0.0005), 500);
        assert_eq!(whole_nanoseconds(-1.0), 0);
        assert_eq!(whole_nanoseconds(f32::NAN), 0);
    }
}
