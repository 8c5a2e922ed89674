//! A queue's parameter ring: where launches keep their packed arguments until they have ended.
//!
//! Space is given out in order, in blocks of 64 bytes, and reclaimed in order, by the end position that each launch
//! carries. A reservation never wraps around: the rest of the ring is skipped instead.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | bytes of a reservation | the producer, before its command is published; nobody after that | plain: the command ring hands them over |
//! | `released` | the consumer, after its last look at a launch's bytes | Release store; pairs with the Acquire load in [`reserve`](Space::reserve), which may then give them out again |
//! | [`Claimed`] | the producer | plain: it is the producer's own |
//!
//! # Invariants
//! `released <= written <= released + capacity`; both only grow.

#![expect(
    unsafe_code,
    reason = "bytes are handed between threads by the protocol above"
)]

use piton_sync::atomic::{AtomicU64, Ordering};
use std::{fmt, ptr::NonNull, slice};

/// Most bytes of arguments and extents in one launch.
pub(crate) const MAX_ARGUMENT_BYTES: u32 = 1 << 20;
/// A launch that needs a larger part of the ring than one in so many gets memory of its own.
const LARGEST_SHARE: usize = 4;
const BLOCK: usize = 64;
/// Bytes of arguments the ring has for each command the queue holds.
const BYTES_A_COMMAND: usize = 64;
const LEAST_BYTES: usize = 4096;

/// Where a launch's arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    start: u64,
    bytes: u32,
}

impl Reservation {
    /// What is released when the launch has ended.
    fn end(self) -> u64 {
        self.start + (self.bytes as usize).next_multiple_of(BLOCK) as u64
    }
}

/// What the producer knows of the ring.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    written: u64,
    /// `released` as last seen.
    released: u64,
}

/// Which part of a ring is in use.
#[derive(Debug)]
struct Space {
    capacity: u64,
    released: AtomicU64,
}

impl Space {
    fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity as u64,
            released: AtomicU64::new(0),
        }
    }

    /// Room for `bytes` bytes; `None` where there is none and nothing has changed.
    fn reserve(&self, claimed: &mut Claimed, bytes: u32) -> Option<Reservation> {
        let needed = (bytes as usize).next_multiple_of(BLOCK) as u64;
        let at = claimed.written % self.capacity;
        let is_past_the_end = at + needed > self.capacity;
        let skipped = if is_past_the_end {
            self.capacity - at
        } else {
            0
        };
        let start = claimed.written + skipped;
        let end = start + needed;
        if end - claimed.released > self.capacity {
            claimed.released = self.released.load(Ordering::Acquire);
            if end - claimed.released > self.capacity {
                return None;
            }
        }
        claimed.written = end;
        Some(Reservation { start, bytes })
    }

    /// Everything up to the reservation's end may be given out again.
    fn release(&self, reservation: Reservation) {
        self.released.store(reservation.end(), Ordering::Release);
    }
}

/// The ring.
pub(crate) struct ParameterRing {
    space: Space,
    bytes: NonNull<[u64]>,
}

// SAFETY: the bytes are touched as the protocol says.
unsafe impl Sync for ParameterRing {}
// SAFETY: the memory is the ring's own.
unsafe impl Send for ParameterRing {}

impl fmt::Debug for ParameterRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParameterRing")
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}

impl ParameterRing {
    /// The ring of a queue that holds `commands` commands.
    pub(crate) fn new(commands: u32) -> Self {
        let capacity = (commands as usize * BYTES_A_COMMAND).max(LEAST_BYTES);
        let bytes = vec![0_u64; capacity / size_of::<u64>()].into_boxed_slice();
        Self {
            space: Space::new(capacity),
            bytes: NonNull::from(Box::leak(bytes)),
        }
    }

    /// Whether arguments of this size go into the ring, when it has room, and not into memory of their own.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        bytes as u64 <= self.space.capacity / LARGEST_SHARE as u64
    }

    /// Copies `arguments` and, behind them, `extents` in; `None` where there is no room and nothing has changed.
    ///
    /// # Safety
    /// The caller is the only producer, and `claimed` always the same; [`holds`](Self::holds) says yes.
    pub(crate) unsafe fn push(
        &self,
        claimed: &mut Claimed,
        arguments: &[u8],
        extents: &[u64],
    ) -> Option<Reservation> {
        let bytes = u32::try_from(arguments.len() + size_of_val(extents)).ok()?;
        let reservation = self.space.reserve(claimed, bytes)?;
        let start = self.at(reservation);
        // SAFETY: the reservation is within the ring, nobody reads it before it is published, and what was there
        // has been released.
        let target = unsafe { slice::from_raw_parts_mut(start, bytes as usize) };
        let (packed, behind) = target.split_at_mut(arguments.len());
        packed.copy_from_slice(arguments);
        behind.copy_from_slice(bytemuck::cast_slice(extents));
        Some(reservation)
    }

    /// The bytes of a launch that has not ended.
    ///
    /// # Safety
    /// The caller owns the queue's front and has not released the reservation, which came from this ring; it does
    /// not use the slice once it has.
    pub(crate) unsafe fn get(&self, reservation: Reservation) -> &[u8] {
        // SAFETY: written before the command was published; not given out again before it is released.
        unsafe { slice::from_raw_parts(self.at(reservation), reservation.bytes as usize) }
    }

    /// A launch has ended: its bytes, and those before, may be overwritten.
    pub(crate) fn release(&self, reservation: Reservation) {
        self.space.release(reservation);
    }

    fn at(&self, reservation: Reservation) -> *mut u8 {
        let offset = usize::try_from(reservation.start % self.space.capacity).unwrap_or(0);
        let base = self.bytes.cast::<u8>().as_ptr();
        // SAFETY: the offset is below the capacity, which is what was allocated.
        unsafe { base.add(offset) }
    }
}

impl Drop for ParameterRing {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`, freed once; no command is left that reads it.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_ring_does_not_change_before_it_is_released() {
        let (ring, mut claimed) = (ParameterRing::new(1024), Claimed::default());
        let mut held = std::collections::VecDeque::new();
        for n in 0..5_000_u32 {
            let arguments = vec![n.to_le_bytes()[0]; (n as usize * 37) % 4096];
            loop {
                // SAFETY: one thread is producer and consumer, in turn.
                match unsafe { ring.push(&mut claimed, &arguments, &[7]) } {
                    Some(reservation) => break held.push_back((reservation, arguments)),
                    None => {
                        let (oldest, expected) = held.pop_front().unwrap();
                        // SAFETY: as above; not released yet.
                        let (packed, behind) = unsafe { ring.get(oldest) }.split_at(expected.len());
                        assert_eq!(packed, expected);
                        assert_eq!(behind, 7_u64.to_ne_bytes());
                        ring.release(oldest);
                    }
                }
            }
        }
    }

    #[test]
    fn a_refused_push_changes_nothing() {
        let (ring, mut claimed) = (ParameterRing::new(64), Claimed::default());
        // SAFETY: one producer.
        while unsafe { ring.push(&mut claimed, &[1; 1024], &[]) }.is_some() {}
        let before = claimed.written;
        // SAFETY: one producer.
        assert_eq!(unsafe { ring.push(&mut claimed, &[2; 64], &[]) }, None);
        assert_eq!(claimed.written, before);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::{UnsafeCell, model, thread};
    use std::sync::Arc;

    struct Model {
        space: Space,
        block: UnsafeCell<u32>,
    }

    // SAFETY: whether the block is touched by one thread at a time is what the model checks.
    unsafe impl Sync for Model {}
    // SAFETY: as above.
    unsafe impl Send for Model {}

    #[test]
    fn bytes_are_given_out_again_only_when_their_launch_has_ended() {
        model(|| {
            let shared = Arc::new(Model {
                space: Space::new(BLOCK),
                block: UnsafeCell::new(0),
            });
            let mut claimed = Claimed::default();
            let first = shared.space.reserve(&mut claimed, 8).unwrap();
            // SAFETY: reserved.
            shared.block.with_mut(|word| unsafe { *word = 1 });
            let consumer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // SAFETY: not released.
                    shared.block.with(|word| assert_eq!(unsafe { *word }, 1));
                    shared.space.release(first);
                })
            };
            if shared.space.reserve(&mut claimed, 8).is_some() {
                // SAFETY: reserved.
                shared.block.with_mut(|word| unsafe { *word = 2 });
            }
            consumer.join().unwrap();
        });
    }
}
