//! The books of the memory held from the driver: slabs for blocks of the size classes, regions for exact sizes.
//!
//! # The idea
//! A *region* is one driver allocation. There are two indices over regions: blocks of the size classes are cut out of
//! *slabs* in units of 64 bytes; large requests get whole pages, as many as they need, from regions that were asked of
//! the driver for such requests. Either index finds the best fit over all its regions at once, and what is put back
//! merges with its free neighbours. Depots and magazines sit above: what they hold is cut, as far as the books are
//! concerned, until it is put back here.
//!
//! # Invariants
//! - A span handed out is disjoint from all others that have not been put back.
//! - A region leaves the books only when nothing of it is out.
//! - `held` is the bytes of all regions plus what has been reserved for driver calls under way.
//! - Each range of an index begins at a multiple of a page, as its region does, so that what is aligned in the one is
//!   aligned in the other.
//!
//! Plain data behind the pool's lock; makes no driver call.

use crate::{
    PinnedPoolConfig,
    config::PAGE,
    growth::Growth,
    request::Request,
    span::{RegionId, Span},
};
use piton_driver::HostAllocation;
use piton_suballoc::{ConfigError, Domain, Inconsistency, SizeClass, Tlsf};
use std::{collections::BTreeMap, num::NonZeroUsize};

/// The regions of one kind, and the index of what is free in them.
#[derive(Debug)]
struct Books {
    index: Tlsf,
    /// By where its range starts in the index.
    regions: BTreeMap<u64, HostAllocation>,
    /// For how many rounds nothing of a region has been out, by the same key; none where something is.
    ages: BTreeMap<u64, u32>,
}

/// Everything held from the driver.
#[derive(Debug)]
pub(crate) struct Regions {
    slabs: Books,
    exact: Books,
    held: u64,
}

/// What regions hold, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionUsage {
    pub(crate) held: u64,
    pub(crate) locked: u64,
    /// Cut out of slabs or taken from exact regions.
    pub(crate) cut: u64,
    /// Of slabs: not cut.
    pub(crate) uncut: u64,
    /// Of exact regions: not taken.
    pub(crate) idle: u64,
}

impl Books {
    fn new(unit: u64) -> Result<Self, ConfigError> {
        Ok(Self {
            index: Tlsf::empty(unit)?,
            regions: BTreeMap::new(),
            ages: BTreeMap::new(),
        })
    }

    /// Enters a region. Hands it back if the index has no room for its range.
    fn add(&mut self, allocation: HostAllocation) -> Result<(), (HostAllocation, ConfigError)> {
        // What a driver gives beyond whole pages stays unused.
        let bytes = allocation.bytes as u64 / PAGE * PAGE;
        match self.index.add_range(bytes) {
            Ok(offset) => {
                self.regions.insert(offset, allocation);
                Ok(())
            }
            Err(error) => Err((allocation, error)),
        }
    }

    fn cut(&mut self, request: &Request) -> Option<Span> {
        let (bytes, alignment) = (request.bytes, request.alignment);
        let chunk = self.index.allocate(Domain::SHARED, bytes, alignment)?;
        let (first, region) = self.regions.range(..=chunk.offset).next_back()?;
        self.ages.remove(first);
        let inside = usize::try_from(chunk.offset - first).ok()?;
        Some(Span {
            // It lies inside the region, so the address neither wraps nor becomes zero.
            start: region.start.map_addr(|start| start.saturating_add(inside)),
            bytes: chunk.bytes,
            offset: chunk.offset,
            extent: chunk.id,
            class: request.class,
        })
    }

    fn put_back(&mut self, span: &Span) {
        let freed = self.index.free(span.extent, Domain::SHARED, 0);
        debug_assert_eq!(freed, Ok(()), "a span is put back once");
    }

    /// Where the ranges start of which nothing is out, in order of offset, and their bytes.
    fn unused(&self) -> Vec<(u64, u64)> {
        let ranges = self.index.ranges();
        ranges
            .filter(|range| range.free_in.is_some())
            .map(|range| (range.offset, range.bytes))
            .collect()
    }

    /// A round has passed: the regions of which nothing has been out for `rounds` of them, oldest first.
    fn grow_older(&mut self, rounds: u32) -> Vec<u64> {
        let before = std::mem::take(&mut self.ages);
        for (offset, _) in self.unused() {
            let age = before.get(&offset).copied().unwrap_or(0);
            self.ages.insert(offset, age.saturating_add(1));
        }
        let old = self.ages.iter().filter(|(_, age)| **age >= rounds);
        let mut old: Vec<(u64, u32)> = old.map(|(offset, age)| (*offset, *age)).collect();
        old.sort_by_key(|(_, age)| std::cmp::Reverse(*age));
        old.into_iter().map(|(offset, _)| offset).collect()
    }

    fn remove(&mut self, offset: u64) -> Option<HostAllocation> {
        self.index.remove_range(offset, Domain::SHARED).ok()?;
        self.ages.remove(&offset);
        self.regions.remove(&offset)
    }

    fn bytes_at(&self, offset: u64) -> u64 {
        self.regions.get(&offset).map_or(0, bytes_of)
    }

    fn taken(&self) -> u64 {
        let usage = self.index.usage();
        usage.live + usage.padding
    }

    fn bytes(&self) -> u64 {
        self.regions.values().map(bytes_of).sum()
    }

    fn locked(&self) -> u64 {
        let locked = self.regions.values().filter(|region| region.is_locked);
        locked.map(bytes_of).sum()
    }

    /// The region a span lies in, as the key of `regions`.
    fn region_at(&self, offset: u64) -> Option<u64> {
        let (first, _) = self.regions.range(..=offset).next_back()?;
        Some(*first)
    }
}

impl Regions {
    /// No regions.
    pub(crate) fn new() -> Result<Self, ConfigError> {
        Ok(Self {
            slabs: Books::new(SizeClass::GRAIN)?,
            exact: Books::new(PAGE)?,
            held: 0,
        })
    }

    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn usage(&self) -> RegionUsage {
        let (slabs, exact) = (self.slabs.taken(), self.exact.taken());
        RegionUsage {
            held: self.held,
            locked: self.slabs.locked() + self.exact.locked(),
            cut: slabs + exact,
            uncut: self.slabs.bytes() - slabs,
            idle: self.exact.bytes() - exact,
        }
    }

    /// Bytes of slabs that are not cut.
    pub(crate) fn uncut(&self) -> u64 {
        self.slabs.index.domain_usage(Domain::SHARED).bytes
    }

    /// Sets aside room under `cap` for a driver call; its bytes, or `None` if there is too little.
    pub(crate) fn reserve(&mut self, growth: Growth, cap: u64) -> Option<u64> {
        let bytes = growth.within(cap.saturating_sub(self.held))?;
        self.held += bytes;
        Some(bytes)
    }

    /// Undoes [`reserve`](Self::reserve): the driver call failed.
    pub(crate) fn unreserve(&mut self, bytes: u64) {
        self.held -= bytes;
    }

    /// Enters the memory that a reservation of `reserved` bytes has brought. Hands it back if the books are full.
    pub(crate) fn add(
        &mut self,
        allocation: HostAllocation,
        reserved: u64,
        class: Option<SizeClass>,
    ) -> Result<(), (HostAllocation, ConfigError)> {
        let bytes = bytes_of(&allocation);
        self.held -= reserved;
        self.of(class).add(allocation)?;
        self.held += bytes;
        Ok(())
    }

    /// Takes memory for a request, the best fit there is.
    pub(crate) fn take(&mut self, request: &Request) -> Option<Span> {
        self.of(request.class).cut(request)
    }

    /// Puts a span back.
    pub(crate) fn put_back(&mut self, span: &Span) {
        self.of(span.class).put_back(span);
    }

    /// Removes regions of which nothing is out until `held` is at most `keep`: the largest exact ones first, then slabs
    /// from the last range on. They are the caller's to give back.
    pub(crate) fn remove_unused(&mut self, keep: u64) -> Vec<HostAllocation> {
        let mut exact = self.exact.unused();
        exact.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let mut removed = Vec::new();
        for (offset, _) in exact {
            if self.held > keep {
                let region = self.exact.remove(offset);
                removed.extend(self.let_go(region));
            }
        }
        for (offset, _) in self.slabs.unused().into_iter().rev() {
            if self.held > keep {
                let region = self.slabs.remove(offset);
                removed.extend(self.let_go(region));
            }
        }
        removed
    }

    /// Removes exact regions of which nothing is out, largest first, until they are `bytes` bytes; none if all of them
    /// are less. They are the caller's to give back.
    pub(crate) fn remove_exact(&mut self, bytes: u64) -> Vec<HostAllocation> {
        let mut unused = self.exact.unused();
        if unused.iter().map(|(_, bytes)| bytes).sum::<u64>() < bytes {
            return Vec::new();
        }
        unused.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let (mut removed, mut freed) = (Vec::new(), 0);
        for (offset, region_bytes) in unused {
            if freed >= bytes {
                break;
            }
            freed += region_bytes;
            let region = self.exact.remove(offset);
            removed.extend(self.let_go(region));
        }
        removed
    }

    /// Ends a round: removes regions of which nothing has been out for as many rounds as configured, oldest first, as far
    /// as what is to be kept and what is to be ready stays. They are the caller's to give back.
    pub(crate) fn remove_old(&mut self, config: &PinnedPoolConfig) -> Vec<HostAllocation> {
        let mut removed = Vec::new();
        for offset in self.exact.grow_older(config.decay_rounds) {
            if self.may_go(self.exact.bytes_at(offset), config) {
                let region = self.exact.remove(offset);
                removed.extend(self.let_go(region));
            }
        }
        for offset in self.slabs.grow_older(config.decay_rounds) {
            let bytes = self.slabs.bytes_at(offset);
            let is_ready = self.uncut().saturating_sub(bytes) >= config.ahead_bytes;
            if is_ready && self.may_go(bytes, config) {
                let region = self.slabs.remove(offset);
                removed.extend(self.let_go(region));
            }
        }
        removed
    }

    fn may_go(&self, bytes: u64, config: &PinnedPoolConfig) -> bool {
        self.held.saturating_sub(bytes) >= config.keep_bytes
    }

    /// The region a span lies in.
    pub(crate) fn region_of(&self, span: &Span) -> Option<RegionId> {
        let books = match span.class {
            Some(_) => &self.slabs,
            None => &self.exact,
        };
        Some(RegionId {
            is_slab: span.class.is_some(),
            offset: books.region_at(span.offset)?,
        })
    }

    /// Takes everything out of the books.
    pub(crate) fn drain(&mut self) -> Vec<(RegionId, HostAllocation)> {
        self.held = 0;
        let mut all = Vec::new();
        for (is_slab, books) in [(true, &mut self.slabs), (false, &mut self.exact)] {
            let regions = std::mem::take(&mut books.regions).into_iter();
            all.extend(regions.map(|(offset, region)| (RegionId { is_slab, offset }, region)));
        }
        all
    }

    /// Walks the books of both kinds.
    pub(crate) fn check(&self) -> Result<(), Inconsistency> {
        self.slabs.index.check()?;
        self.exact.index.check()
    }

    fn let_go(&mut self, region: Option<HostAllocation>) -> Option<HostAllocation> {
        let region = region?;
        self.held -= bytes_of(&region);
        Some(region)
    }

    fn of(&mut self, class: Option<SizeClass>) -> &mut Books {
        match class {
            Some(_) => &mut self.slabs,
            None => &mut self.exact,
        }
    }
}

fn bytes_of(region: &HostAllocation) -> u64 {
    region.bytes as u64
}

/// The last address of a span, for whoever compares spans.
pub(crate) fn end_of(span: &Span) -> Option<NonZeroUsize> {
    span.start
        .addr()
        .checked_add(usize::try_from(span.bytes).ok()?)
}
