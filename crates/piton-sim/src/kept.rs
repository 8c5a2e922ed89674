//! Kernels that a queue's commands name, kept alive without counting references a launch.
//!
//! A launch would have to clone the kernel's handle and the end of the launch to drop it: two counted references on
//! a line that two cores share. Instead the queue keeps a handle of each kernel it launched lately, and with it the
//! last position that uses it; commands carry a plain pointer.
//!
//! # Invariant
//! A kernel named by a command that has not ended is in `recent` or in `retired`, with a position at or past the
//! command's.

use crate::kernel::SimKernel;
use piton_driver::Kernel;
use std::{ptr, sync::Arc};

/// Kernels remembered at once; one more pushes one out.
const RECENT: usize = 16;

#[derive(Debug)]
struct Entry {
    kernel: Arc<SimKernel>,
    last: u64,
}

/// The kernels of one queue. Belongs to its producer.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    recent: [Option<Entry>; RECENT],
    /// Pushed out while commands may still name them.
    retired: Vec<Entry>,
}

impl Kept {
    /// The kernel behind the contract's handle, if it was launched lately.
    pub(crate) fn find(&self, kernel: &Arc<dyn Kernel>) -> Option<&Arc<SimKernel>> {
        let wanted = address(kernel);
        let entry = self.recent[place(wanted)].as_ref()?;
        ptr::addr_eq(Arc::as_ptr(&entry.kernel), wanted).then_some(&entry.kernel)
    }

    /// Remembers a kernel that is about to be launched for the first time in a while. `completed` is how far the
    /// queue is.
    pub(crate) fn insert(&mut self, kernel: Arc<SimKernel>, completed: u64) {
        self.retired.retain(|entry| entry.last > completed);
        let at = place(Arc::as_ptr(&kernel).cast());
        let former = self.recent[at].replace(Entry { kernel, last: 0 });
        self.retired
            .extend(former.filter(|entry| entry.last > completed));
    }

    /// The kernel is named by the command at `position`.
    pub(crate) fn note(&mut self, kernel: &Arc<dyn Kernel>, position: u64) {
        if let Some(entry) = &mut self.recent[place(address(kernel))] {
            entry.last = position;
        }
    }
}

fn address(kernel: &Arc<dyn Kernel>) -> *const () {
    Arc::as_ptr(kernel).cast()
}

/// Where in the table a kernel goes: allocations are 16 bytes apart at least.
fn place(address: *const ()) -> usize {
    (address.addr() >> 4) % RECENT
}
