//! What each live allocation is, by the number of its record in the index.
//!
//! # Protocol
//! An entry has one writer at a time (see [`lookup`](super)). Its *version* says whether an allocation is there, and is another
//! for each: it has the state of the chunk's id, which no chunk of the same record had before, and is counted up where a chunk is
//! handed out again as it is. An entry is retired first, then its words are written, then it is published; so never while the version
//! says that they hold. All stores are Releases and all loads Acquires: a reader that saw a word of the next
//! allocation sees the retirement that came before it, and finds the version changed.
//!
//! The links belong to the lists of [`starts`](super::starts) and are not part of this.

use piton_driver::DevicePtr;
use piton_suballoc::ExtentId;
use piton_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use piton_timeline::LaneId;

use super::arena::Arena;
use super::starts::Place;
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
#[repr(align(64))]
pub(super) struct Entry {
    /// The state of the chunk's id, above how often it was published in that state, and the flags.
    version: AtomicU64,
    ptr: AtomicU64,
    bytes: AtomicU64,
    lane: AtomicU64,
    /// Units it has, and the unit it begins at.
    chunk: AtomicU64,
    tag: AtomicU32,
    /// The number of the next in its list plus one, in tables of an even power of two and of an odd one.
    next: [AtomicU32; 2],
}

/// An allocation is there.
const IS_LIVE: u64 = 1;
const HAS_LANE: u64 = 2;
const HAS_TAG: u64 = 4;
const FLAGS: u64 = IS_LIVE | HAS_LANE | HAS_TAG;
/// One more publication of the same chunk in the same state.
const AGAIN: u64 = 8;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Entries(Arena<Entry>);

impl Entries {
    #[inline]
    pub(super) fn at(&self, number: u32) -> Option<&Entry> {
        self.0.get(number)
    }

    #[inline]
    pub(super) fn publish(&self, id: ExtentId, place: Place, record: &Record) -> Option<&Entry> {
        let entry = self
            .at(place.number)
            .or_else(|| self.0.make(place.number))?;
        debug_assert!(!is_live(entry.version.load(Ordering::Relaxed)));
        entry.ptr.store(record.ptr.address(), Ordering::Release);
        entry.bytes.store(record.bytes, Ordering::Release);
        let chunk = u64::from(place.units) << 32 | u64::from(place.unit);
        entry.chunk.store(chunk, Ordering::Release);
        entry.open(version_of(id), record.lane, record.tag);
        Some(entry)
    }

    /// The chunk and what it is, if an allocation is there and stays for the look.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<(ExtentId, Record)> {
        let (state, record) = self.at(number)?.get()?;
        Some((ExtentId::from_parts(number, state), record))
    }

    /// The entry after this one in a list of a table of so many bits.
    #[inline]
    pub(super) fn next(&self, number: u32, bits: u32) -> Option<u32> {
        self.at(number)?.next(bits)
    }

    /// Where the chunk lies that the entry was published for last.
    #[inline]
    pub(super) fn place_of(&self, number: u32) -> Option<Place> {
        Some(self.at(number)?.place(number))
    }
}

impl Entry {
    /// Publishes the same memory for another allocation.
    #[inline]
    pub(super) fn renew(&self, lane: LaneId, tag: Option<Tag>) {
        let before = self.version.load(Ordering::Relaxed) & !FLAGS;
        let again = before & !u64::from(u32::MAX) | u64::from(low(before.wrapping_add(AGAIN)));
        self.open(again, Some(lane), tag);
    }

    /// The allocation is over, and with it the state of its chunk.
    #[inline]
    pub(super) fn end(&self, id: ExtentId) {
        debug_assert!(is_live(self.version.load(Ordering::Relaxed)));
        // No load: this is on the way of every free, and the entry need not be here yet.
        self.version.store(version_of(id), Ordering::Release);
    }

    /// The allocation is over, and its chunk may be handed out again as it is.
    #[inline]
    pub(super) fn retire(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(is_live(version));
        self.version.store(version & !FLAGS, Ordering::Release);
    }

    #[inline]
    pub(super) fn place(&self, number: u32) -> Place {
        let chunk = self.chunk.load(Ordering::Acquire);
        Place {
            number,
            unit: low(chunk),
            units: high(chunk),
        }
    }

    #[inline]
    pub(super) fn next(&self, bits: u32) -> Option<u32> {
        let next = &self.next[bits as usize % 2];
        next.load(Ordering::Acquire).checked_sub(1)
    }

    #[inline]
    pub(super) fn set_next(&self, bits: u32, next: Option<u32>) {
        // No record has the last number.
        let next = next.map_or(0, |next| next + 1);
        self.next[bits as usize % 2].store(next, Ordering::Release);
    }

    #[inline]
    fn get(&self) -> Option<(u32, Record)> {
        let version = self.version.load(Ordering::Acquire);
        if !is_live(version) {
            return None;
        }
        let ptr = self.ptr.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        let lane = self.lane.load(Ordering::Acquire);
        let tag = self.tag.load(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let record = Record {
            ptr: DevicePtr::new(ptr),
            bytes,
            lane: (version & HAS_LANE != 0).then_some(LaneId {
                index: high(lane),
                generation: low(lane),
            }),
            tag: (version & HAS_TAG != 0).then_some(Tag(tag)),
        };
        Some((high(version), record))
    }

    /// Writes what is left and lets readers in. Nobody has the entry.
    #[inline]
    fn open(&self, version: u64, lane: Option<LaneId>, tag: Option<Tag>) {
        let mut flags = IS_LIVE;
        if let Some(lane) = lane {
            let lane = u64::from(lane.index) << 32 | u64::from(lane.generation);
            self.lane.store(lane, Ordering::Release);
            flags |= HAS_LANE;
        }
        if let Some(tag) = tag {
            self.tag.store(tag.0, Ordering::Release);
            flags |= HAS_TAG;
        }
        self.version.store(version | flags, Ordering::Release);
    }
}

#[inline]
fn version_of(id: ExtentId) -> u64 {
    u64::from(id.parts().1) << 32
}

#[inline]
const fn is_live(version: u64) -> bool {
    version & IS_LIVE != 0
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
pub(super) const fn low(word: u64) -> u32 {
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
        let place = Place {
            number: 5,
            unit: u32::MAX,
            units: 5,
        };
        assert_eq!(entries.get(5), None);
        for record in [full, bare, full] {
            let entry = entries.publish(id, place, &record).unwrap();
            assert_eq!(entries.get(5), Some((id, record)));
            assert_eq!(entries.place_of(5), Some(place));
            entry.end(id);
            assert_eq!(entries.get(5), None);
        }
        let entry = entries.publish(id, place, &full).unwrap();
        entry.retire();
        assert_eq!(entries.get(5), None);
        entry.renew(lane, None);
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
            let place = Place {
                number: 0,
                unit: 1,
                units: 1,
            };
            let id = |state| ExtentId::from_parts(0, state);
            entries.publish(id(1), place, &record(1)).unwrap();
            let reader = {
                let entries = Arc::clone(&entries);
                thread::spawn(move || entries.get(0))
            };
            entries.at(0).unwrap().end(id(1));
            entries.publish(id(2), place, &record(2)).unwrap();
            if let Some((id, found)) = reader.join().unwrap() {
                assert_eq!(found, record(u64::from(id.parts().1)));
            }
        });
    }
}
