//! Ranges that come and go: where they lie among the offsets, adding one, taking one away.
//!
//! Offsets are names, not memory: a new range takes the lowest gap in which it fits. Two ranges may touch; their
//! records are not linked, so no extent reaches across. Ranges are few, and adding or removing one costs a step each.

use super::Tlsf;
use crate::domain::Domain;
use crate::error::{ConfigError, ExtentError};
use crate::extent::{Chunk, ExtentId, Range};

/// Which domains hold wholly free ranges; see [`Tlsf::set_whole_ranges_apart`].
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// The domain to which a range moves that becomes wholly free in the given one; `None` if it stays there.
    pub of: fn(Domain) -> Option<Domain>,
    /// The inverse: the domain of what is left of a range that is broken into. `None` for the usual domains.
    pub home: fn(Domain) -> Option<Domain>,
}

/// One range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Start, in units.
    pub(crate) offset: u32,
    /// Length, in units.
    pub(crate) units: u32,
    /// Record of the extent at its start: the same for as long as the range exists.
    pub(crate) head: u32,
}

impl Span {
    pub(super) const fn end(&self) -> u32 {
        self.offset + self.units
    }
}

impl Tlsf {
    /// Adds a range of `bytes` bytes as one free extent of [`Domain::SHARED`]; returns where it starts, in bytes.
    ///
    /// # Errors
    /// [`ConfigError::CapacityNotWholeUnits`], or [`ConfigError::TooManyUnits`] when no gap among the offsets holds
    /// it; nothing is changed.
    pub fn add_range(&mut self, bytes: u64) -> Result<u64, ConfigError> {
        let unit = self.unit();
        if bytes == 0 || !bytes.is_multiple_of(unit) {
            return Err(ConfigError::CapacityNotWholeUnits {
                capacity: bytes,
                unit,
            });
        }
        let units = u32::try_from(bytes / unit).ok();
        let gap = units.and_then(|units| self.lowest_gap(units));
        let Some((units, (at, offset))) = units.zip(gap) else {
            return Err(ConfigError::TooManyUnits {
                units: bytes / unit,
                limit: u64::from(self.largest_gap()),
            });
        };
        let head = self.records.add(offset, units);
        self.ranges.insert(
            at,
            Span {
                offset,
                units,
                head,
            },
        );
        self.units += units;
        self.hang(head, Domain::SHARED, 0);
        Ok(self.bytes(offset))
    }

    /// From now on a range that becomes wholly free moves to a domain for whole ranges, so that requests served from the
    /// usual domains never break into it. A range just added is not moved.
    pub fn set_whole_ranges_apart(&mut self, apart: Apart) {
        self.apart = Some(apart);
    }

    /// The domain to which a range moves that becomes wholly free in `domain`, if there is one.
    #[inline]
    #[must_use]
    pub fn apart_from(&self, domain: Domain) -> Option<Domain> {
        self.apart.and_then(|apart| (apart.of)(domain))
    }

    /// The inverse of [`Tlsf::apart_from`]: where the rest of a range goes that is broken into. `None` for domains that
    /// are not for whole ranges.
    #[inline]
    #[must_use]
    pub fn home_of(&self, domain: Domain) -> Option<Domain> {
        self.apart.and_then(|apart| (apart.home)(domain))
    }

    /// Takes `bytes` bytes, starting at a multiple of `align`, out of a wholly free range that is set apart; `range` names
    /// its one extent. What is left of the range goes to its home domain ([`Tlsf::home_of`]), with the range's stamp or a
    /// later one. `None`, and nothing is changed, if the id is stale or not that of a range set apart, or if the bytes do
    /// not fit.
    pub fn break_into(&mut self, range: ExtentId, bytes: u64, align: u64) -> Option<Chunk> {
        let (record, index) = (self.records.resolve(range)?, range.index());
        let domain = record.domain()?;
        self.home_of(domain)?;
        let fit = self.fit(bytes, align)?;
        let start = fit.start_in(record)?;
        let stamp = self.stamp(index, domain);
        let home = self.open(index, domain);
        let index = self.carve(index, home, start, fit.units);
        Some(self.hand_out(index, bytes, stamp))
    }

    /// Moves a whole range that is about to be broken into from `domain` to where its parts hang.
    pub(super) fn open(&mut self, index: u32, domain: Domain) -> Domain {
        let home = self.home_of(domain).unwrap_or(Domain::SHARED);
        let stamp = self.stamp(index, domain);
        self.unhang(index, domain);
        self.hang(index, home, stamp);
        home
    }

    /// Takes away the range that starts at `offset` bytes.
    ///
    /// # Errors
    /// [`ExtentError::RangeInUse`] if no range starts there or not all of it is free in `domain`; nothing is changed.
    pub fn remove_range(&mut self, offset: u64, domain: Domain) -> Result<(), ExtentError> {
        let found = self.position_of(offset);
        let found = found.filter(|&at| self.free_in(&self.ranges[at]) == Some(domain));
        let at = found.ok_or(ExtentError::RangeInUse { offset })?;
        let span = self.ranges.remove(at);
        self.unhang(span.head, domain);
        self.records.vacate(span.head);
        self.units -= span.units;
        Ok(())
    }

    /// The ranges, in order of offset.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter().map(|span| Range {
            offset: self.bytes(span.offset),
            bytes: self.bytes(span.units),
            free_in: self.free_in(span),
        })
    }

    /// The extents of the range that starts at `offset` bytes, in order of offset; none if no range starts there.
    pub fn extents_of(&self, offset: u64) -> impl Iterator<Item = crate::Extent> + '_ {
        let span = self.position_of(offset).map(|at| &self.ranges[at]);
        span.into_iter()
            .flat_map(|span| self.walk(span.head, |records, index| records.at(index).next))
    }

    /// Which range starts at `offset` bytes.
    fn position_of(&self, offset: u64) -> Option<usize> {
        let found = self
            .ranges
            .binary_search_by_key(&offset, |span| self.bytes(span.offset));
        found.ok()
    }

    /// The domain of the one free extent that a range is, if it is.
    fn free_in(&self, span: &Span) -> Option<Domain> {
        let head = self.records.at(span.head);
        head.domain().filter(|_| head.units == span.units)
    }

    /// Gaps among the offsets: position in `ranges`, start, length.
    fn gaps(&self) -> impl Iterator<Item = (usize, u32, u32)> + '_ {
        let starts = self.ranges.iter().map(|span| span.offset);
        let ends = self.ranges.iter().map(Span::end);
        std::iter::once(0)
            .chain(ends)
            .zip(starts.chain([Self::MAX_UNITS]))
            .enumerate()
            .map(|(at, (end, start))| (at, end, start - end))
    }

    fn lowest_gap(&self, units: u32) -> Option<(usize, u32)> {
        let mut start = 0;
        for (at, span) in self.ranges.iter().enumerate() {
            if span.offset - start >= units {
                return Some((at, start));
            }
            start = span.end();
        }
        (Self::MAX_UNITS - start >= units).then_some((self.ranges.len(), start))
    }

    fn largest_gap(&self) -> u32 {
        self.gaps().map(|(_, _, length)| length).max().unwrap_or(0)
    }
}
