//! The books of the memory held from the driver: slabs that are cut into blocks, and regions that are one block.
//!
//! # The idea
//! A *region* is one driver allocation. A *slab* is a region with an index of extents: blocks of the size classes
//! are cut out of it, and what is put back merges with its free neighbours. A large request has a region of its own
//! that is *idle* between uses. Free lists sit above: what they hold is cut, as far as the books are concerned,
//! until it is put back here.
//!
//! # Invariants
//! - A span handed out is disjoint from all others that have not been put back.
//! - A region leaves the books only when nothing of it is out.
//! - `held` is the bytes of all regions plus what has been reserved for driver calls under way.
//!
//! Plain data behind the pool's lock; makes no driver call.

use crate::{
    request::Request,
    span::{RegionId, Span},
};
use piton_driver::HostAllocation;
use piton_suballoc::{Domain, SizeClass, Tlsf};
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

/// A driver allocation, and what is known of it.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) allocation: HostAllocation,
    /// The books of a slab; none for a region that is one block.
    pub(crate) extents: Option<Tlsf>,
}

impl Region {
    pub(crate) fn bytes(&self) -> u64 {
        self.allocation.bytes as u64
    }
}

/// Everything held from the driver.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    regions: BTreeMap<RegionId, Region>,
    /// Regions of one block that nobody uses, by size.
    idle: BTreeSet<(u64, RegionId)>,
    next: u64,
    held: u64,
}

impl Regions {
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        self.regions.iter().map(|(id, region)| (*id, region))
    }

    /// Bytes of regions of one block that nobody uses.
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.idle.iter().map(|(bytes, _)| bytes).sum()
    }

    pub(crate) fn is_idle(&self, id: RegionId) -> bool {
        let region = self.regions.get(&id);
        region.is_some_and(|region| self.idle.contains(&(region.bytes(), id)))
    }

    /// Sets aside room under `cap` for a driver call; its bytes, or `None` if there is too little.
    pub(crate) fn reserve(&mut self, request: &Request, slab_bytes: u64, cap: u64) -> Option<u64> {
        let bytes = request.driver_bytes(slab_bytes, cap.saturating_sub(self.held))?;
        self.held += bytes;
        Some(bytes)
    }

    /// Undoes [`reserve`](Self::reserve): the driver call failed.
    pub(crate) fn unreserve(&mut self, bytes: u64) {
        self.held -= bytes;
    }

    /// Enters the memory that a reservation of `reserved` bytes has brought, and takes the request out of it.
    pub(crate) fn add(
        &mut self,
        allocation: HostAllocation,
        reserved: u64,
        request: &Request,
    ) -> Option<Span> {
        let id = RegionId(self.next);
        self.next += 1;
        let bytes = allocation.bytes as u64;
        self.held = self.held - reserved + bytes;
        let whole = whole_span(id, &allocation);
        let extents = request.class.and_then(|_| extents(bytes));
        let is_slab = extents.is_some();
        let region = Region {
            allocation,
            extents,
        };
        self.regions.insert(id, region);
        if is_slab {
            self.cut(request)
        } else {
            Some(whole)
        }
    }

    /// Takes memory for a request: a cut of a slab, or an idle region of about its size.
    pub(crate) fn take(&mut self, request: &Request) -> Option<Span> {
        match request.class {
            Some(_) => self.cut(request),
            None => self.take_idle(request),
        }
    }

    /// Puts a span back.
    pub(crate) fn put_back(&mut self, span: Span) {
        let Some(region) = self.regions.get_mut(&span.region) else {
            return;
        };
        match (&mut region.extents, span.extent) {
            (Some(extents), Some(extent)) => {
                let freed = extents.free(extent, Domain::SHARED, 0);
                debug_assert_eq!(freed, Ok(()), "a span is put back once");
            }
            _ => {
                self.idle.insert((span.bytes, span.region));
            }
        }
    }

    /// Removes regions of which nothing is out until `held` is at most `keep`: the largest idle ones first, then slabs
    /// from the newest on. They are the caller's to give back.
    pub(crate) fn remove_unused(&mut self, keep: u64) -> Vec<HostAllocation> {
        let idle = self.idle.iter().rev().map(|(_, id)| *id);
        let slabs = self.regions.iter().rev();
        let slabs = slabs
            .filter(|(_, region)| region.extents.as_ref().is_some_and(Tlsf::is_unused))
            .map(|(id, _)| *id);
        let candidates: Vec<RegionId> = idle.chain(slabs).collect();
        let mut removed = Vec::new();
        for id in candidates {
            if self.held <= keep {
                break;
            }
            removed.extend(self.remove(id));
        }
        removed
    }

    /// Takes everything out of the books.
    pub(crate) fn drain(&mut self) -> BTreeMap<RegionId, Region> {
        self.idle.clear();
        self.held = 0;
        std::mem::take(&mut self.regions)
    }

    fn remove(&mut self, id: RegionId) -> Option<HostAllocation> {
        let region = self.regions.remove(&id)?;
        self.idle.remove(&(region.bytes(), id));
        self.held -= region.bytes();
        Some(region.allocation)
    }

    fn cut(&mut self, request: &Request) -> Option<Span> {
        self.regions.iter_mut().find_map(|(id, region)| {
            let extents = region.extents.as_mut()?;
            let chunk = extents.allocate(Domain::SHARED, request.bytes, request.alignment)?;
            let offset = usize::try_from(chunk.offset).ok()?;
            let start = region.allocation.start;
            Some(Span {
                // The offset lies inside the region, so the address neither wraps nor becomes zero.
                start: start.map_addr(|address| address.saturating_add(offset)),
                bytes: chunk.bytes,
                region: *id,
                extent: Some(chunk.id),
            })
        })
    }

    fn take_idle(&mut self, request: &Request) -> Option<Span> {
        let (bytes, id) = *self.idle.range((request.bytes, RegionId(0))..).next()?;
        let region = self.regions.get(&id)?;
        if !request.is_served_by(&region.allocation) {
            return None;
        }
        self.idle.remove(&(bytes, id));
        Some(whole_span(id, &region.allocation))
    }
}

fn whole_span(region: RegionId, allocation: &HostAllocation) -> Span {
    Span {
        start: allocation.start,
        bytes: allocation.bytes as u64,
        region,
        extent: None,
    }
}

/// Books for a slab of `bytes` bytes. What a driver gives beyond a multiple of the grain stays unused.
fn extents(bytes: u64) -> Option<Tlsf> {
    let capacity = bytes / SizeClass::GRAIN * SizeClass::GRAIN;
    Tlsf::new(capacity, SizeClass::GRAIN).ok()
}

/// The last address of a span, for whoever compares spans.
pub(crate) fn end_of(span: &Span) -> Option<NonZeroUsize> {
    span.start
        .addr()
        .checked_add(usize::try_from(span.bytes).ok()?)
}
