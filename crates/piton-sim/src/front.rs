//! What a queue is at, for whoever asks from outside.
//!
//! The consumer writes a few words for each command; a reader takes them for a snapshot if the position is the same
//! before and after. Nothing is decided on them.

#![expect(unsafe_code, reason = "a static reference is kept in an atomic word")]

use piton_driver::{Front, Operation, Origin, Position};
use piton_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::{panic::Location, ptr};

/// The command a queue's consumer came to last.
#[derive(Debug)]
pub(crate) struct FrontMark {
    position: AtomicU64,
    operation: AtomicU32,
    origin: AtomicPtr<Location<'static>>,
}

impl Default for FrontMark {
    fn default() -> Self {
        Self {
            position: AtomicU64::new(0),
            operation: AtomicU32::new(0),
            origin: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl FrontMark {
    /// The consumer has come to this command.
    pub(crate) fn note(&self, position: u64, operation: Operation, origin: Origin) {
        self.operation.store(operation as u32, Ordering::Relaxed);
        let origin = ptr::from_ref(origin).cast_mut();
        self.origin.store(origin, Ordering::Relaxed);
        self.position.store(position, Ordering::Release);
    }

    /// The command at `position`, if that is where the consumer is.
    pub(crate) fn at(&self, position: u64) -> Option<Front> {
        if self.position.load(Ordering::Acquire) != position {
            return None;
        }
        let operation = self.operation.load(Ordering::Relaxed) as usize;
        let origin = self.origin.load(Ordering::Acquire);
        let is_same = self.position.load(Ordering::Acquire) == position;
        // SAFETY: null, or what `note` made from a reference that lives for ever.
        let origin = unsafe { origin.as_ref() };
        is_same.then_some(Front {
            position: Position::new(position),
            operation: *Operation::ALL.get(operation)?,
            origin,
        })
    }
}
