//! The counter of a stream: page-locked memory that every context of the process reaches.

#![expect(
    unsafe_code,
    reason = "takes and gives back memory that a device writes"
)]

use super::{
    Called, Context,
    declarations::{DeviceAddress, HOST_MAPPED, HOST_PORTABLE},
};
use crate::status::Status;
use piton_native::stream::Counter;
use std::{ptr, ptr::NonNull};

/// Bytes that each counter has: no two on one cache line.
const LINE: usize = 64;

/// A counter, and where devices find it. A claim on its memory: [`free`](Self::free) gives it back.
#[derive(Debug)]
pub(super) struct Word {
    counter: Counter,
    device: DeviceAddress,
}

impl Word {
    /// A counter that shows zero.
    pub(super) fn new(context: &Context) -> Called<Self> {
        let (mut host, mut device) = (ptr::null_mut(), 0);
        context.call(|core| {
            // SAFETY: a place of the right type.
            unsafe { (core.host_allocate)(&raw mut host, LINE, HOST_PORTABLE | HOST_MAPPED) }
        })?;
        let place = NonNull::new(host.cast::<u64>()).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: memory of `LINE` bytes, aligned to more than eight, that stays until `free`; the stream alone writes it.
        let counter = unsafe { Counter::new(place) };
        // SAFETY: memory that CUDA has just mapped for devices.
        let mapped = context.call(|core| unsafe { (core.host_address)(&raw mut device, host, 0) });
        let word = Self { counter, device };
        match mapped {
            Ok(()) => Ok(word),
            Err(status) => {
                word.free(context);
                Err(status)
            }
        }
    }

    pub(super) const fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Where devices find it.
    pub(super) const fn device(&self) -> DeviceAddress {
        self.device
    }

    /// Gives the memory back. No stream will write it any more.
    pub(super) fn free(self, context: &Context) {
        let place = self.counter.place().as_ptr().cast();
        // SAFETY: it came from `cuMemHostAlloc`, and goes once.
        let _called = context.call(|core| unsafe { (core.host_free)(place) });
    }
}
