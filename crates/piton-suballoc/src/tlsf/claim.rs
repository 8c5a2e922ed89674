//! Taking bytes at a place of the caller's choice out of a run of neighbouring free extents, whatever their domains.
//!
//! Extents of different domains do not merge, so a run of them may hold a request that no single one does. Which run
//! is best, and what each part of it costs, only the caller knows: it walks with [`Tlsf::below`] and
//! [`Tlsf::above`] and then claims. A step per extent walked over and taken.

use super::Tlsf;
use crate::domain::Domain;
use crate::extent::{Chunk, Extent, ExtentId};
use crate::records::NIL;

impl Tlsf {
    /// The extent that an id names. `None` for a stale id.
    #[must_use]
    pub fn extent_of(&self, id: ExtentId) -> Option<Extent> {
        self.records.resolve(id)?;
        Some(self.extent(id.index()))
    }

    /// The extent that ends where this one starts, in the same range; `None` for a stale id.
    #[must_use]
    pub fn below(&self, id: ExtentId) -> Option<Extent> {
        let below = self.records.resolve(id)?.prev;
        (below != NIL).then(|| self.extent(below))
    }

    /// The extent that starts where this one ends, in the same range; `None` for a stale id.
    #[must_use]
    pub fn above(&self, id: ExtentId) -> Option<Extent> {
        let above = self.records.resolve(id)?.next;
        (above != NIL).then(|| self.extent(above))
    }

    /// The extent that contains the byte at `offset`. The walk starts at `from`, an extent of the same range at or
    /// below the offset, or else at the first extent of the range. `None` if no range contains the offset, or for a
    /// stale id.
    #[must_use]
    pub fn extent_at(&self, offset: u64, from: Option<ExtentId>) -> Option<Extent> {
        let unit = u32::try_from(offset / self.unit()).ok()?;
        let found = self.find_from(unit, from)?;
        Some(self.extent(found))
    }

    /// Makes one chunk, without padding, of `bytes` bytes at `offset`, both multiples of the unit. The bytes must be
    /// free, in any domains. What is left of the first and the last extent stays free in its domain; what is left of
    /// a whole range in the domain reserved for those goes to [`Domain::SHARED`].
    ///
    /// The walk starts at `from`, an extent of the same range at or below `offset`, or else at the first extent of
    /// the range. `None`, and nothing has changed, if the bytes are not all free or the id is stale.
    pub fn claim(&mut self, offset: u64, bytes: u64, from: Option<ExtentId>) -> Option<Chunk> {
        let (start, units) = (self.units_of(offset)?, self.units_of(bytes)?);
        let end = start.checked_add(units).filter(|_| units > 0)?;
        let first = self.find_from(start, from)?;
        self.is_free_until(first, end).then_some(())?;
        let chunk = self.carve_any(first, start, end)?;
        while self.records.at(chunk).end() < end {
            let next = self.records.at(chunk).next;
            let at = self.records.at(chunk).end();
            self.carve_any(next, at, end)?;
            self.records.absorb_next(chunk);
        }
        Some(self.hand_out(chunk, bytes, 0))
    }

    /// Like [`Tlsf::release_up_to`], but moves the extents to the domain `to`. Does nothing if that is the same
    /// domain.
    pub fn release_to(&mut self, domain: Domain, stamp: u64, to: Domain) -> u64 {
        let mut moved = 0;
        while let Some(oldest) = self.oldest(domain).filter(|_| domain != to) {
            if self.records.order(oldest).stamp > stamp {
                break;
            }
            moved += self.bytes(self.records.at(oldest).units);
            self.unhang(oldest, domain);
            self.merge_into(oldest, to, 0);
        }
        moved
    }

    /// Moves everything that is free in `from` to `to` with stamp 0, which says that it waits for nothing; an extent that
    /// merges with one that waits takes that stamp. Returns the bytes moved. Does nothing if both domains are the same.
    pub fn move_all(&mut self, from: Domain, to: Domain) -> u64 {
        let mut moved = 0;
        if from == to {
            return moved;
        }
        while let Some(bins) = self.bins(from)
            && let Some(bin) = bins.last()
        {
            let index = bins.head(bin);
            moved += self.bytes(self.records.at(index).units);
            self.unhang(index, from);
            self.merge_into(index, to, 0);
        }
        moved
    }

    /// The free extents of a domain, those of the largest bin first.
    pub fn extents_by_size(&self, domain: Domain) -> impl Iterator<Item = Extent> + '_ {
        let mut heads: Vec<u32> = Vec::new();
        if let Some(bins) = self.bins(domain) {
            heads.extend(bins.occupied().map(|bin| bins.head(bin)));
        }
        heads
            .into_iter()
            .rev()
            .flat_map(move |head| self.walk(head, |records, index| records.at(index).bin_next))
    }

    /// The extent that holds the unit `start`.
    fn find_from(&self, start: u32, from: Option<ExtentId>) -> Option<u32> {
        let mut index = match from {
            Some(id) => self.records.resolve(id).map(|_| id.index())?,
            None => {
                let span = self.ranges.iter().rfind(|span| span.offset <= start)?;
                span.head
            }
        };
        while index != NIL {
            let record = self.records.at(index);
            if record.offset > start {
                return None;
            }
            if record.end() > start {
                return Some(index);
            }
            index = record.next;
        }
        None
    }

    fn is_free_until(&self, first: u32, end: u32) -> bool {
        let mut index = first;
        while index != NIL && !self.records.at(index).is_live() {
            if self.records.at(index).end() >= end {
                return true;
            }
            index = self.records.at(index).next;
        }
        false
    }

    /// Cuts what of a free extent lies between `start` and `end` out of it, as [`Tlsf::carve`] does.
    fn carve_any(&mut self, index: u32, start: u32, end: u32) -> Option<u32> {
        let record = self.records.at(index);
        let mut domain = record.domain()?;
        let units = record.end().min(end) - start;
        if self.home_of(domain).is_some() {
            domain = self.open(index, domain);
        }
        Some(self.carve(index, domain, start, units))
    }

    fn units_of(&self, bytes: u64) -> Option<u32> {
        let is_whole = bytes.is_multiple_of(self.unit());
        is_whole.then(|| u32::try_from(bytes / self.unit()).ok())?
    }
}
