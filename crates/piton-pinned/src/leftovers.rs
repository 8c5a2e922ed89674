//! Memory that outlived its pool because a device still uses it.
//!
//! # The problem
//! The last handle of a pool may go while commands that name its memory are under way. Freeing it would let the device
//! write memory that belongs to somebody else; waiting would make a destructor block.
//!
//! # The idea
//! What is still in use then moves here, with the timepoints that end its use. Whoever keeps a handle sweeps
//! from time to time, or gives it to the next pool, which sweeps before it asks its driver for more. When the last
//! handle goes too, what is complete is freed and the rest is *leaked on purpose*: the only thing left that neither
//! blocks nor corrupts.

#![expect(
    unsafe_code,
    reason = "memory goes back to the driver, and to the program's allocator, when the device is done with it"
)]

use crate::{PinnedError, source::Source};
use piton_driver::HostAllocation;
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline};
use std::{
    alloc::{Layout, dealloc},
    ptr::NonNull,
    sync::Arc,
};

/// What is to be undone when the uses are complete.
#[derive(Debug)]
pub(crate) enum Remains {
    /// Driver memory; nothing of it is out.
    Allocation(HostAllocation),
    /// A registered box of the program's.
    Registered(RegisteredBox),
}

/// A boxed slice of plain elements that the program has given up while a device uses it.
///
/// # Invariants
/// 1. The memory came out of a `Box` of `layout`, is registered with the source it is kept with until `unregister` says
///    otherwise, and nothing else refers to it.
/// 2. The elements are plain data: whoever has the memory need not drop them.
#[derive(Debug)]
pub(crate) struct RegisteredBox {
    pub(crate) start: NonNull<u8>,
    pub(crate) layout: Layout,
}

// SAFETY: nothing else refers to the memory, and nobody looks at its elements through this.
unsafe impl Send for RegisteredBox {}

impl RegisteredBox {
    /// Undoes the registration. If the driver refuses, the memory stays registered.
    ///
    /// # Safety
    /// Every command that names the memory has ended.
    pub(crate) unsafe fn unregister(&self, source: &Source) -> Result<(), PinnedError> {
        // SAFETY: it is registered (invariant 1), and no command names it (the caller).
        unsafe { source.unregister(self.start) }
    }

    /// Ends the box.
    ///
    /// # Safety
    /// It is not registered any more.
    unsafe fn free(self) {
        // SAFETY: it came out of a box of this layout, which nothing refers to any more (invariant 1).
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// One piece of memory that waits for its device.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) source: Arc<Source>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) remains: Remains,
    pub(crate) uses: Frontier,
}

impl Leftover {
    fn bytes(&self) -> u64 {
        match &self.remains {
            Remains::Allocation(allocation) => allocation.bytes as u64,
            Remains::Registered(registered) => registered.layout.size() as u64,
        }
    }

    fn is_complete(&self) -> bool {
        self.uses.is_complete(&self.timeline)
    }

    /// Frees the memory. Called when `is_complete`.
    fn free(self) {
        match self.remains {
            Remains::Allocation(allocation) => {
                // SAFETY: it came from this source, nothing of it is out, and its last uses are complete.
                unsafe { self.source.free(allocation) }
            }
            Remains::Registered(registered) => {
                // SAFETY: the last uses are complete.
                match unsafe { registered.unregister(&self.source) } {
                    // SAFETY: the driver has let it go.
                    Ok(()) => unsafe { registered.free() },
                    // The driver may go on using it: it stays where it is.
                    Err(PinnedError::Driver(error)) => self.source.record(error),
                    Err(_) => {}
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Leftover>>);

impl Kept {
    fn sweep(&self) -> u64 {
        let (complete, waiting): (Vec<_>, Vec<_>) =
            self.0.lock().drain(..).partition(Leftover::is_complete);
        let bytes = waiting.iter().map(Leftover::bytes).sum();
        self.0.lock().extend(waiting);
        // The driver is called under no lock.
        complete.into_iter().for_each(Leftover::free);
        bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // In a fork too nobody else is in here: who was had a handle, and this is the last. Whether uses are complete
        // is another thing.
        let is_left = |leftover: &Leftover| leftover.timeline.is_forked();
        if !self.0.lock().iter().any(is_left) {
            self.sweep();
        }
    }
}

/// A shared handle to memory that outlived its pool; see the module's source for why there is any.
///
/// Cloning makes another handle to the same memory. Dropping the last handle frees what the devices are done with
/// and leaks the rest.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    kept: Arc<Kept>,
}

impl Leftovers {
    /// A handle to nothing as yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees what the devices are done with; returns the bytes that still wait. Calls the driver, which may
    /// block; does not wait for devices. A driver's refusal goes to its device's error slot.
    pub fn sweep(&self) -> u64 {
        self.kept.sweep()
    }

    /// Bytes that wait for their device, as of the last sweep.
    pub fn bytes(&self) -> u64 {
        self.kept.0.lock().iter().map(Leftover::bytes).sum()
    }

    pub(crate) fn keep(&self, leftover: Leftover) {
        if leftover.is_complete() {
            leftover.free();
        } else {
            self.kept.0.lock().push(leftover);
        }
    }
}
