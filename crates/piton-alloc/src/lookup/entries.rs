//! What each live allocation is, by the number of its record in the index.
//!
//! # Protocol
//! An entry has one writer at a time (see [`lookup`](super)). Its first word has the *version*, whose lowest bit says
//! whether an allocation is there. It is counted up to retire the entry and counted up to publish the next; the other words
//! are written in between, so never while the version says that they hold. All stores are Releases and all loads Acquires: a
//! reader that saw a word of the next allocation sees the retirement that came before it, and finds the version changed.

use piton_driver::DevicePtr;
use piton_suballoc::ExtentId;
use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::LaneId;

use super::arena::Arena;
use crate::adaptor::Tag;

/// What an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) ptr: DevicePtr,
    /// Bytes asked for.
    pub(crate) bytes: u64,
    pub(crate) lane: Option<LaneId>,
    pub(crate) tag: Option<Tag>,
}

/// One allocation, or none.
#[derive(Debug, Default)]
struct Entry {
    /// The tag below, then whether there is one, whether there is a lane, and the version.
    head: AtomicU64,
    ptr: AtomicU64,
    bytes: AtomicU64,
    lane: AtomicU64,
    /// The state of the chunk's id, and the unit it starts at.
    chunk: AtomicU64,
}

const HAS_TAG: u64 = 1 << 32;
const HAS_LANE: u64 = 1 << 33;
/// One step of the version. Its lowest bit is this: set while an allocation is there.
const STEP: u64 = 1 << 34;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Entries(Arena<Entry>);

impl Entries {
    #[inline]
    pub(super) fn publish(&self, id: ExtentId, unit: u32, record: &Record) {
        let (number, state) = id.parts();
        let Some(entry) = self.0.make(number) else {
            return;
        };
        debug_assert!(!is_live(entry.head.load(Ordering::Relaxed)));
        let chunk = u64::from(state) << 32 | u64::from(unit);
        entry.chunk.store(chunk, Ordering::Release);
        entry.ptr.store(record.ptr.address(), Ordering::Release);
        entry.bytes.store(record.bytes, Ordering::Release);
        entry.open(record.lane, record.tag);
    }

    /// Publishes the same memory for another allocation.
    #[inline]
    pub(super) fn renew(&self, number: u32, lane: LaneId, tag: Option<Tag>) {
        if let Some(entry) = self.0.get(number) {
            entry.open(Some(lane), tag);
        }
    }

    #[inline]
    pub(super) fn retire(&self, number: u32) {
        if let Some(entry) = self.0.get(number) {
            let head = entry.head.load(Ordering::Relaxed);
            debug_assert!(is_live(head));
            entry.head.store(head.wrapping_add(STEP), Ordering::Release);
        }
    }

    /// The unit at which the chunk starts that the entry was published for last. For its owner.
    #[inline]
    pub(super) fn start_of(&self, number: u32) -> Option<u32> {
        let chunk = self.0.get(number)?.chunk.load(Ordering::Relaxed);
        Some(low(chunk))
    }

    /// The chunk and what it is, if an allocation is there and stays for the look.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<(ExtentId, Record)> {
        let entry = self.0.get(number)?;
        let head = entry.head.load(Ordering::Acquire);
        if !is_live(head) {
            return None;
        }
        let ptr = entry.ptr.load(Ordering::Acquire);
        let bytes = entry.bytes.load(Ordering::Acquire);
        let lane = entry.lane.load(Ordering::Acquire);
        let chunk = entry.chunk.load(Ordering::Acquire);
        if entry.head.load(Ordering::Relaxed) != head {
            return None;
        }
        let record = Record {
            ptr: DevicePtr::new(ptr),
            bytes,
            lane: (head & HAS_LANE != 0).then_some(LaneId {
                index: high(lane),
                generation: low(lane),
            }),
            tag: (head & HAS_TAG != 0).then_some(Tag(low(head))),
        };
        Some((ExtentId::from_parts(number, high(chunk)), record))
    }
}

impl Entry {
    /// Writes what is left and lets readers in. Nobody has the entry.
    #[inline]
    fn open(&self, lane: Option<LaneId>, tag: Option<Tag>) {
        if let Some(lane) = lane {
            let lane = u64::from(lane.index) << 32 | u64::from(lane.generation);
            self.lane.store(lane, Ordering::Release);
        }
        let version = (self.head.load(Ordering::Relaxed) & !(STEP - 1)).wrapping_add(STEP);
        let lane = lane.map_or(0, |_| HAS_LANE);
        let tag = tag.map_or(0, |tag| HAS_TAG | u64::from(tag.0));
        self.head.store(version | lane | tag, Ordering::Release);
    }
}

#[inline]
const fn is_live(head: u64) -> bool {
    head & STEP != 0
}

#[inline]
const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is wanted"
)]
const fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_what_was_published_and_nothing_once_it_is_retired() {
        let entries = Entries::default();
        let lane = LaneId {
            index: 3,
            generation: 9,
        };
        let full = Record {
            ptr: DevicePtr::new(u64::MAX - 511),
            bytes: 77,
            lane: Some(lane),
            tag: Some(Tag(u32::MAX)),
        };
        let bare = Record {
            lane: None,
            tag: None,
            ..full
        };
        let id = ExtentId::from_parts(5, 11);
        assert_eq!(entries.get(5), None);
        for record in [full, bare, full] {
            entries.publish(id, u32::MAX, &record);
            assert_eq!(entries.get(5), Some((id, record)));
            assert_eq!(entries.start_of(5), Some(u32::MAX));
            entries.retire(5);
            assert_eq!(entries.get(5), None);
        }
        entries.renew(5, lane, None);
        let renewed = Record { tag: None, ..full };
        assert_eq!(entries.get(5), Some((id, renewed)));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Who looks at an entry while it passes from one allocation to the next.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    #[test]
    fn a_look_up_never_mixes_two_allocations() {
        model(|| {
            let entries = Arc::new(Entries::default());
            let record = |number: u64| Record {
                ptr: DevicePtr::new(512 * number),
                bytes: number,
                lane: None,
                tag: None,
            };
            entries.publish(ExtentId::from_parts(0, 1), 1, &record(1));
            let reader = {
                let entries = Arc::clone(&entries);
                thread::spawn(move || entries.get(0))
            };
            entries.retire(0);
            entries.publish(ExtentId::from_parts(0, 2), 2, &record(2));
            if let Some((id, found)) = reader.join().unwrap() {
                assert_eq!(found, record(u64::from(id.parts().1)));
            }
        });
    }
}
