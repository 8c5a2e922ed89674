//! Ranges that come and go: where they lie among the offsets, adding one, taking one away.
//!
//! Offsets are names, not memory: a new range takes the lowest gap in which it fits. Two ranges may touch; their
//! records are not linked, so no extent reaches across. Ranges are few, and adding or removing one costs a step each.

use super::Tlsf;
use crate::domain::Domain;
use crate::error::{ConfigError, ExtentError};
use crate::extent::{Chunk, Range};
use crate::records::NIL;

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

    /// From now on a range that becomes wholly free in [`Domain::SHARED`] is moved to `domain`, so that what is taken
    /// out of the shared one never breaks into it. A range just added is not moved.
    pub fn set_whole_ranges_apart(&mut self, domain: Domain) {
        self.idle = Some(domain);
    }

    /// Whether a range may have become wholly free in another domain than the shared one.
    #[inline]
    #[must_use]
    pub fn has_wholes(&self) -> bool {
        !self.wholes.is_empty()
    }

    /// Moves ranges that are wholly free in another domain to that which is set apart for such, where `may_go` says of domain and
    /// stamp that they are free for all by now. A step for each range that became whole since the last time, and for
    /// each that stayed then.
    pub fn release_wholes(&mut self, mut may_go: impl FnMut(Domain, u64) -> bool) {
        let mut wholes = std::mem::take(&mut self.wholes);
        wholes.retain(|&head| {
            let Some(domain) = self.waits_as_whole(head) else {
                return false;
            };
            let goes = may_go(domain, self.stamp(head, domain));
            if goes {
                self.unhang(head, domain);
                self.merge_into(head, Domain::SHARED, 0);
            }
            !goes
        });
        // Nothing was added: what goes is no longer in a domain of its own.
        self.wholes = wholes;
    }

    /// Notes that a range is wholly free, of which the record is the head.
    #[cold]
    pub(super) fn note_whole(&mut self, head: u32) {
        if self.wholes.len() > 2 * self.ranges.len() {
            self.wholes.sort_unstable();
            self.wholes.dedup();
        }
        self.wholes.push(head);
    }

    /// Whether a wholly free range, given its head, is noted if it has to be; for `check`.
    pub(crate) fn is_whole_known(&self, head: u32) -> bool {
        let must_be = self.idle.is_some() && self.waits_as_whole(head).is_some();
        !must_be || self.wholes.contains(&head)
    }

    /// The domain that a range is wholly free in, given its head, if that is neither the shared one nor that set apart.
    fn waits_as_whole(&self, head: u32) -> Option<Domain> {
        let record = self.records.at(head);
        let is_whole = record.prev == NIL && record.next == NIL;
        let domain = record.domain().filter(|_| is_whole)?;
        (!domain.is_shared() && self.idle != Some(domain)).then_some(domain)
    }

    /// [`Tlsf::allocate`] from a range that is free as a whole in `domain`; what is left of it is in
    /// [`Domain::SHARED`]. The smallest that fits is taken, unless it has more than `most` bytes: then `None`.
    pub fn break_into(
        &mut self,
        domain: Domain,
        bytes: u64,
        align: u64,
        most: u64,
    ) -> Option<Chunk> {
        let range = self.peek(domain, bytes, align)?;
        if range.bytes > most {
            return None;
        }
        let (fit, index) = (self.fit(bytes, align)?, range.id.index());
        let start = fit.start_in(self.records.at(index))?;
        self.open(index, domain);
        let index = self.carve(index, Domain::SHARED, start, fit.units);
        Some(self.hand_out(index, bytes, 0))
    }

    /// Moves a whole range that is about to be broken into from `domain` to [`Domain::SHARED`].
    pub(super) fn open(&mut self, index: u32, domain: Domain) {
        self.unhang(index, domain);
        self.hang(index, Domain::SHARED, 0);
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
