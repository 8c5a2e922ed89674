//! Which mappings can go with suspended allocations, which pages those miss, and what becomes of them when they are discarded.

use std::collections::BTreeSet;

use piton_suballoc::{Extent, ExtentState};

use super::{Filling, Suspended};
use crate::allocation::Allocation;
use crate::books::Books;
use crate::placement::virtual_range::table::Mapping;
use crate::region::Region;
use crate::reuse::Disposal;

impl Books {
    /// Claims what is free of the mappings that can go; returns those, neighbours together, as first page and pages.
    pub(super) fn set_apart(&mut self, page: u64, suspended: &mut Suspended) -> Vec<(u64, u64)> {
        let extents = suspended.allocations.iter();
        let extents: Vec<Extent> = extents
            .filter_map(|allocation| self.index.extent_of(allocation.id))
            .collect();
        let offsets: BTreeSet<u64> = extents.iter().map(|extent| extent.offset).collect();
        let mut seen = BTreeSet::new();
        let mut going = Vec::new();
        for extent in &extents {
            let mut at = extent.offset / page;
            while at * page < extent.offset + extent.bytes {
                let Some(mapping) = self.pages.at(at).copied() else {
                    at += 1;
                    continue;
                };
                at = mapping.first + mapping.pages;
                if !seen.insert(mapping.first) {
                    continue;
                }
                if let Some(free) = self.free_parts(page, &mapping, extent, &offsets) {
                    self.claim_parts(&free, suspended);
                    going.push((mapping.first, mapping.pages));
                }
            }
        }
        going.sort_unstable();
        self.joined(page, &going)
    }

    /// The free parts of a mapping that has a byte of this extent: where, how many bytes, in which extent. `None` if
    /// any byte of it is somebody else's.
    fn free_parts(
        &self,
        page: u64,
        mapping: &Mapping,
        extent: &Extent,
        offsets: &BTreeSet<u64>,
    ) -> Option<Vec<(u64, u64, Extent)>> {
        let (start, end) = (mapping.first * page, (mapping.first + mapping.pages) * page);
        let mut at = *extent;
        while at.offset > start {
            at = self.index.below(at.id)?;
        }
        let mut free = Vec::new();
        loop {
            match at.state {
                ExtentState::Live { .. } if offsets.contains(&at.offset) => {}
                ExtentState::Free { domain, .. } if domain == Region::of(domain).shared() => {
                    let from = at.offset.max(start);
                    let upto = end.min(at.offset + at.bytes);
                    free.push((from, upto - from, at));
                }
                _ => return None,
            }
            if at.offset + at.bytes >= end {
                return Some(free);
            }
            at = self.index.above(at.id)?;
        }
    }

    fn claim_parts(&mut self, free: &[(u64, u64, Extent)], suspended: &mut Suspended) {
        for (start, bytes, extent) in free {
            let ExtentState::Free { domain, .. } = extent.state else {
                continue;
            };
            if let Some(chunk) = self.index.claim(*start, *bytes, Some(extent.id)) {
                self.suspended.fillings += 1;
                self.suspended.backed += bytes;
                let region = Region::of(domain);
                suspended.fillings.push(Filling { chunk, region });
            }
        }
    }

    /// Neighbouring stretches of pages of one range of addresses as one.
    fn joined(&self, page: u64, stretches: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for &(first, pages) in stretches {
            match joined.last_mut() {
                Some(last)
                    if last.0 + last.1 == first
                        && self.blocks.end_of(last.0 * page) != Some(first * page) =>
                {
                    last.1 += pages;
                }
                _ => joined.push((first, pages)),
            }
        }
        joined
    }

    /// Pages that suspended memory misses.
    pub(super) fn missing_pages(&self, page: u64, suspended: &Suspended) -> Vec<(u64, u64)> {
        let of_allocations = suspended.allocations.iter().filter_map(|allocation| {
            let extent = self.index.extent_of(allocation.id)?;
            Some((extent.offset, extent.bytes))
        });
        let of_fillings = suspended.fillings.iter();
        let of_fillings = of_fillings.map(|filling| (filling.chunk.offset, filling.chunk.bytes));
        let memory = of_allocations.chain(of_fillings);
        let stretches = memory.flat_map(|(offset, bytes)| self.pages.stretches(offset, bytes));
        let hollow = stretches.filter(|(.., is_backed)| !is_backed);
        let pages: BTreeSet<u64> = hollow
            .flat_map(|(start, end, _)| start / page..end.div_ceil(page))
            .collect();
        let pages: Vec<(u64, u64)> = pages.into_iter().map(|first| (first, 1)).collect();
        self.joined(page, &pages)
    }

    /// Bytes of `offset..offset + bytes` without pages.
    pub(crate) fn hollow_in(&self, offset: u64, bytes: u64) -> u64 {
        let stretches = self.pages.stretches(offset, bytes).into_iter();
        let hollow = stretches.filter(|(.., is_backed)| !is_backed);
        hollow.map(|(start, end, _)| end - start).sum()
    }

    pub(super) fn discard(&mut self, allocation: &Allocation) {
        // Live until here, so neither fails.
        let Ok((chunk, _)) = self.index.cut(allocation.id, allocation.rounded_bytes()) else {
            return;
        };
        self.note_freed(allocation);
        self.suspended.live -= self.hollow_in(chunk.offset, chunk.bytes);
        self.give_back_stretches(chunk, allocation.region(), || Disposal::Anyone);
    }
}
