//! A command's way into the ring: room for it, a place for its arguments, its publication, and the bell.
//!
//! Whoever does any of this holds the queue's producer (see `queue`), but for the bell, which anybody may ring who has seen
//! a command in the ring.
//!
//! What is on the way of every submission is inlined by order: what a function makes is otherwise moved by its caller before
//! its parts have left the store buffer, which costs more than making it.

#![expect(unsafe_code, reason = "is the ring's producer")]

use super::{Producer, QueueCore};
use crate::command::{Arguments, Command, Entry, INLINE_BYTES};
use piton_driver::{Launch, Origin, Position};
use piton_sync::atomic::Ordering;
use std::sync::Arc;

/// Both, one behind the other, in what fits.
#[inline(always)]
fn inline_bytes(packed: &[u8], extents: &[u8]) -> [u8; INLINE_BYTES] {
    // The commonest length is one move, and any other a call of `memcpy`.
    packed.try_into().unwrap_or_else(|_| {
        let mut bytes = [0; INLINE_BYTES];
        let both = packed.iter().chain(extents);
        bytes
            .iter_mut()
            .zip(both)
            .for_each(|(to, from)| *to = *from);
        bytes
    })
}

impl QueueCore {
    /// Whether there is room for so many commands.
    #[inline(always)]
    pub(super) fn has_room(&self, producer: &mut Producer, count: u64) -> bool {
        let (last, capacity) = (self.ring.submitted() + count, self.ring.capacity());
        if last - producer.completed > capacity {
            producer.completed = self.progress.reached();
        }
        last - producer.completed <= capacity
    }

    /// A launch's arguments, and behind them its extents, copied to where they stay until it has ended; `None` where
    /// there is no room.
    #[inline(always)]
    pub(super) fn place(&self, producer: &mut Producer, launch: &Launch<'_>) -> Option<Arguments> {
        let extents: &[u8] = bytemuck::cast_slice(launch.extents);
        let packed = launch.arguments;
        let length = packed.len() + extents.len();
        if length <= INLINE_BYTES {
            let length = u8::try_from(length).ok()?;
            return Some(Arguments::Inline {
                length,
                words: bytemuck::cast(inline_bytes(packed, extents)),
            });
        }
        if !self.consumer.parameters.holds(length) {
            let own = [packed, extents].concat().into_boxed_slice();
            return Some(Arguments::Own(own));
        }
        let claimed = &mut producer.claimed;
        // SAFETY: whoever has the producer is the only one, and the size was asked about.
        let reservation = unsafe {
            self.consumer
                .parameters
                .push(claimed, packed, launch.extents)
        }?;
        Some(Arguments::Ring(reservation))
    }

    /// Puts a checked command into the ring, without starting it.
    ///
    /// # Safety
    /// The caller has the producer, and [`has_room`](Self::has_room) has just said yes.
    #[inline(always)]
    pub(super) unsafe fn publish(self: &Arc<Self>, command: Command, origin: Origin) -> Position {
        if let Command::SignalSemaphore { semaphore, value } = &command {
            semaphore.promise(self, self.ring.submitted() + 1, *value);
        }
        let entry = Entry {
            command,
            origin,
            submitted_at: self.engine().host_now(),
        };
        // SAFETY: whoever has the producer is the only one; there is room, by the counter.
        Position::new(unsafe { self.ring.publish(entry) })
    }

    /// `count` commands were published.
    #[inline]
    pub(super) fn start(self: &Arc<Self>, count: u32) {
        if self.ring.ring() {
            self.engine().schedule_submitted(self);
        } else {
            self.engine().submitted(count);
        }
    }

    /// Starts what a writer may have left unstarted.
    pub(super) fn start_what_is_there(self: &Arc<Self>) {
        if self.progress.reached() < self.ring.submitted() && self.ring.ring() {
            self.engine().schedule_submitted(self);
        }
    }

    /// Somebody waits for a command of this queue, which he saw submitted: it starts, if a writer has left it unstarted. The
    /// writer was there before the command was.
    pub(crate) fn start_what_is_awaited(self: &Arc<Self>) {
        if self.has_writer.load(Ordering::Acquire) {
            self.start_what_is_there();
        }
    }
}
