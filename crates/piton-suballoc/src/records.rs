//! The slab of records: one per extent, linked by `u32` index in order of offset.
//!
//! What every operation touches is 32 bytes, so that a record never straddles a cache line. What only extents of a
//! lane's domain need (their place in the order of stamps) lies in a second slab of the same indices.
//!
//! Record 0 is nobody's: links to nowhere lead there, so whoever links or unlinks writes to both ends without asking
//! whether there is one. What is written there means nothing, but its state stays vacant and its stamp 0.
//!
//! Invariants: the records reachable by `next` from a range's first cover the range without gap or overlap; the first
//! is the same record for as long as the range exists; a vacant record is reachable from `vacant` only. This file keeps neighbours; bins and domains are kept by `bins` and `tlsf`.

use crate::domain::Domain;
use crate::extent::ExtentId;

/// The link to nowhere: the record that is nobody's.
pub(crate) const NIL: u32 = 0;

/// State word of a record whose extent is live. Domain indices are far below.
const LIVE: u32 = u32::MAX;
/// State word of a record without extent.
const VACANT: u32 = u32::MAX - 1;

/// One extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Start, in units.
    pub(crate) offset: u32,
    /// Length, in units.
    pub(crate) units: u32,
    /// Neighbour below.
    pub(crate) prev: u32,
    /// Neighbour above; next vacant record if vacant.
    pub(crate) next: u32,
    /// Free: previous in the bin. Live: bytes of padding, always less than a unit.
    pub(crate) bin_prev: u32,
    /// Free: next in the bin.
    pub(crate) bin_next: u32,
    /// `LIVE`, `VACANT`, or the index of the domain it is free in.
    state: u32,
    /// Changes with the state, so that stale ids are told.
    serial: u32,
}

impl Record {
    pub(crate) const fn is_live(&self) -> bool {
        self.state == LIVE
    }

    pub(crate) const fn is_free_in(&self, domain: Domain) -> bool {
        self.state == domain.index()
    }

    /// The domain it is free in, if it is.
    pub(crate) const fn domain(&self) -> Option<Domain> {
        if self.state < VACANT {
            Some(Domain::from_index(self.state))
        } else {
            None
        }
    }

    pub(crate) const fn end(&self) -> u32 {
        self.offset + self.units
    }

    /// Length before place, to be compared as one number.
    #[inline]
    pub(crate) const fn length_and_place(&self) -> u64 {
        (self.units as u64) << u32::BITS | self.offset as u64
    }
}

/// Place of a free extent in its domain's order of stamps. Meaningless for other records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) prev: u32,
    pub(crate) next: u32,
    pub(crate) stamp: u64,
}

/// Record 0.
const NOBODYS: Record = Record {
    offset: 0,
    units: 0,
    prev: NIL,
    next: NIL,
    bin_prev: NIL,
    bin_next: NIL,
    state: VACANT,
    serial: 0,
};

/// The place before all others.
const FIRST: Order = Order {
    prev: NIL,
    next: NIL,
    stamp: 0,
};

/// All records of one range.
#[derive(Debug)]
pub(crate) struct Records {
    records: Vec<Record>,
    orders: Vec<Order>,
    vacant: u32,
    next_serial: u32,
    /// The record that a walk goes on with, or `NIL`.
    pub(crate) place: u32,
}

impl Records {
    /// No records.
    pub(crate) const fn new() -> Self {
        Self {
            records: Vec::new(),
            orders: Vec::new(),
            vacant: NIL,
            next_serial: 0,
            place: NIL,
        }
    }

    /// A record without neighbours. It has no state as yet: the caller makes it free.
    pub(crate) fn add(&mut self, offset: u32, units: u32) -> u32 {
        let index = self.occupy();
        *self.at_mut(index) = Record {
            offset,
            units,
            ..NOBODYS
        };
        index
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Record {
        &mut self.records[index as usize]
    }

    #[inline]
    pub(crate) fn order(&self, index: u32) -> &Order {
        &self.orders[index as usize]
    }

    #[inline]
    pub(crate) fn order_mut(&mut self, index: u32) -> &mut Order {
        &mut self.orders[index as usize]
    }

    /// The stamp of an extent that is free in `domain`.
    #[inline]
    pub(crate) fn stamp(&self, index: u32, domain: Domain) -> u64 {
        if domain.is_shared() {
            0
        } else {
            self.order(index).stamp
        }
    }

    #[inline]
    pub(crate) fn id(&self, index: u32) -> ExtentId {
        ExtentId::from_parts(index, self.at(index).serial)
    }

    /// The record an id names, unless the id is stale or foreign.
    #[inline]
    pub(crate) fn resolve(&self, id: ExtentId) -> Option<&Record> {
        let (index, serial) = id.parts();
        let record = self.records.get(index as usize)?;
        (record.serial == serial && record.state != VACANT).then_some(record)
    }

    /// Makes the extent live; returns its name. `padding` is in bytes.
    #[inline(always)]
    pub(crate) fn set_live(&mut self, index: u32, padding: u32) -> ExtentId {
        let serial = self.new_serial();
        let record = self.at_mut(index);
        record.state = LIVE;
        record.serial = serial;
        record.bin_prev = padding;
        ExtentId::from_parts(index, serial)
    }

    /// Makes the extent free in `domain`; the caller hangs it into a bin.
    #[inline]
    pub(crate) fn set_free(&mut self, index: u32, domain: Domain) {
        let serial = self.new_serial();
        let record = self.at_mut(index);
        record.state = domain.index();
        record.serial = serial;
    }

    #[inline]
    fn new_serial(&mut self) -> u32 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        serial
    }

    /// Cuts everything above the first `units` off `index`. Whether the new record is live or free, the caller says.
    // Word by word: a record that is put together and then moved is read before it is written.
    #[inline]
    pub(crate) fn split_high(&mut self, index: u32, units: u32) -> u32 {
        let high = self.occupy();
        let low = self.at_mut(index);
        let (offset, all, next) = (low.offset, low.units, low.next);
        low.next = high;
        low.units = units;
        let record = self.at_mut(high);
        record.offset = offset + units;
        record.units = all - units;
        record.prev = index;
        record.next = next;
        self.at_mut(next).prev = high;
        high
    }

    /// Cuts the first `units` units off `index`, which goes on as the rest of the extent in a state of its own: its neighbours,
    /// its domain and its place in the order of stamps stay as they are. It must not be a range's first. Whether the new
    /// record is live or free, the caller says.
    #[inline(always)]
    pub(crate) fn split_low(&mut self, index: u32, units: u32) -> u32 {
        let low = self.occupy();
        let serial = self.new_serial();
        let high = self.at_mut(index);
        let (offset, prev) = (high.offset, high.prev);
        high.offset = offset + units;
        high.units -= units;
        high.prev = low;
        high.serial = serial;
        let record = self.at_mut(low);
        record.offset = offset;
        record.units = units;
        record.prev = prev;
        record.next = index;
        self.at_mut(prev).next = low;
        if self.place == index {
            self.place = low;
        }
        low
    }

    /// Joins the neighbour above into `index` and vacates its record. The caller has taken both out of their bins.
    #[inline]
    pub(crate) fn absorb_next(&mut self, index: u32) {
        let gone = self.at(index).next;
        let Record { units, next, .. } = *self.at(gone);
        let kept = self.at_mut(index);
        kept.units += units;
        kept.next = next;
        self.at_mut(next).prev = index;
        if self.place == gone {
            self.place = index;
        }
        self.vacate(gone);
    }

    /// Forgets a record that nothing links to any more.
    #[inline]
    pub(crate) fn vacate(&mut self, index: u32) {
        if self.place == index {
            self.place = NIL;
        }
        let vacant = std::mem::replace(&mut self.vacant, index);
        let record = self.at_mut(index);
        record.state = VACANT;
        record.next = vacant;
    }

    /// A record that nothing links to. The caller writes all of it.
    #[inline]
    fn occupy(&mut self) -> u32 {
        let index = self.vacant;
        if index == NIL {
            return self.grow();
        }
        self.vacant = self.at(index).next;
        index
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        if self.records.is_empty() {
            self.records.push(NOBODYS);
            self.orders.push(FIRST);
        }
        // A range has at most as many extents as units, which are fewer than there are numbers.
        let index = u32::try_from(self.records.len()).unwrap_or(NIL);
        self.records.push(NOBODYS);
        self.orders.push(FIRST);
        index
    }

    /// Vacant records, counted by walking their list; for `check`. At most one more than there are records.
    pub(crate) fn count_vacant(&self) -> usize {
        let mut count = 0;
        let mut index = self.vacant;
        while index != NIL && count <= self.records.len() {
            count += 1;
            index = self.at(index).next;
        }
        count
    }

    /// Records of either kind, but for nobody's.
    pub(crate) fn len(&self) -> usize {
        self.records.len().saturating_sub(1)
    }

    /// Whether nobody's record is as it must be; for `check`.
    pub(crate) fn is_nobodys_vacant(&self) -> bool {
        let first = self.records.first().zip(self.orders.first());
        first.is_none_or(|(record, order)| record.state == VACANT && order.stamp == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_half_a_cache_line() {
        assert_eq!(size_of::<Record>(), 32);
        assert_eq!(size_of::<Order>(), 16);
    }

    #[test]
    fn splitting_and_absorbing_gives_the_old_extent_back() {
        let mut records = Records::new();
        let low = records.add(0, 100);
        let high = records.split_high(low, 80);
        let middle = records.split_high(low, 30);
        assert_eq!((records.at(low).offset, records.at(low).units), (0, 30));
        assert_eq!(
            (records.at(middle).offset, records.at(middle).units),
            (30, 50)
        );
        assert_eq!((records.at(high).offset, records.at(high).units), (80, 20));
        records.absorb_next(low);
        records.absorb_next(low);
        assert_eq!((records.at(low).offset, records.at(low).units), (0, 100));
        assert_eq!((records.len(), records.count_vacant()), (3, 2));
    }

    #[test]
    fn what_is_left_above_keeps_its_record_and_a_walk_goes_on_below_it() {
        let mut records = Records::new();
        let first = records.add(0, 100);
        let whole = records.split_high(first, 20);
        records.place = whole;
        records.set_free(whole, Domain::SHARED);
        let name = records.id(whole);
        let low = records.split_low(whole, 30);
        let extent = |index| {
            let Record {
                offset,
                units,
                prev,
                next,
                ..
            } = *records.at(index);
            (offset, units, prev, next)
        };
        assert_eq!(extent(first), (0, 20, NIL, low));
        assert_eq!(extent(low), (20, 30, first, whole));
        assert_eq!(extent(whole), (50, 50, low, NIL));
        assert_eq!(records.place, low);
        assert_ne!(records.id(whole), name, "its name was that of all of it");
    }
}
