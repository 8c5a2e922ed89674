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

/// A kernel that has left the table, and the last position that names it.
#[derive(Debug)]
struct Retired {
    _kernel: Arc<SimKernel>,
    last: Low,
}

/// The low half of a position. What a command in the ring names is no further from the queue's counter than the ring is
/// long, so half tells what has ended from what has not. A kernel that was not launched for two thousand million commands
/// may look as if it were named, and is kept longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Low(u32);

impl Low {
    fn of(position: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
        Self(position as u32)
    }

    /// Whether the position comes after `completed`, or so long before that it cannot be told.
    fn may_follow(self, completed: u64) -> bool {
        let ahead = self.0.wrapping_sub(Self::of(completed).0);
        ahead != 0 && ahead <= u32::MAX / 2
    }
}

/// The kernels of one queue. Belongs to its producer.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    recent: [Option<Arc<SimKernel>>; RECENT],
    /// The last position that names each of those.
    last: [Low; RECENT],
    /// Pushed out while commands may still name them.
    retired: Vec<Retired>,
}

impl Kept {
    /// The kernel behind the contract's handle, if it was launched lately.
    pub(crate) fn find(&self, kernel: &Arc<dyn Kernel>) -> Option<&Arc<SimKernel>> {
        let wanted = address(kernel);
        let found = self.recent[place(wanted)].as_ref()?;
        ptr::addr_eq(Arc::as_ptr(found), wanted).then_some(found)
    }

    /// Remembers a kernel that is about to be launched for the first time in a while. `completed` is how far the
    /// queue is.
    pub(crate) fn insert(&mut self, kernel: Arc<SimKernel>, completed: u64) {
        self.retired
            .retain(|entry| entry.last.may_follow(completed));
        let at = place(Arc::as_ptr(&kernel).cast());
        let last = std::mem::replace(&mut self.last[at], Low::of(completed));
        let former = self.recent[at].replace(kernel);
        let former = former.map(|kernel| Retired {
            _kernel: kernel,
            last,
        });
        self.retired
            .extend(former.filter(|entry| entry.last.may_follow(completed)));
    }

    /// The kernel is named by the command at `position`.
    pub(crate) fn note(&mut self, kernel: &Arc<dyn Kernel>, position: u64) {
        self.last[place(address(kernel))] = Low::of(position);
    }
}

fn address(kernel: &Arc<dyn Kernel>) -> *const () {
    Arc::as_ptr(kernel).cast()
}

/// Where in the table a kernel goes: allocations are 16 bytes apart at least.
fn place(address: *const ()) -> usize {
    (address.addr() >> 4) % RECENT
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn half_a_position_tells_what_has_ended() {
        for completed in [0, 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX), 1 << 40] {
            assert!(!Low::of(completed).may_follow(completed));
            assert!(Low::of(completed + 1).may_follow(completed));
            assert!(Low::of(completed + (1 << 20)).may_follow(completed));
            assert!(!Low::of(completed).may_follow(completed + 1));
            assert!(!Low::of(completed).may_follow(completed + (1 << 20)));
        }
    }
}
