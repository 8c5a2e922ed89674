//! The index: allocate, free, and moving free extents between domains.
//!
//! Each operation is a constant number of steps on records (`records`), bins (`bins`) and, for lanes' domains, the
//! order of stamps (`order`); `search` chooses the extent. This file keeps the invariants that join them:
//!
//! - a free extent hangs in its domain's bin of its size, and in its domain's order unless the domain is shared;
//! - no two neighbouring free extents have the same domain;
//! - `live + padding + free of all domains = capacity`.

mod claim;
mod links;
mod ranges;
mod walk;

use crate::bins::{Bins, TRIES};
use crate::domain::Domain;
use crate::error::{ConfigError, ExtentError};
use crate::extent::{Chunk, Extent, ExtentId};
use crate::records::{NIL, Records};

pub use ranges::Apart;
pub(crate) use ranges::Span;

/// A two-level segregated-fit allocator over one or more ranges of bytes. See the crate's page.
///
/// It is not synchronised; the owner locks it. No method blocks. None allocates, except when the slab of records
/// grows and when a domain gets its first extent. Offsets and sizes are in bytes.
#[derive(Debug)]
pub struct Tlsf {
    pub(crate) records: Records,
    /// By domain index; a domain without entry has never had an extent or was removed.
    pub(crate) domains: Vec<Option<Bins>>,
    /// Bins of removed domains, to be used again.
    spare: Vec<Bins>,
    /// Sorted by offset, without overlap.
    pub(crate) ranges: Vec<Span>,
    /// Units of all ranges.
    pub(crate) units: u32,
    unit_bits: u32,
    /// Bytes of a unit, less one.
    below_unit: u64,
    pub(crate) live_chunks: u32,
    /// Bytes asked for by live chunks.
    pub(crate) live_bytes: u64,
    pub(crate) padding_bytes: u64,
    /// Extents of a bin that a search looks at; all bins have it too.
    tries: u32,
    /// Where the walk stands whose place the records keep, in units.
    place_at: u32,
    /// Where ranges hang that are free as a whole, if they have domains of their own. Each extent of those is a range.
    pub(crate) apart: Option<Apart>,
}

/// What the bytes of all ranges are used for; see [`Tlsf::usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all ranges.
    pub capacity: u64,
    /// Bytes that were asked for and are handed out.
    pub live: u64,
    /// Bytes added to live chunks by rounding.
    pub padding: u64,
    /// Chunks handed out.
    pub chunks: u32,
    /// Free bytes of [`Domain::SHARED`].
    pub shared: u64,
    /// Free bytes of all other domains.
    pub reserved: u64,
}

/// What a domain holds; see [`Tlsf::domain_usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainUsage {
    /// Free bytes.
    pub bytes: u64,
    /// Free extents.
    pub extents: u32,
    /// Stamp of the extents that would be released first; 0 for [`Domain::SHARED`] and where nothing is free.
    pub oldest: u64,
    /// Largest stamp in the domain; 0 for [`Domain::SHARED`] and where nothing is free.
    pub newest: u64,
}

impl Tlsf {
    /// The most units that all ranges together may span.
    pub const MAX_UNITS: u32 = u32::MAX - 2;

    /// Makes an index of one range of `capacity` bytes in units of `unit` bytes. All of it is one free extent of
    /// [`Domain::SHARED`].
    ///
    /// # Errors
    /// Any [`ConfigError`]: `unit` is not a power of two, `capacity` is not a positive whole number of units, or has
    /// more than [`Tlsf::MAX_UNITS`] of them.
    pub fn new(capacity: u64, unit: u64) -> Result<Self, ConfigError> {
        let mut index = Self::empty(unit)?;
        index.add_range(capacity)?;
        Ok(index)
    }

    /// Makes an index without memory; [`Tlsf::add_range`] adds some.
    ///
    /// # Errors
    /// [`ConfigError::UnitNotPowerOfTwo`].
    pub fn empty(unit: u64) -> Result<Self, ConfigError> {
        if !unit.is_power_of_two() || unit > u64::from(u32::MAX) {
            return Err(ConfigError::UnitNotPowerOfTwo { unit });
        }
        Ok(Self {
            records: Records::new(),
            domains: Vec::new(),
            spare: Vec::new(),
            ranges: Vec::new(),
            units: 0,
            unit_bits: unit.ilog2(),
            below_unit: unit - 1,
            live_chunks: 0,
            live_bytes: 0,
            padding_bytes: 0,
            tries: TRIES,
            place_at: 0,
            apart: None,
        })
    }

    /// Sets how many extents of a bin a search looks at before it takes the best of them: 8 at first, and at least
    /// one. All extents of a bin have nearly the same size.
    ///
    /// With one, a search takes the youngest that fits, as the plain form of this algorithm does. With `u32::MAX` it
    /// takes the best of all, and costs a step for each free extent of about that size.
    pub fn look_at(&mut self, tries: u32) {
        self.tries = tries.max(1);
        let bins = self.domains.iter_mut().flatten().chain(&mut self.spare);
        bins.for_each(|bins| bins.tries = self.tries);
    }

    /// Allocates `bytes` bytes, starting at a multiple of `align`, from the free extents of `domain`.
    ///
    /// What is left of the extent stays in the domain, with the extent's stamp. `None` if no extent of the domain
    /// fits, or if `align` is not a power of two. Zero bytes count as one unit.
    #[inline]
    pub fn allocate(&mut self, domain: Domain, bytes: u64, align: u64) -> Option<Chunk> {
        let fit = self.fit(bytes, align)?;
        let (index, stamp) = self.take_best(domain, fit)?;
        Some(self.hand_out(index, bytes, stamp))
    }

    /// [`Tlsf::allocate`] from the first of two domains that has a fit.
    // In place: a chunk that is written in parts and read as a whole costs a stall.
    #[inline(always)]
    pub fn allocate_from(&mut self, domains: [Domain; 2], bytes: u64, align: u64) -> Option<Chunk> {
        let fit = self.fit(bytes, align)?;
        let [first, second] = domains;
        let (index, stamp) = match self.take_best(first, fit) {
            Some(found) => found,
            None => self.take_best(second, fit)?,
        };
        Some(self.hand_out(index, bytes, stamp))
    }

    /// The extent that [`Tlsf::allocate`] would take from, without taking it.
    #[must_use]
    pub fn peek(&self, domain: Domain, bytes: u64, align: u64) -> Option<Extent> {
        let fit = self.fit(bytes, align)?;
        let (index, _) = fit.find(self.bins(domain)?, &self.records)?;
        Some(self.extent(index))
    }

    /// Frees a chunk into `domain`, where it coalesces at once with its free neighbours of that domain.
    ///
    /// `stamp` is for [`Tlsf::release_up_to`]. The merged extent carries the largest stamp of its parts, and never
    /// less than any other extent of the domain. So a stamp may be raised and is never lowered. Stamp 0 waits for
    /// nothing: it is raised by merging alone. The stamp is ignored for [`Domain::SHARED`].
    ///
    /// # Errors
    /// [`ExtentError::NotLive`] if the id names no live chunk; nothing is changed.
    #[inline]
    pub fn free(&mut self, id: ExtentId, domain: Domain, stamp: u64) -> Result<(), ExtentError> {
        let record = self.records.resolve(id).filter(|record| record.is_live());
        let record = record.ok_or(ExtentError::NotLive)?;
        let (units, padding) = (record.units, record.bin_prev);
        self.take_back(units, padding);
        self.merge_into(id.index(), domain, stamp);
        Ok(())
    }

    /// Splits a live chunk: its first part becomes a chunk for a request of `bytes` bytes, and the rest a live chunk
    /// of its own, without padding. Zero bytes keep one unit. The old id goes stale.
    ///
    /// # Errors
    /// [`ExtentError::NotLive`] if the id names no live chunk, [`ExtentError::TooShort`] if the chunk does not hold
    /// `bytes` bytes; nothing is changed.
    pub fn cut(&mut self, id: ExtentId, bytes: u64) -> Result<(Chunk, Option<Chunk>), ExtentError> {
        let record = self.records.resolve(id).filter(|record| record.is_live());
        let (has, padding) = record
            .map(|record| (record.units, record.bin_prev))
            .ok_or(ExtentError::NotLive)?;
        let too_short = ExtentError::TooShort {
            bytes: self.bytes(has),
        };
        let units = self.fit(bytes, 1).map_or(u32::MAX, |fit| fit.units);
        if units > has {
            return Err(too_short);
        }
        self.take_back(has, padding);
        let rest = (units < has).then(|| self.records.split_high(id.index(), units));
        let chunk = self.hand_out(id.index(), bytes, 0);
        let rest = rest.map(|rest| self.hand_out(rest, self.bytes(has - units), 0));
        Ok((chunk, rest))
    }

    /// Moves a free extent from domain `from` to domain `to`, where it coalesces with its free neighbours. It keeps
    /// its stamp.
    ///
    /// # Errors
    /// [`ExtentError::NotFree`] if the id names no free extent of `from`; nothing is changed.
    pub fn move_domain(
        &mut self,
        id: ExtentId,
        from: Domain,
        to: Domain,
    ) -> Result<(), ExtentError> {
        let record = self
            .records
            .resolve(id)
            .filter(|record| record.is_free_in(from));
        record.ok_or(ExtentError::NotFree)?;
        let stamp = self.stamp(id.index(), from);
        self.unhang(id.index(), from);
        self.merge_into(id.index(), to, stamp);
        Ok(())
    }

    /// Moves every extent of `domain` whose stamp is at most `stamp` to [`Domain::SHARED`]. Returns the bytes moved.
    ///
    /// Looks at what it moves and at one extent more. Does nothing for [`Domain::SHARED`] itself.
    pub fn release_up_to(&mut self, domain: Domain, stamp: u64) -> u64 {
        self.release_to(domain, stamp, Domain::SHARED)
    }

    /// Removes a domain that has nothing free, so that another can use its bins. Unknown domains are accepted.
    ///
    /// # Errors
    /// [`ExtentError::DomainNotEmpty`] with the bytes still free; nothing is changed.
    pub fn remove_domain(&mut self, domain: Domain) -> Result<(), ExtentError> {
        let bytes = self.domain_usage(domain).bytes;
        if bytes > 0 {
            return Err(ExtentError::DomainNotEmpty { bytes });
        }
        if let Some(slot) = self.domains.get_mut(domain.index() as usize) {
            self.spare.extend(slot.take());
        }
        Ok(())
    }

    /// Bytes of all ranges.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.bytes(self.units)
    }

    /// Bytes of a unit.
    #[must_use]
    pub fn unit(&self) -> u64 {
        1 << self.unit_bits
    }

    /// Whether no chunk is handed out.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.live_chunks == 0
    }

    /// Whether everything is free in [`Domain::SHARED`]: nothing is live, and no other domain has anything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.domain_usage(Domain::SHARED).bytes == self.capacity()
    }

    /// What the bytes of all ranges are used for. Costs a step per domain.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let free: u64 = self
            .domains
            .iter()
            .flatten()
            .map(|bins| u64::from(bins.free_units))
            .sum();
        let shared = self.domain_usage(Domain::SHARED).bytes;
        Usage {
            capacity: self.capacity(),
            live: self.live_bytes,
            padding: self.padding_bytes,
            chunks: self.live_chunks,
            shared,
            reserved: (free << self.unit_bits) - shared,
        }
    }

    /// What is free in a domain.
    #[must_use]
    pub fn domain_usage(&self, domain: Domain) -> DomainUsage {
        let Some(bins) = self.bins(domain) else {
            return DomainUsage::default();
        };
        let stamp = |index: u32| match index {
            NIL => 0,
            index => self.records.order(index).stamp,
        };
        DomainUsage {
            bytes: self.bytes(bins.free_units),
            extents: bins.extents,
            oldest: stamp(bins.oldest),
            newest: stamp(bins.newest),
        }
    }

    /// Stamp of the extents of a domain that would be released first, as in [`Tlsf::domain_usage`]. `None` where
    /// nothing is free, and for [`Domain::SHARED`].
    #[inline]
    #[must_use]
    pub fn oldest_stamp(&self, domain: Domain) -> Option<u64> {
        self.oldest(domain)
            .map(|index| self.records.order(index).stamp)
    }

    /// Bytes of the largest free extent of a domain, 0 if it has none. Looks through one bin.
    #[must_use]
    pub fn largest_free(&self, domain: Domain) -> u64 {
        let largest = self.largest(domain);
        largest.map_or(0, |index| self.bytes(self.records.at(index).units))
    }

    /// The smallest free extent of a domain that has at least `bytes` bytes, or the largest if none has; the lowest
    /// among equals. Looks through two bins at most, to their ends.
    #[must_use]
    pub fn nearest(&self, domain: Domain, bytes: u64) -> Option<Extent> {
        let enough = self.fit(bytes, 1).and_then(|fit| {
            let bins = self.bins(domain)?;
            fit.find_smallest(bins, &self.records)
        });
        let nearest = enough.or_else(|| self.largest(domain));
        nearest.map(|index| self.extent(index))
    }

    /// The largest free extent of a domain, the lowest among equals.
    fn largest(&self, domain: Domain) -> Option<u32> {
        let bins = self.bins(domain)?;
        let mut best: Option<(u32, u32, u32)> = None;
        let mut index = bins.head(bins.last()?);
        while index != NIL {
            let record = self.records.at(index);
            let found = (record.units, !record.offset, index);
            best = best.max(Some(found));
            index = record.bin_next;
        }
        best.map(|(_, _, index)| index)
    }

    /// Every extent, in order of offset.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.ranges
            .iter()
            .flat_map(|span| self.walk(span.head, |records, index| records.at(index).next))
    }

    /// The free extents of a domain in order of stamp, oldest first. Empty for [`Domain::SHARED`], which has no such
    /// order: see [`Tlsf::extents`].
    pub fn extents_by_stamp(&self, domain: Domain) -> impl Iterator<Item = Extent> + '_ {
        let oldest = self.oldest(domain).unwrap_or(NIL);
        self.walk(oldest, |records, index| records.order(index).next)
    }

    /// The domains that have something free.
    pub fn domains(&self) -> impl Iterator<Item = Domain> + '_ {
        let occupied = |bins: &Option<Bins>| bins.as_ref().is_some_and(|bins| bins.extents > 0);
        (0u32..)
            .zip(&self.domains)
            .filter(move |(_, bins)| occupied(bins))
            .map(|(index, _)| Domain::from_index(index))
    }
}
