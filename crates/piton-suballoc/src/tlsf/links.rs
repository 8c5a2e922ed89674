//! The steps that operations are made of: hanging an extent into its domain and taking it out, cutting, merging.

use super::Tlsf;
use crate::bins::{Bin, Bins};
use crate::domain::Domain;
use crate::extent::{Chunk, Extent, ExtentState};
use crate::order;
use crate::records::{NIL, Records};
use crate::search::Fit;

impl Tlsf {
    /// Makes an extent that hangs nowhere free in `domain`.
    #[inline]
    pub(super) fn hang(&mut self, index: u32, domain: Domain, stamp: u64) {
        match self.domains.get_mut(domain.index() as usize) {
            Some(Some(bins)) => hang_in(bins, &mut self.records, index, domain, stamp),
            _ => self.hang_first(index, domain, stamp),
        }
    }

    /// The same for the first extent of a domain.
    #[cold]
    fn hang_first(&mut self, index: u32, domain: Domain, stamp: u64) {
        let bins = bins_of(&mut self.domains, &mut self.spare, domain, self.tries);
        hang_in(bins, &mut self.records, index, domain, stamp);
    }

    /// Takes a free extent out of its bin and order. Its record still says free until the caller decides.
    #[inline(always)]
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
        if self.records.at(below).is_free_in(domain) {
            stamp = stamp.max(self.stamp(below, domain));
            self.unhang(below, domain);
            self.records.absorb_next(below);
            index = below;
        }
        let above = self.records.at(index).next;
        if self.records.at(above).is_free_in(domain) {
            stamp = stamp.max(self.stamp(above, domain));
            self.unhang(above, domain);
            self.records.absorb_next(index);
        }
        let domain = self.apart_if_whole(index, domain);
        self.hang(index, domain, stamp);
    }

    /// Where an extent that is free in `domain` hangs: a whole range may have a domain of its own.
    #[inline]
    fn apart_if_whole(&self, index: u32, domain: Domain) -> Domain {
        let record = self.records.at(index);
        if record.prev != NIL || record.next != NIL {
            return domain;
        }
        self.apart_from(domain).unwrap_or(domain)
    }

    /// Takes a request out of the best fit in a domain; returns its record, which hangs nowhere, and the stamp it had.
    #[inline(always)]
    pub(super) fn take_best(&mut self, domain: Domain, fit: Fit) -> Option<(u32, u64)> {
        let bins = self.domains.get_mut(domain.index() as usize)?.as_mut()?;
        let (index, stamp) = if fit.mask == 0 {
            take_low(bins, &mut self.records, domain, fit.units)
        } else {
            take_aligned(bins, &mut self.records, domain, fit)
        };
        (index != NIL).then_some((index, stamp))
    }

    /// Cuts `units` units at `start` out of a free extent; returns their record, which hangs nowhere. What is left of
    /// the extent below and above stays free in its place.
    pub(super) fn carve(&mut self, index: u32, domain: Domain, start: u32, units: u32) -> u32 {
        let bins = bins_of(&mut self.domains, &mut self.spare, domain, self.tries);
        cut_out(bins, &mut self.records, index, domain, start, units)
    }

    /// Makes an extent that hangs nowhere live for a request of `bytes` bytes.
    #[inline(always)]
    pub(super) fn hand_out(&mut self, index: u32, bytes: u64, stamp: u64) -> Chunk {
        let record = self.records.at(index);
        let offset = self.bytes(record.offset);
        let rounded = self.bytes(record.units);
        let padding = rounded - bytes;
        // At most a unit, which fits 32 bits.
        let padding_word = u32::try_from(padding).unwrap_or(u32::MAX);
        let id = self.records.set_live(index, padding_word);
        self.live_chunks += 1;
        self.live_bytes += bytes;
        self.padding_bytes += padding;
        Chunk {
            id,
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
        let units = bytes.checked_add(self.below_unit)? >> self.unit_bits;
        let units = u32::try_from(units).ok()?.max(1);
        // Any alignment at all is what most ask for.
        if align == 1 {
            return Some(Fit { units, mask: 0 });
        }
        if !align.is_power_of_two() {
            return None;
        }
        let mask = (align - 1) >> self.unit_bits;
        Some(Fit {
            units,
            mask: u32::try_from(mask).ok()?,
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
        self.records.stamp(index, domain)
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

/// What [`Tlsf::hang`] does, in the bins of the domain.
#[inline(always)]
fn hang_in(bins: &mut Bins, records: &mut Records, index: u32, domain: Domain, stamp: u64) {
    records.set_free(index, domain);
    let units = records.at(index).units;
    bins.insert(records, index, units);
    if !domain.is_shared() {
        order::insert(bins, records, index, stamp);
    }
}

/// The bins of a domain, made on first need. Takes the parts of a range so that its records stay borrowable.
#[inline]
fn bins_of<'a>(
    domains: &'a mut Vec<Option<Bins>>,
    spare: &mut Vec<Bins>,
    domain: Domain,
    tries: u32,
) -> &'a mut Bins {
    let index = domain.index() as usize;
    if domains.len() <= index {
        domains.resize_with(index + 1, || None);
    }
    domains[index].get_or_insert_with(|| spare.pop().unwrap_or_else(|| Bins::new(tries)))
}

/// Takes `units` units out of the best fit of a domain, wherever that starts; returns their record, which hangs nowhere, and
/// the stamp they had. What is left of the extent stays free in its place. `NIL` if nothing fits.
// All of it in one function, since its steps share most of what they look at; and no `Option`, which two registers do not hold.
#[inline(never)]
fn take_low(bins: &mut Bins, records: &mut Records, domain: Domain, units: u32) -> (u32, u64) {
    let Some((index, bin)) = (Fit { units, mask: 0 }).find(bins, records) else {
        return (NIL, 0);
    };
    let stamp = records.stamp(index, domain);
    let whole = records.at(index);
    let rest = whole.units - units;
    if whole.prev == NIL && rest > 0 {
        // The first of a range stays the first.
        let start = whole.offset;
        return (cut_out(bins, records, index, domain, start, units), stamp);
    }
    bins.unlink(records, index, bin);
    bins.free_units -= units;
    if rest > 0 {
        let low = records.split_low(index, units);
        bins.link(records, index, Bin::of(rest));
        return (low, stamp);
    }
    bins.extents -= 1;
    if !domain.is_shared() {
        order::remove(bins, records, index);
    }
    (index, stamp)
}

/// The same at a multiple of the request's alignment.
#[inline(never)]
fn take_aligned(bins: &mut Bins, records: &mut Records, domain: Domain, fit: Fit) -> (u32, u64) {
    let found = fit.find(bins, records);
    let found = found.and_then(|(index, _)| Some((index, fit.start_in(records.at(index))?)));
    let Some((index, start)) = found else {
        return (NIL, 0);
    };
    let stamp = records.stamp(index, domain);
    let index = cut_out(bins, records, index, domain, start, fit.units);
    (index, stamp)
}

/// What [`Tlsf::carve`] does, in the bins of the domain.
fn cut_out(
    bins: &mut Bins,
    records: &mut Records,
    index: u32,
    domain: Domain,
    start: u32,
    units: u32,
) -> u32 {
    let whole = records.at(index);
    let (below, above) = (start - whole.offset, whole.end() - (start + units));
    if below > 0 {
        return cut_out_middle(bins, records, index, domain, (below, above));
    }
    bins.remove(records, index);
    if above > 0 {
        let high = records.split_high(index, units);
        records.set_free(high, domain);
        bins.insert(records, high, above);
        if !domain.is_shared() {
            order::replace(bins, records, high, index);
        }
    } else if !domain.is_shared() {
        order::remove(bins, records, index);
    }
    index
}

/// The same where `below` units stay below and `above` above.
#[cold]
fn cut_out_middle(
    bins: &mut Bins,
    records: &mut Records,
    index: u32,
    domain: Domain,
    (below, above): (u32, u32),
) -> u32 {
    bins.remove(records, index);
    if above > 0 {
        let units = records.at(index).units;
        let high = records.split_high(index, units - above);
        records.set_free(high, domain);
        bins.insert(records, high, above);
        if !domain.is_shared() {
            order::insert_part(bins, records, high, index);
        }
    }
    // The old record stays the lower part, and with it its place in the order.
    let middle = records.split_high(index, below);
    records.set_free(index, domain);
    bins.insert(records, index, below);
    middle
}
