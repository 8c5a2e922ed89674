//! Memory of a device that copies of others pass through.
//!
//! A part of a copy takes some before it is submitted and gives it back when it is settled, so nothing of it is in use
//! when it is idle. What is idle is kept for the next copy, up to [`IDLE_BYTES`].

#![expect(
    unsafe_code,
    reason = "gives memory back that it knows to be out of use"
)]

use piton_driver::{Device, DevicePtr, DriverError};
use piton_sync::Mutex;
use std::sync::Arc;

/// Idle bytes a device keeps for relays.
const IDLE_BYTES: u64 = 32 << 20;

/// Some memory; out of use when it is in `RelayMemory`'s list.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) ptr: DevicePtr,
    pub(crate) bytes: u64,
}

/// One device's memory for relays.
#[derive(Debug)]
pub(crate) struct RelayMemory {
    device: Arc<dyn Device>,
    idle: Mutex<Vec<Slab>>,
}

impl RelayMemory {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Self {
        Self {
            device: Arc::clone(device),
            idle: Mutex::default(),
        }
    }

    /// At least `bytes` bytes that nothing uses.
    pub(crate) fn take(&self, bytes: u64) -> Result<Slab, DriverError> {
        let mut idle = self.idle.lock();
        let fits = (0..idle.len()).filter(|slab| idle[*slab].bytes >= bytes);
        if let Some(best) = fits.min_by_key(|slab| idle[*slab].bytes) {
            return Ok(idle.swap_remove(best));
        }
        drop(idle);
        let memory = self.device.memory();
        let bytes = bytes.next_multiple_of(memory.granularity());
        let ptr = memory.allocate(bytes)?;
        Ok(Slab { ptr, bytes })
    }

    /// Gives memory back that nothing uses any more.
    pub(crate) fn give_back(&self, slab: Slab) {
        let mut idle = self.idle.lock();
        idle.push(slab);
        let mut held: u64 = idle.iter().map(|slab| slab.bytes).sum();
        let mut gone = Vec::new();
        while held > IDLE_BYTES && !idle.is_empty() {
            let oldest = idle.remove(0);
            held -= oldest.bytes;
            gone.push(oldest);
        }
        drop(idle);
        gone.into_iter().for_each(|slab| self.free(slab));
    }

    /// Frees memory that nothing uses any more. What the device refuses to free is kept, and freed later.
    pub(crate) fn free(&self, slab: Slab) {
        // SAFETY: slabs are exclusive, and this one is out of use.
        if unsafe { self.device.memory().free(slab.ptr) }.is_err() {
            self.idle.lock().push(slab);
        }
    }

    /// Frees what is idle.
    pub(crate) fn trim(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        idle.into_iter().for_each(|slab| self.free(slab));
    }
}

impl Drop for RelayMemory {
    fn drop(&mut self) {
        self.trim();
    }
}
