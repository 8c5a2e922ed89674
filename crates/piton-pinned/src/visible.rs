//! Host memory that a device uses too: when the program may look at it.
//!
//! # The idea
//! Each use by a device is recorded as a timepoint, uses that read apart from uses that write. The host may read
//! while devices read; it may write while no device does anything. Recording a write takes the memory mutably, as
//! handing out a mutable slice does, so while a slice is out the borrow checker keeps device writes from being
//! recorded, and while a device use is recorded and not complete no slice comes out that would conflict.
//!
//! What is left to whoever submits commands (unsafe code already): that every command naming the memory is recorded,
//! with a timepoint of the memory's timeline at or after the command, before the borrow it was submitted
//! under ends.

#![expect(
    unsafe_code,
    reason = "slices are made from memory that a device may write at other times"
)]

use crate::{PinnedError, span::Span};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline, Timepoint};
use std::{ptr::NonNull, slice};

/// A run of initialised host memory, and what devices do to it.
///
/// # Invariants
/// 1. `start..start + bytes` is valid for reads and writes, initialised, and reached by the host through this value
///    only, for as long as the value exists.
/// 2. A command that touches the memory and has not ended is covered by `reads` or `writes`; one that writes it, by
///    `writes`.
#[derive(Debug)]
pub(crate) struct Visible {
    start: NonNull<u8>,
    bytes: usize,
    reads: Mutex<Frontier>,
    writes: Frontier,
}

// SAFETY: `start` is the one field that is not plainly `Send`; by invariant 1 its memory is reached through this value
// only and belongs to no thread.
unsafe impl Send for Visible {}

// SAFETY: through a shared reference the memory is read only (`as_slice`); `reads` is behind a lock.
unsafe impl Sync for Visible {}

impl Visible {
    /// # Safety
    /// Invariant 1 holds from now on until the value is dropped, and no device uses the memory now.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        // INVARIANT: 1 is the caller's promise; 2 holds because no command uses the memory.
        Self {
            start,
            bytes,
            reads: Mutex::new(Frontier::new()),
            writes: Frontier::new(),
        }
    }

    /// The memory of a span just taken out of the pool's books.
    pub(crate) fn of_span(span: &Span) -> Self {
        let bytes = usize::try_from(span.bytes).unwrap_or(0);
        // SAFETY: spans in existence are disjoint and lie in memory held from the driver, which is valid and
        // zeroed at first (the contract of `HostMemory::allocate`); a span is cut from what no device uses, and goes
        // back only after this value is gone.
        unsafe { Self::new(span.start, bytes) }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn record_read(&self, point: Timepoint) {
        self.reads.lock().insert(point);
    }

    pub(crate) fn record_write(&mut self, point: Timepoint) {
        self.writes.insert(point);
    }

    /// All uses recorded so far.
    pub(crate) fn uses(&self) -> Frontier {
        let mut uses = self.reads.lock().clone();
        uses.join(&self.writes);
        uses
    }

    /// All uses recorded, which are forgotten.
    pub(crate) fn take_uses(&mut self) -> Frontier {
        let mut uses = std::mem::take(self.reads.get_mut());
        uses.join(&std::mem::take(&mut self.writes));
        uses
    }

    pub(crate) fn writes(&self) -> &Frontier {
        &self.writes
    }

    pub(crate) fn as_slice(&self, timeline: &Timeline) -> Result<&[u8], PinnedError> {
        require_complete(self.writes.clone(), timeline)?;
        // SAFETY: the memory is valid and initialised (invariant 1); no command that writes it is under way
        // (invariant 2), and none can be recorded while the slice borrows `self`.
        Ok(unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) })
    }

    pub(crate) fn as_mut_slice(&mut self, timeline: &Timeline) -> Result<&mut [u8], PinnedError> {
        require_complete(self.uses(), timeline)?;
        // What is complete need not be asked about again.
        self.writes = Frontier::new();
        *self.reads.lock() = Frontier::new();
        // SAFETY: the memory is valid and initialised (invariant 1); no command touches it (invariant 2), and
        // none can be recorded while the slice borrows `self` mutably.
        Ok(unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) })
    }
}

fn require_complete(mut uses: Frontier, timeline: &Timeline) -> Result<(), PinnedError> {
    if uses.is_empty() {
        return Ok(());
    }
    uses.retain_pending(timeline);
    if uses.is_empty() {
        Ok(())
    } else {
        Err(PinnedError::InUse { pending: uses })
    }
}
