//! The steps that operations are made of: hanging an extent into its domain and taking it out, cutting, merging.

use super::Tlsf;
use crate::bins::Bins;
use crate::domain::Domain;
use crate::extent::{Chunk, Extent, ExtentState};
use crate::order;
use crate::records::{NIL, Records};
use crate::search::Fit;

impl Tlsf {
    /// Makes an extent that hangs nowhere free in `domain`.
    #[inline]
    pub(super) fn hang(&mut self, index: u32, domain: Domain, stamp: u64) {
        self.records.set_free(index, domain);
        let bins = bins_of(&mut self.domains, &mut self.spare, domain);
        bins.insert(&mut self.records, index);
        if !domain.is_shared() {
            order::append(bins, &mut self.records, index, stamp);
        }
    }

    /// Takes a free extent out of its bin and order. Its record still says free until the caller decides.
    #[inline]
    pub(super) fn unhang(&mut self, index: u32, domain: Domain) {
        if let Some(Some(bins)) = self.domains.get_mut(domain.index() as usize) {
            bins.remove(&mut self.records, index);
            if !domain.is_shared() {
                order::remove(bins, &mut self.records, index);
            }
        }
    }

    /// Makes an extent that hangs nowhere free in `domain`, joined with its neighbours there.
    #[inline]
    pub(super) fn merge_into(&mut self, index: u32, domain: Domain, stamp: u64) {
        let mut index = index;
        let mut stamp = stamp;
        let below = self.records.at(index).prev;
        if below != NIL && self.records.at(below).is_free_in(domain) {
            stamp = stamp.max(self.stamp(below, domain));
            self.unhang(below, domain);
            self.records.absorb_next(below);
            index = below;
        }
        let above = self.records.at(index).next;
        if above != NIL && self.records.at(above).is_free_in(domain) {
            stamp = stamp.max(self.stamp(above, domain));
            self.unhang(above, domain);
            self.records.absorb_next(index);
        }
        let domain = self.idle_if_whole(index, domain);
        self.hang(index, domain, stamp);
    }

    /// Where an extent that is free in `domain` hangs: a whole range may have a domain of its own.
    #[inline]
    fn idle_if_whole(&self, index: u32, domain: Domain) -> Domain {
        match self.idle {
            Some(idle) if domain.is_shared() => {
                let record = self.records.at(index);
                let is_whole = record.prev == NIL && record.next == NIL;
                if is_whole { idle } else { domain }
            }
            _ => domain,
        }
    }

    /// Cuts `units` units at `start` out of a free extent; returns their record, which hangs nowhere. What is left of
    /// the extent below and above stays free in its place.
    #[inline]
    pub(super) fn carve(&mut self, index: u32, domain: Domain, start: u32, units: u32) -> u32 {
        let bins = bins_of(&mut self.domains, &mut self.spare, domain);
        bins.remove(&mut self.records, index);
        let whole = *self.records.at(index);
        if whole.end() > start + units {
            let high = self.records.split_high(index, start + units - whole.offset);
            hang_part(bins, &mut self.records, high, index, domain);
        }
        if start > whole.offset {
            // The old record stays the lower part, and with it its place in the order.
            let middle = self.records.split_high(index, start - whole.offset);
            self.records.set_free(index, domain);
            bins.insert(&mut self.records, index);
            return middle;
        }
        if !domain.is_shared() {
            order::remove(bins, &mut self.records, index);
        }
        index
    }

    /// Makes an extent that hangs nowhere live for a request of `bytes` bytes.
    #[inline]
    pub(super) fn hand_out(&mut self, index: u32, bytes: u64, stamp: u64) -> Chunk {
        let record = self.records.at(index);
        let offset = self.bytes(record.offset);
        let rounded = self.bytes(record.units);
        let padding = rounded - bytes;
        // At most a unit, which fits 32 bits.
        let padding_word = u32::try_from(padding).unwrap_or(u32::MAX);
        self.records.set_live(index, padding_word);
        self.live_chunks += 1;
        self.live_bytes += bytes;
        self.padding_bytes += padding;
        Chunk {
            id: self.records.id(index),
            offset,
            bytes: rounded,
            stamp,
        }
    }

    /// Takes a live extent out of the counters.
    #[inline]
    pub(super) fn take_back(&mut self, units: u32, padding: u32) {
        let padding = u64::from(padding);
        self.live_chunks -= 1;
        self.padding_bytes -= padding;
        self.live_bytes -= self.bytes(units) - padding;
    }

    /// The request in units, unless it could not fit any range.
    #[inline]
    pub(super) fn fit(&self, bytes: u64, align: u64) -> Option<Fit> {
        if !align.is_power_of_two() {
            return None;
        }
        let units = bytes.div_ceil(self.unit()).max(1);
        let align = u32::try_from(align.div_ceil(self.unit())).ok()?;
        Some(Fit {
            units: u32::try_from(units).ok()?,
            mask: align - 1,
        })
    }

    #[inline]
    pub(super) fn bytes(&self, units: u32) -> u64 {
        u64::from(units) << self.unit_bits
    }

    #[inline]
    pub(super) fn bins(&self, domain: Domain) -> Option<&Bins> {
        self.domains.get(domain.index() as usize)?.as_ref()
    }

    /// First in the order of stamps.
    #[inline]
    pub(super) fn oldest(&self, domain: Domain) -> Option<u32> {
        self.bins(domain)
            .map(|bins| bins.oldest)
            .filter(|&index| index != NIL)
    }

    #[inline]
    pub(super) fn stamp(&self, index: u32, domain: Domain) -> u64 {
        if domain.is_shared() {
            0
        } else {
            self.records.order(index).stamp
        }
    }

    pub(super) fn walk(
        &self,
        first: u32,
        next: fn(&Records, u32) -> u32,
    ) -> impl Iterator<Item = Extent> + '_ {
        let mut index = first;
        std::iter::from_fn(move || {
            if index == NIL {
                return None;
            }
            let extent = self.extent(index);
            index = next(&self.records, index);
            Some(extent)
        })
    }

    pub(super) fn extent(&self, index: u32) -> Extent {
        let record = self.records.at(index);
        Extent {
            id: self.records.id(index),
            offset: self.bytes(record.offset),
            bytes: self.bytes(record.units),
            state: match record.domain() {
                None => ExtentState::Live {
                    padding: u64::from(record.bin_prev),
                },
                Some(domain) => ExtentState::Free {
                    domain,
                    stamp: self.stamp(index, domain),
                },
            },
        }
    }
}

/// The bins of a domain, made on first need. Takes the parts of a range so that its records stay borrowable.
#[inline]
fn bins_of<'a>(
    domains: &'a mut Vec<Option<Bins>>,
    spare: &mut Vec<Bins>,
    domain: Domain,
) -> &'a mut Bins {
    let index = domain.index() as usize;
    if domains.len() <= index {
        domains.resize_with(index + 1, || None);
    }
    domains[index].get_or_insert_with(|| spare.pop().unwrap_or_else(Bins::new))
}

/// Hangs `part`, just cut off `whole`, which is still in its order.
#[inline]
fn hang_part(bins: &mut Bins, records: &mut Records, part: u32, whole: u32, domain: Domain) {
    records.set_free(part, domain);
    bins.insert(records, part);
    if !domain.is_shared() {
        order::insert_part(bins, records, part, whole);
    }
}
