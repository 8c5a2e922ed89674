//! A source of Blocks whose calls cost nothing, so that all time is the pool's.

#![expect(unsafe_code, reason = "being a source of Blocks is an unsafe promise")]

use std::sync::Arc;

use piton_alloc::BlockSource;
use piton_driver::{DevicePtr, DriverError};
use piton_sync::atomic::{AtomicU64, Ordering};

/// Addresses that only count up.
#[derive(Debug)]
pub(crate) struct Addresses(AtomicU64);

impl Addresses {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(2 << 20)))
    }
}

// SAFETY: no two Blocks ever have an address in common.
unsafe impl BlockSource for Addresses {
    fn capacity(&self) -> u64 {
        1 << 40
    }

    fn granularity(&self) -> u64 {
        2 << 20
    }

    fn alignment(&self) -> u64 {
        2 << 20
    }

    fn status(&self) -> Result<(), DriverError> {
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        Ok(DevicePtr::new(self.0.fetch_add(bytes, Ordering::Relaxed)))
    }

    unsafe fn free(&self, _block: DevicePtr) -> Result<(), DriverError> {
        Ok(())
    }

    fn record_error(&self, _error: DriverError) {}
}
