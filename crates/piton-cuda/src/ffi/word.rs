//! A counter in page-locked memory that a stream writes and the host reads.
//!
//! # Protocol
//! The device stores with release semantics (`cuStreamWriteValue64` without a flag fences what came before it in its
//! stream); the host loads with Acquire. The host itself stores only once, [`RELEASED`], when the device will write no more.

#![expect(
    unsafe_code,
    reason = "memory that the device writes, seen as an atomic number"
)]

use super::{
    Called, Context,
    declarations::{DeviceAddress, HOST_MAPPED, HOST_PORTABLE},
};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{ptr, ptr::NonNull};

/// What a counter shows when its stream is dead: whoever waits for it goes on.
pub(super) const RELEASED: u64 = u64::MAX;

/// Bytes that each counter has: no two on one cache line.
const LINE: usize = 64;

/// A counter. A claim on its memory: [`free`](Self::free) gives it back.
#[derive(Debug)]
pub(super) struct Word {
    host: NonNull<u64>,
    device: DeviceAddress,
}

// SAFETY: the address of a number that everybody reads and writes as an atomic.
unsafe impl Send for Word {}
// SAFETY: as for `Send`.
unsafe impl Sync for Word {}

impl Word {
    /// A counter that shows zero, which every context of the process reaches.
    pub(super) fn new(context: &Context) -> Called<Self> {
        let (mut host, mut device) = (ptr::null_mut(), 0);
        context.call(|core| {
            // SAFETY: a place of the right type.
            unsafe { (core.host_allocate)(&raw mut host, LINE, HOST_PORTABLE | HOST_MAPPED) }
        })?;
        let Some(start) = NonNull::new(host.cast::<u64>()) else {
            return Err(crate::status::Status::INVALID_VALUE);
        };
        // SAFETY: memory of `LINE` bytes, aligned to more than eight, and nobody else's yet.
        unsafe { start.write(0) };
        let word = Self {
            host: start,
            device: 0,
        };
        // SAFETY: memory that CUDA has just mapped for devices.
        let mapped = context.call(|core| unsafe { (core.host_address)(&raw mut device, host, 0) });
        match mapped {
            Ok(()) => Ok(Self { device, ..word }),
            Err(status) => {
                word.free(context);
                Err(status)
            }
        }
    }

    /// Where devices find it.
    pub(super) const fn device(&self) -> DeviceAddress {
        self.device
    }

    fn shared(&self) -> &AtomicU64 {
        // SAFETY: aligned, live until `free`, and read and written by everybody as an atomic of eight bytes.
        unsafe { AtomicU64::from_ptr(self.host.as_ptr()) }
    }

    /// What it shows. What the device wrote before it showed that is visible.
    pub(super) fn load(&self) -> u64 {
        self.shared().load(Ordering::Acquire)
    }

    /// Lets whoever waits for it go on, and says what it showed last.
    pub(super) fn release(&self) -> u64 {
        self.shared().swap(RELEASED, Ordering::AcqRel)
    }

    /// Gives the memory back. No stream will write it any more.
    pub(super) fn free(&self, context: &Context) {
        // SAFETY: it came from `cuMemHostAlloc` and the owner calls this once.
        let _called = context.call(|core| unsafe { (core.host_free)(self.host.as_ptr().cast()) });
    }
}
