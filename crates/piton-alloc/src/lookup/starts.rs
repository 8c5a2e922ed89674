//! Where live chunks begin, so that the one around a unit is found in a number of steps that does not depend on how many there are.
//!
//! # Idea
//! A chunk of `4^k` to `4^(k+1) - 1` units is of *class* `k`. It is filed under its class and the cell of `4^(k+1)` units in which it
//! begins: at most four chunks of a class begin in one cell. A unit inside the chunk lies in that cell or in the next, so two looks
//! a class find it, for as many classes as there are chunks of. Files are lists that hang from a table of hashes, which is as
//! large as there are chunks, wherever they lie: a structure by address costs a miss of the caches for each chunk of a large device.
//! Most looks end at the table: half of its buckets are empty at least, and others tell by a mark that the first is another's.
//!
//! # Protocol
//! One writer at a time, readers at any. All stores are Releases and all loads Acquires, but for the writer's own.
//!
//! - A *bucket* is one word, the number of the first entry and a count of changes. Entries come in front. When one leaves, those
//!   around it are joined, and then the count goes up: who sees the new count is not led to it any more, and who had the old
//!   one and was led by it to another list, where it went since, finds that the count has moved, and looks again.
//! - The table grows by being made anew, twice as large; entries have two links, for tables in turn. Readers of the old one find
//!   there what they knew of, since nothing in it changes, until the table grows again. So a reader that found nothing looks
//!   whether the table is still the same, too.
//! - A class has its bit as long as it has a chunk.

use std::sync::OnceLock;

use piton_sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::entries::{Entries, Entry, low};

/// Buckets of the first table, as a power of two.
const FIRST_BITS: u32 = if cfg!(loom) { 3 } else { 8 };
const CLASSES: usize = u32::BITS as usize;
/// Sizes of a class differ by so many powers of two. More make fewer looks, and longer lists.
const CLASS_BITS: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Starts {
    /// By the power of two that is their size.
    tables: [OnceLock<Box<[AtomicU64]>>; CLASSES],
    /// Which of them there is now.
    bits: AtomicU32,
    /// Classes with a chunk.
    classes: AtomicU64,
    /// Chunks of each class, and of all. The writer's own.
    counts: [AtomicU32; CLASSES],
    count: AtomicU32,
}

/// A chunk's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) number: u32,
    /// The unit it begins at.
    pub(super) unit: u32,
    /// Units it has.
    pub(super) units: u32,
}

/// The word of a bucket: from below the number of the first entry plus one, whether there are more, a few bits of the first
/// one's hash, by which most looks need not go to it, and a count.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bucket(u64);

const HAS_MORE: u64 = 1 << 32;
const MARK_AT: u32 = 33;
const MARK_BITS: u32 = 8;
/// A reader that is held up while its bucket changes 2^23 times, and not once more, takes it for unchanged.
const CHANGE: u64 = 1 << (MARK_AT + MARK_BITS);

impl Bucket {
    #[inline]
    fn first(self) -> Option<u32> {
        low(self.0).checked_sub(1)
    }

    /// Whether a chunk of this key may be in the list.
    #[inline]
    const fn may_have(self, key: Key) -> bool {
        let is_first = (self.0 >> MARK_AT) & ((1 << MARK_BITS) - 1) == key.mark;
        low(self.0) != 0 && (is_first || self.0 & HAS_MORE != 0)
    }

    /// With another first entry, of this mark, and counted up.
    #[inline]
    fn changed_to(self, first: Option<(u32, u64)>, has_more: bool) -> Self {
        let count = (self.0 & !(CHANGE - 1)).wrapping_add(CHANGE);
        let more = if has_more { HAS_MORE } else { 0 };
        // No record has the last number.
        let first = first.map_or(0, |(number, mark)| {
            mark << MARK_AT | more | (u64::from(number) + 1)
        });
        Self(count | first)
    }
}

/// Where a class's cell hangs in a table.
#[derive(Clone, Copy)]
struct Key {
    bucket: usize,
    mark: u64,
}

impl Key {
    /// Of a class's cell, in a table of so many bits.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a table has fewer buckets than 32 bits count"
    )]
    const fn new(class: usize, cell: u32, bits: u32) -> Self {
        let key = (class as u64) << u32::BITS | cell as u64;
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            bucket: (hash >> (u64::BITS - bits)) as usize,
            mark: (hash >> (u64::BITS - bits - MARK_BITS)) & ((1 << MARK_BITS) - 1),
        }
    }

    #[inline]
    const fn of(place: Place, bits: u32) -> Self {
        let class = class_of(place.units);
        Self::new(class, cell_of(place.unit, class), bits)
    }
}

impl Starts {
    pub(super) fn new() -> Self {
        Self::with(FIRST_BITS)
    }

    fn with(bits: u32) -> Self {
        let starts = Self {
            tables: [const { OnceLock::new() }; CLASSES],
            bits: AtomicU32::new(bits),
            classes: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            count: AtomicU32::new(0),
        };
        starts.make(bits);
        starts
    }

    fn make(&self, bits: u32) -> &[AtomicU64] {
        self.tables[bits as usize % CLASSES].get_or_init(|| {
            let buckets = 0..1_u64 << bits;
            buckets.map(|_| AtomicU64::new(0)).collect()
        })
    }

    #[inline]
    fn table(&self, bits: u32) -> &[AtomicU64] {
        self.tables[bits as usize % CLASSES]
            .get()
            .map_or(&[], |table| table)
    }

    /// A chunk begins, whose entry, this one of all, is published. One writer at a time.
    #[inline]
    pub(super) fn insert(&self, place: Place, entry: &Entry, entries: &Entries) {
        let bits = self.bits.load(Ordering::Relaxed);
        let class = class_of(place.units);
        hang(self.table(bits), bits, place, entry);
        add(&self.count, 1);
        if add(&self.counts[class], 1) == 1 {
            let classes = self.classes.load(Ordering::Relaxed);
            self.classes.store(classes | 1 << class, Ordering::Release);
        }
        if 2 * u64::from(self.count.load(Ordering::Relaxed)) > 1 << bits {
            self.grow(bits, entries);
        }
    }

    /// The chunk ends. One writer at a time.
    #[inline]
    pub(super) fn remove(&self, place: Place, entry: &Entry, entries: &Entries) {
        let bits = self.bits.load(Ordering::Relaxed);
        let class = class_of(place.units);
        let key = Key::of(place, bits);
        if let Some(bucket) = self.table(bits).get(key.bucket) {
            take_down(bucket, bits, (place.number, entry), entries);
        }
        add(&self.count, u32::MAX);
        if add(&self.counts[class], u32::MAX) == 0 {
            let classes = self.classes.load(Ordering::Relaxed);
            self.classes
                .store(classes & !(1 << class), Ordering::Release);
        }
    }

    /// What `look` says of the chunk that has the unit: it is shown those that may.
    #[inline]
    pub(super) fn find<R>(
        &self,
        unit: u32,
        entries: &Entries,
        mut look: impl FnMut(u32) -> Option<R>,
    ) -> Option<R> {
        loop {
            let bits = self.bits.load(Ordering::Acquire);
            let mut classes = self.classes.load(Ordering::Acquire);
            let table = self.table(bits);
            while classes != 0 {
                let class = classes.trailing_zeros() as usize;
                classes &= classes - 1;
                let cell = cell_of(unit, class);
                let cells = [Some(cell), cell.checked_sub(1)];
                for cell in cells.into_iter().flatten() {
                    let key = Key::new(class, cell, bits);
                    let bucket = table.get(key.bucket)?;
                    if let Some(found) = search(bucket, key, bits, entries, &mut look) {
                        return Some(found);
                    }
                }
            }
            if self.bits.load(Ordering::Relaxed) == bits {
                return None;
            }
        }
    }

    /// Makes a larger table and hangs everything from it.
    #[cold]
    fn grow(&self, bits: u32, entries: &Entries) {
        let larger = bits + 1;
        if larger as usize >= CLASSES {
            return;
        }
        let table = self.make(larger);
        for bucket in self.table(bits) {
            let mut next = Bucket(bucket.load(Ordering::Relaxed)).first();
            while let Some(number) = next {
                let entry = entries.at(number);
                next = entry.and_then(|entry| entry.next(bits));
                if let Some(entry) = entry {
                    hang(table, larger, entry.place(number), entry);
                }
            }
        }
        self.bits.store(larger, Ordering::Release);
    }

    /// Chunks there are. For `check`, while nobody writes.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.count.load(Ordering::Relaxed))
    }
}

#[inline]
fn hang(table: &[AtomicU64], bits: u32, place: Place, entry: &Entry) {
    let key = Key::of(place, bits);
    let Some(bucket) = table.get(key.bucket) else {
        return;
    };
    let before = Bucket(bucket.load(Ordering::Relaxed));
    let next = before.first();
    entry.set_next(bits, next);
    let after = before.changed_to(Some((place.number, key.mark)), next.is_some());
    bucket.store(after.0, Ordering::Release);
}

#[inline]
fn take_down(bucket: &AtomicU64, bits: u32, (number, entry): (u32, &Entry), entries: &Entries) {
    let before = Bucket(bucket.load(Ordering::Relaxed));
    let next = entry.next(bits);
    let first = if before.first() == Some(number) {
        next
    } else {
        let first = before.first();
        join_around(number, first, next, bits, entries);
        first
    };
    let head = first.and_then(|first| entries.place_of(first));
    let marked = head.map(|place| (place.number, Key::of(place, bits).mark));
    let has_more = first.is_some_and(|first| entries.next(first, bits).is_some());
    // Counted once no list leads to the entry any more: see the protocol.
    bucket.store(before.changed_to(marked, has_more).0, Ordering::Release);
}

/// Makes the entry before this one lead to the one after it.
#[inline]
fn join_around(number: u32, first: Option<u32>, next: Option<u32>, bits: u32, entries: &Entries) {
    let mut at = first;
    while let Some(previous) = at.and_then(|at| entries.at(at)) {
        at = previous.next(bits);
        if at == Some(number) {
            previous.set_next(bits, next);
            return;
        }
    }
}

/// Shows a bucket's entries until one is the right one.
#[inline]
fn search<R>(
    bucket: &AtomicU64,
    key: Key,
    bits: u32,
    entries: &Entries,
    look: &mut impl FnMut(u32) -> Option<R>,
) -> Option<R> {
    loop {
        let before = Bucket(bucket.load(Ordering::Acquire));
        if !before.may_have(key) {
            return None;
        }
        let is_whole = || Bucket(bucket.load(Ordering::Relaxed)) == before;
        let mut next = before.first();
        let mut steps = 0_u32;
        while let Some(number) = next {
            if let Some(found) = look(number) {
                return Some(found);
            }
            next = entries.next(number, bits);
            steps += 1;
            if steps.is_multiple_of(PATIENCE) && !is_whole() {
                break;
            }
        }
        if next.is_none() && is_whole() {
            return None;
        }
    }
}

/// Entries of a list after which a reader looks whether it has been led astray.
const PATIENCE: u32 = 16;

/// The class of a chunk of so many units, at least one.
#[inline]
const fn class_of(units: u32) -> usize {
    match units.checked_ilog2() {
        Some(class) => (class / CLASS_BITS) as usize,
        None => 0,
    }
}

/// The cell of a class that a unit lies in: as long as the longest chunks of the class.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "shifted right, a unit stays one"
)]
const fn cell_of(unit: u32, class: usize) -> u32 {
    (unit as u64 >> ((class as u32 + 1) * CLASS_BITS)) as u32
}

/// Adds to a count that the writer alone changes; what it is then.
#[inline]
fn add(count: &AtomicU32, by: u32) -> u32 {
    let now = count.load(Ordering::Relaxed).wrapping_add(by);
    count.store(now, Ordering::Relaxed);
    now
}

#[cfg(test)]
fn file(at: &(Starts, Entries), place: Place) {
    let record = super::Record {
        ptr: piton_driver::DevicePtr::new(0),
        bytes: 1,
        lane: None,
        tag: None,
    };
    let id = piton_suballoc::ExtentId::from_parts(place.number, 0);
    if let Some(entry) = at.1.publish(id, place, &record) {
        at.0.insert(place, entry, &at.1);
    }
}

#[cfg(test)]
fn take_away(at: &(Starts, Entries), place: Place) {
    if let Some(entry) = at.1.at(place.number) {
        entry.end(piton_suballoc::ExtentId::from_parts(place.number, 0));
        at.0.remove(place, entry, &at.1);
    }
}

/// The chunk that has a unit.
#[cfg(test)]
fn around(at: &(Starts, Entries), unit: u32) -> Option<u32> {
    let (starts, entries) = at;
    starts.find(unit, entries, |number| {
        let place = entries.place_of(number)?;
        let inside = unit.checked_sub(place.unit)? < place.units;
        inside.then_some(number)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn extents() -> impl Strategy<Value = (u32, u32)> {
        let units = prop_oneof![0u32..300, any::<u32>(), Just(u32::MAX - 3)];
        let sizes = prop_oneof![
            4 => 1u32..70,
            2 => (0u32..31).prop_map(|bits| 1 << bits),
            1 => 1u32..u32::MAX,
        ];
        (units, sizes)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn the_chunk_around_a_unit_is_that_of_an_ordered_map(
            steps in prop::collection::vec((any::<bool>(), extents(), any::<prop::sample::Index>()), 1..400),
        ) {
            let both = (Starts::new(), Entries::default());
            let mut model: BTreeMap<u32, Place> = BTreeMap::new();
            let expected = |model: &BTreeMap<u32, Place>, unit: u32| {
                let (_, place) = model.range(..=unit).next_back()?;
                (unit - place.unit < place.units).then_some(place.number)
            };
            for (number, (inserts, (unit, units), pick)) in (0u32..).zip(steps) {
                let units = units.min(u32::MAX - unit);
                let end = unit + units;
                let is_free = units > 0 && expected(&model, unit).is_none()
                    && model.range(unit..end).next().is_none();
                if inserts && is_free {
                    let place = Place { number, unit, units };
                    file(&both, place);
                    model.insert(unit, place);
                } else if !model.is_empty() {
                    let place = *model.values().nth(pick.index(model.len())).unwrap();
                    take_away(&both, place);
                    model.remove(&place.unit);
                }
                for at in [unit, end, end.saturating_sub(1), unit.saturating_sub(1)] {
                    prop_assert_eq!(around(&both, at), expected(&model, at), "at {}", at);
                }
                prop_assert_eq!(both.0.count(), model.len() as u64);
            }
            for place in model.values() {
                for at in [place.unit, place.unit + place.units / 2, place.unit + place.units - 1] {
                    prop_assert_eq!(around(&both, at), Some(place.number));
                }
            }
        }
    }

    #[test]
    fn many_chunks_are_found_wherever_they_lie() {
        let both = (Starts::new(), Entries::default());
        let place = |number| Place {
            number,
            unit: number * 3000,
            units: 1 + number % 3000,
        };
        (0..5000).for_each(|number| file(&both, place(number)));
        for number in 0..5000 {
            let Place { unit, units, .. } = place(number);
            assert_eq!(around(&both, unit + units - 1), Some(number));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Chunks that stay, looked for while others come and go in their list, and while the table grows.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    const fn one(number: u32, unit: u32) -> Place {
        Place {
            number,
            unit,
            units: 1,
        }
    }

    #[test]
    fn a_live_allocation_is_found_though_another_leaves_its_list_for_a_new_place() {
        model(|| {
            let bucket = |unit: u32| Key::of(one(0, unit), FIRST_BITS).bucket;
            let of_bucket = |wanted: bool| {
                let units = (2..).step_by(2);
                units.filter(move |unit| (bucket(*unit) == bucket(0)) == wanted)
            };
            let mut alike = of_bucket(true);
            let [second, third] = [1, 2].map(|number| one(number, alike.next().unwrap()));
            let apart = one(1, of_bucket(false).next().unwrap());
            let both = Arc::new((Starts::new(), Entries::default()));
            // The list is third, second, the one that stays.
            for place in [one(0, 0), second, third] {
                file(&both, place);
            }
            let reader = {
                let both = Arc::clone(&both);
                thread::spawn(move || around(&both, 0))
            };
            take_away(&both, second);
            file(&both, apart);
            assert_eq!(reader.join().unwrap(), Some(0), "it stays");
        });
    }

    #[test]
    fn a_live_allocation_is_found_while_the_table_grows() {
        model(|| {
            let bucket = |unit: u32, bits| Key::of(one(0, unit), bits).bucket;
            // In front of the one that stays, until the table has grown twice and has its first links again.
            let leaves =
                |unit: &u32| bucket(*unit, 2) == bucket(0, 2) && bucket(*unit, 4) != bucket(0, 4);
            let front = (4..).step_by(4).find(leaves).unwrap();
            let others = (4..).step_by(4).filter(|unit| *unit != front);
            let both = Arc::new((Starts::with(2), Entries::default()));
            file(&both, one(0, 0));
            file(&both, one(1, front));
            let reader = {
                let both = Arc::clone(&both);
                thread::spawn(move || around(&both, 0))
            };
            for (number, unit) in (2..5).zip(others) {
                file(&both, one(number, unit));
            }
            assert_eq!(reader.join().unwrap(), Some(0), "it stays");
        });
    }
}
