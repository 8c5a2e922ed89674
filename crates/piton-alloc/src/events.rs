//! The last things that happened to a pool's memory, always written down, in bounded room.
//!
//! An event is a few words under the lock that is held anyway: no clock is asked and nothing is allocated. When the ring is
//! full the oldest event goes; numbers have no gaps, so a reader sees how many are missing.

use std::ops::Range;

use piton_driver::{DevicePtr, DeviceRange};
use piton_timeline::LaneId;

/// Most events a pool can be told to remember.
pub(crate) const MAX_EVENTS: u32 = 1 << 24;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// Its number in its ring, from 0: the pool has one, and the front of each lane.
    pub number: u64,
    /// Events of different rings happened in this order; equal ones happened side by side.
    pub clock: u64,
    /// What it was.
    pub kind: MemoryEventKind,
    /// Where; the null address where there is no place.
    pub ptr: DevicePtr,
    /// Of how many bytes; those asked for, where a program asked.
    pub bytes: u64,
    /// The lane that the memory was allocated for.
    pub lane: Option<LaneId>,
}

/// What happened to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryEventKind {
    /// A program got it.
    Allocated,
    /// The program gave it back. Its uses may not be complete.
    Freed,
    /// A program asked, and there was none.
    OutOfMemory,
    /// A Block came from the device.
    BlockAdded,
    /// A Block went back to the device.
    BlockReturned,
    /// Pages were mapped at addresses that had none.
    PagesMapped,
    /// Pages were taken from addresses.
    PagesUnmapped,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EventRing {
    events: Vec<MemoryEvent>,
    capacity: usize,
    /// Where the oldest event lies: 0 until the ring is full.
    oldest: usize,
    next: u64,
}

impl EventRing {
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        Self {
            events: Vec::with_capacity(capacity),
            capacity,
            oldest: 0,
            next: 0,
        }
    }

    /// Remembers an event of the pool's own ring, whose numbers are the clock; returns the clock for what comes next.
    #[inline]
    pub(crate) fn push(
        &mut self,
        kind: MemoryEventKind,
        range: DeviceRange,
        lane: Option<LaneId>,
    ) -> u64 {
        // What a front does before the next event of the pool bears that event's number, and goes before it.
        self.push_at(2 * self.next + 1, kind, range, lane);
        2 * self.next
    }

    #[inline]
    pub(crate) fn push_at(
        &mut self,
        clock: u64,
        kind: MemoryEventKind,
        range: DeviceRange,
        lane: Option<LaneId>,
    ) {
        let number = self.next;
        self.next += 1;
        let event = MemoryEvent {
            number,
            clock,
            kind,
            ptr: range.start,
            bytes: range.bytes,
            lane,
        };
        if self.events.len() < self.capacity {
            self.events.push(event);
        } else if let Some(oldest) = self.events.get_mut(self.oldest) {
            *oldest = event;
            self.oldest = (self.oldest + 1) % self.capacity;
        }
    }

    /// The numbers of the events there are.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.next - self.events.len() as u64..self.next
    }

    /// Copies at most `most` of the events of these numbers that there still are; returns the number to go on with.
    pub(crate) fn copy_from(
        &self,
        wanted: &Range<u64>,
        most: usize,
        to: &mut Vec<MemoryEvent>,
    ) -> u64 {
        let oldest = self.numbers().start;
        let start = wanted.start.max(oldest).min(wanted.end);
        let end = wanted.end.min(start + most as u64);
        let at = |number: u64| {
            let after = usize::try_from(number - oldest).unwrap_or(usize::MAX);
            self.events
                .get((self.oldest + after) % self.events.len().max(1))
        };
        to.extend((start..end).filter_map(at));
        end
    }

    /// The events there are, oldest first.
    pub(crate) fn to_vec(&self) -> Vec<MemoryEvent> {
        let (newer, older) = self.events.split_at(self.oldest);
        [older, newer].concat()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn numbers(capacity: u32, pushed: u64) -> Vec<u64> {
        let mut ring = EventRing::new(capacity);
        for bytes in 0..pushed {
            let range = DeviceRange {
                start: DevicePtr::new(4096),
                bytes,
            };
            assert_eq!(
                ring.push(MemoryEventKind::Allocated, range, None),
                2 * (bytes + 1)
            );
        }
        let events = ring.to_vec();
        assert!(events.iter().all(|event| event.number == event.bytes));
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn the_last_events_are_kept_in_their_order() {
        assert_eq!(numbers(3, 2), [0, 1]);
        assert_eq!(numbers(3, 3), [0, 1, 2]);
        assert_eq!(numbers(3, 4), [1, 2, 3]);
        assert_eq!(numbers(3, 11), [8, 9, 10]);
        assert_eq!(numbers(0, 5), Vec::<u64>::new());
    }
}
