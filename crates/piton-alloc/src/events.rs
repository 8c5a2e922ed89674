//! The last events of a pool's memory, always recorded, in bounded room.
//!
//! An event is a few words under the lock that is held anyway: no clock is asked and nothing is allocated. When the ring is
//! full the oldest event goes; numbers have no gaps, so a reader sees how many are missing.

use std::ops::Range;

use piton_driver::{DevicePtr, DeviceRange};
use piton_timeline::LaneId;

use crate::lane_word::LaneWord;

/// Most events a pool can be told to remember.
pub(crate) const MAX_EVENTS: u32 = 1 << 24;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// Its number in its ring, from 0. The pool has a ring, and so have the front of each lane and
    /// [`Planned`](crate::Planned).
    pub number: u64,
    /// The order of events of different rings. Events with the same number happened concurrently.
    pub clock: u64,
    /// What it was.
    pub kind: MemoryEventKind,
    /// The address; null where there is none.
    pub ptr: DevicePtr,
    /// The bytes; for allocations and refusals, those that the program asked for.
    pub bytes: u64,
    /// The lane that the memory was allocated for.
    pub lane: Option<LaneId>,
}

/// What happened to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryEventKind {
    /// The program allocated it.
    Allocated,
    /// The program freed it. Its uses may not be complete.
    Freed,
    /// The program asked for memory, and there was none.
    OutOfMemory,
    /// A Block came from the device.
    BlockAdded,
    /// A Block went back to the device.
    BlockReturned,
    /// Pages were mapped at addresses that had none.
    PagesMapped,
    /// Pages were taken from addresses.
    PagesUnmapped,
    /// From now on a plan is served from here: what is allocated inside comes from the plan.
    PlanBegun,
    /// The plan is given up. What is live of it stays where it is, and the rest returns to the pool.
    PlanEnded,
}

/// An event as the ring keeps it: half a cache line. Its number follows from its place.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The clock, above the bits of the kind.
    clock_and_kind: u64,
    ptr: DevicePtr,
    bytes: u64,
    lane: LaneWord,
}

const KIND_BITS: u32 = 4;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

impl MemoryEventKind {
    const ALL: [Self; 9] = [
        Self::Allocated,
        Self::Freed,
        Self::OutOfMemory,
        Self::BlockAdded,
        Self::BlockReturned,
        Self::PagesMapped,
        Self::PagesUnmapped,
        Self::PlanBegun,
        Self::PlanEnded,
    ];
}

impl Kept {
    fn tell(&self, number: u64) -> MemoryEvent {
        let kind = self.clock_and_kind & KIND_MASK;
        let kind = MemoryEventKind::ALL.get(usize::try_from(kind).unwrap_or(0));
        MemoryEvent {
            number,
            clock: self.clock_and_kind >> KIND_BITS,
            kind: kind.copied().unwrap_or(MemoryEventKind::Allocated),
            ptr: self.ptr,
            bytes: self.bytes,
            lane: self.lane.get(),
        }
    }
}

/// See the module. An event lies at its number cut to the bits of `mask`, so that finding its place asks nothing; where the
/// capacity is no power of two there are more places than are told of.
#[derive(Debug)]
pub(crate) struct EventRing {
    /// As many as there were events, until every place has one.
    events: Vec<Kept>,
    capacity: usize,
    /// Places, less one.
    mask: u64,
    next: u64,
}

impl EventRing {
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let places = capacity.checked_next_power_of_two().unwrap_or(1);
        Self {
            events: Vec::with_capacity(places),
            capacity,
            mask: places as u64 - 1,
            next: 0,
        }
    }

    /// Where the event of a number lies.
    #[inline]
    fn place_of(&self, number: u64) -> usize {
        usize::try_from(number & self.mask).unwrap_or(usize::MAX)
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
        let clock_and_kind = clock << KIND_BITS | kind as u64;
        let lane = LaneWord::new(lane);
        let place = self.place_of(self.next);
        self.next += 1;
        if let Some(kept) = self.events.get_mut(place) {
            // Word by word: copied as a whole it would be read before it is written.
            kept.clock_and_kind = clock_and_kind;
            kept.ptr = range.start;
            kept.bytes = range.bytes;
            kept.lane = lane;
        } else {
            self.push_first(Kept {
                clock_and_kind,
                ptr: range.start,
                bytes: range.bytes,
                lane,
            });
        }
    }

    /// Before every place has an event.
    #[cold]
    fn push_first(&mut self, event: Kept) {
        if self.capacity > 0 {
            self.events.push(event);
        }
    }

    /// Tells the last allocation of just this range as something else, if it is still remembered.
    pub(crate) fn retell_allocation(&mut self, range: DeviceRange, kind: MemoryEventKind) {
        let allocated = MemoryEventKind::Allocated as u64;
        for number in self.numbers().rev() {
            let place = self.place_of(number);
            let Some(kept) = self.events.get_mut(place) else {
                return;
            };
            let is_allocation = kept.clock_and_kind & KIND_MASK == allocated;
            if is_allocation && (kept.ptr, kept.bytes) == (range.start, range.bytes) {
                kept.clock_and_kind = kept.clock_and_kind & !KIND_MASK | kind as u64;
                return;
            }
        }
    }

    /// The numbers of the events there are.
    pub(crate) fn numbers(&self) -> Range<u64> {
        let kept = self.events.len().min(self.capacity);
        self.next - kept as u64..self.next
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
        to.extend((start..end).filter_map(|number| self.tell(number)));
        end
    }

    /// The events there are, oldest first.
    pub(crate) fn to_vec(&self) -> Vec<MemoryEvent> {
        self.numbers()
            .filter_map(|number| self.tell(number))
            .collect()
    }

    fn tell(&self, number: u64) -> Option<MemoryEvent> {
        let kept = self.events.get(self.place_of(number))?;
        Some(kept.tell(number))
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
    fn an_event_is_told_as_it_was_noted() {
        let lane = LaneId {
            index: 3,
            generation: 1,
        };
        let mut ring = EventRing::new(16);
        for (kind, lane) in MemoryEventKind::ALL
            .into_iter()
            .zip([Some(lane), None].into_iter().cycle())
        {
            let range = DeviceRange {
                start: DevicePtr::new(1 << 40),
                bytes: u64::MAX,
            };
            ring.push_at(1 << 50, kind, range, lane);
            let told = ring.to_vec().pop().unwrap();
            assert_eq!((told.kind, told.lane), (kind, lane));
            assert_eq!(
                (told.clock, told.ptr, told.bytes),
                (1 << 50, range.start, range.bytes)
            );
        }
    }

    #[test]
    fn the_last_allocation_of_a_range_is_told_as_something_else_wherever_the_ring_begins() {
        let range = |bytes| DeviceRange {
            start: DevicePtr::new(4096),
            bytes,
        };
        for pushed_before in 0..6 {
            let mut ring = EventRing::new(4);
            for bytes in (0..pushed_before).chain([7, 8, 9]) {
                ring.push(MemoryEventKind::Allocated, range(bytes), None);
            }
            ring.retell_allocation(range(8), MemoryEventKind::PlanBegun);
            let told = ring.to_vec();
            let [.., before, retold, after] = told.as_slice() else {
                panic!("four are kept");
            };
            assert_eq!((retold.kind, retold.bytes), (MemoryEventKind::PlanBegun, 8));
            assert_eq!(retold.clock, before.clock + 2);
            assert_eq!(
                [before, after].map(|other| other.kind),
                [MemoryEventKind::Allocated; 2]
            );
        }
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
