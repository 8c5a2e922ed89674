//! Memory of a device that copies of others pass through.
//!
//! A part of a copy takes some before it is submitted and gives it back when it is settled, so nothing of it is in use
//! when it is idle. What is idle is kept for the next copy, up to [`IDLE_BYTES`]; what is lent at once has a limit, since the
//! device's pool knows nothing of it.

#![expect(
    unsafe_code,
    reason = "gives memory back that it knows to be out of use"
)]

use crate::TransferError;
use piton_driver::{Device, DevicePtr};
use piton_sync::Mutex;
use std::sync::Arc;

/// What is lent in any case: what patterns need that try legs.
const LEAST_LIMIT: u64 = 1 << 20;
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
    /// The most that is lent at once.
    limit: u64,
    slabs: Mutex<Slabs>,
}

#[derive(Debug, Default)]
struct Slabs {
    idle: Vec<Slab>,
    /// Bytes of those that are out.
    lent: u64,
}

impl RelayMemory {
    pub(crate) fn new(device: &Arc<dyn Device>, limit: u64) -> Self {
        Self {
            device: Arc::clone(device),
            limit: limit.max(LEAST_LIMIT),
            slabs: Mutex::default(),
        }
    }

    /// At least `bytes` bytes that nothing uses.
    pub(crate) fn take(&self, bytes: u64) -> Result<Slab, TransferError> {
        let memory = self.device.memory();
        let bytes = bytes.next_multiple_of(memory.granularity());
        let mut slabs = self.slabs.lock();
        let idle = &slabs.idle;
        let fits = (0..idle.len()).filter(|slab| idle[*slab].bytes >= bytes);
        let best = fits.min_by_key(|slab| idle[*slab].bytes);
        let taken = best.map_or(bytes, |best| idle[best].bytes);
        let lent = slabs.lent;
        if lent.saturating_add(taken) > self.limit {
            return Err(TransferError::RelayBudget {
                device: self.device.info().id,
                lent,
                bytes: taken,
                limit: self.limit,
            });
        }
        slabs.lent += taken;
        if let Some(best) = best {
            return Ok(slabs.idle.swap_remove(best));
        }
        drop(slabs);
        match memory.allocate(bytes) {
            Ok(ptr) => Ok(Slab { ptr, bytes }),
            Err(error) => {
                self.slabs.lock().lent -= bytes;
                Err(error.into())
            }
        }
    }

    /// Gives memory back that nothing uses any more.
    pub(crate) fn give_back(&self, slab: Slab) {
        let mut slabs = self.slabs.lock();
        slabs.lent = slabs.lent.saturating_sub(slab.bytes);
        slabs.idle.push(slab);
        let mut held: u64 = slabs.idle.iter().map(|slab| slab.bytes).sum();
        let mut gone = Vec::new();
        while held > IDLE_BYTES && !slabs.idle.is_empty() {
            let oldest = slabs.idle.remove(0);
            held -= oldest.bytes;
            gone.push(oldest);
        }
        drop(slabs);
        gone.into_iter().for_each(|slab| self.release(slab));
    }

    /// As [`give_back`](Self::give_back), of memory that is not worth keeping.
    pub(crate) fn free(&self, slab: Slab) {
        let mut slabs = self.slabs.lock();
        slabs.lent = slabs.lent.saturating_sub(slab.bytes);
        drop(slabs);
        self.release(slab);
    }

    /// Frees memory that nothing uses any more. What the device refuses to free is kept, and freed later.
    fn release(&self, slab: Slab) {
        // SAFETY: slabs are exclusive, and this one is out of use.
        if unsafe { self.device.memory().free(slab.ptr) }.is_err() {
            self.slabs.lock().idle.push(slab);
        }
    }

    /// Frees what is idle.
    pub(crate) fn trim(&self) {
        let idle = std::mem::take(&mut self.slabs.lock().idle);
        idle.into_iter().for_each(|slab| self.release(slab));
    }
}

impl Drop for RelayMemory {
    fn drop(&mut self) {
        self.trim();
    }
}
