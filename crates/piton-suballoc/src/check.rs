//! The invariants as code: walks everything and compares it with everything else.

use std::error::Error;
use std::fmt;

use crate::bins::{Bin, Bins};
use crate::domain::Domain;
use crate::extent::{Extent, ExtentState};
use crate::records::NIL;
use crate::tlsf::Tlsf;

/// A broken invariant: a defect of this crate, found by [`Tlsf::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inconsistency {
    /// An extent does not start where its neighbour below ends, or is empty.
    Gap {
        /// Where the neighbour ends.
        expected: u64,
        /// Where the extent starts.
        offset: u64,
    },
    /// The extents do not add up to their range.
    Length {
        /// Where the last extent ends.
        end: u64,
        /// Where the range ends.
        expected: u64,
    },
    /// Two neighbouring free extents of one domain are not one.
    Unmerged {
        /// Where the upper one starts.
        offset: u64,
    },
    /// A part of a range hangs in the domain set apart for whole ranges.
    Part {
        /// Where it starts.
        offset: u64,
    },
    /// A range is free as a whole and does not hang in the domain set apart for such.
    Forgotten {
        /// Where it starts.
        offset: u64,
    },
    /// `capacity = live + padding + free` does not hold, or a counter differs from the walk.
    Conservation {
        /// Bytes of all ranges.
        capacity: u64,
        /// Live bytes as counted by the walk.
        live: u64,
        /// Padding as counted by the walk.
        padding: u64,
        /// Free bytes as counted by the walk.
        free: u64,
    },
    /// A domain's bins do not hold exactly its free extents, each in the bin of its size.
    Bins {
        /// Whose bins.
        domain: Domain,
    },
    /// A domain's order of stamps does not hold exactly its free extents, or a stamp decreases.
    Order {
        /// Whose order.
        domain: Domain,
    },
    /// Records are lost or counted twice.
    Records {
        /// Records of either kind.
        records: u64,
        /// Records that some list reaches.
        reached: u64,
    },
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { expected, offset } => {
                write!(f, "an extent starts at {offset} where {expected} was due")
            }
            Self::Length { end, expected } => {
                write!(f, "extents end at {end} in a range that ends at {expected}")
            }
            Self::Unmerged { offset } => write!(
                f,
                "the free extent at {offset} should be one with the one below"
            ),
            Self::Part { offset } => write!(
                f,
                "the free extent at {offset} is a part of a range and hangs where whole ones do"
            ),
            Self::Forgotten { offset } => write!(
                f,
                "the range at {offset} is free as a whole and hangs where parts do"
            ),
            Self::Conservation {
                capacity,
                live,
                padding,
                free,
            } => write!(
                f,
                "{live} live + {padding} padding + {free} free bytes do not make {capacity}, or differ from the counters"
            ),
            Self::Bins { domain } => write!(f, "the bins of {domain:?} do not match its extents"),
            Self::Order { domain } => {
                write!(f, "the stamps of {domain:?} do not match its extents")
            }
            Self::Records { records, reached } => {
                write!(f, "{reached} of {records} records are reached")
            }
        }
    }
}

impl Error for Inconsistency {}

/// What the walk over offsets counts.
#[derive(Default)]
struct Walk {
    domains: Vec<Counted>,
    live: u64,
    padding: u64,
    chunks: u32,
    extents: u32,
}

impl Walk {
    fn count(&mut self, extent: Extent) -> Result<(), Inconsistency> {
        self.extents += 1;
        match extent.state {
            ExtentState::Live { padding } => {
                self.chunks += 1;
                self.padding += padding;
                self.live += extent.bytes - padding.min(extent.bytes);
            }
            ExtentState::Free { domain, .. } => {
                let counted = self.domains.get_mut(domain.index() as usize);
                let counted = counted.ok_or(Inconsistency::Bins { domain })?;
                counted.bytes += extent.bytes;
                counted.extents += 1;
            }
        }
        Ok(())
    }
}

/// Free extents of a domain as counted by the walk over offsets.
#[derive(Clone, Copy, Default)]
struct Counted {
    bytes: u64,
    extents: u32,
}

impl Tlsf {
    /// Walks everything and compares: `capacity = live + padding + free of all domains`, no gap, no overlap, nothing
    /// unmerged, bins and orders complete.
    ///
    /// Costs a walk over all extents, so it is for tests, fuzzing and debug builds.
    ///
    /// # Errors
    /// The first [`Inconsistency`] found, which is a defect of this crate.
    pub fn check(&self) -> Result<(), Inconsistency> {
        let (counted, extents) = self.check_extents()?;
        for (index, slot) in (0u32..).zip(&self.domains) {
            let domain = Domain::from_index(index);
            let expected = counted[index as usize];
            let agrees = match slot {
                None => expected.extents == 0,
                Some(bins) => self.bins_agree(bins, domain, expected),
            };
            if !agrees {
                return Err(Inconsistency::Bins { domain });
            }
            if !domain.is_shared() && !self.order_agrees(domain, expected) {
                return Err(Inconsistency::Order { domain });
            }
        }
        let records = self.records.len() as u64;
        let reached = u64::from(extents) + self.records.count_vacant() as u64;
        if records == reached && self.records.is_nobodys_vacant() {
            Ok(())
        } else {
            Err(Inconsistency::Records { records, reached })
        }
    }

    /// The walk over offsets: neighbours, sums, counters. What it counted by domain, and all extents.
    fn check_extents(&self) -> Result<(Vec<Counted>, u32), Inconsistency> {
        let mut walk = Walk {
            domains: vec![Counted::default(); self.domains.len()],
            ..Walk::default()
        };
        for range in self.ranges() {
            let mut below: Option<Extent> = None;
            for extent in self.extents_of(range.offset).take(self.records.len() + 1) {
                check_neighbours(range.offset, below, extent)?;
                self.check_whole(range.bytes, extent)?;
                walk.count(extent)?;
                below = Some(extent);
            }
            let end = below.map_or(0, |last| last.offset + last.bytes);
            let expected = range.offset + range.bytes;
            if end != expected {
                return Err(Inconsistency::Length { end, expected });
            }
        }
        let Walk { live, padding, .. } = walk;
        let capacity = self.capacity();
        let free = walk.domains.iter().map(|domain| domain.bytes).sum();
        let counters = (self.live_bytes, self.padding_bytes, self.live_chunks);
        if live + padding + free != capacity || counters != (live, padding, walk.chunks) {
            return Err(Inconsistency::Conservation {
                capacity,
                live,
                padding,
                free,
            });
        }
        Ok((walk.domains, walk.extents))
    }

    /// Whether an extent in the domain of whole ranges is one.
    fn check_whole(&self, range_bytes: u64, extent: Extent) -> Result<(), Inconsistency> {
        match extent.state {
            ExtentState::Free { domain, .. }
                if self.home_of(domain).is_some() && extent.bytes != range_bytes =>
            {
                Err(Inconsistency::Part {
                    offset: extent.offset,
                })
            }
            ExtentState::Free { domain, .. }
                if extent.bytes == range_bytes && !self.may_hang_whole(domain) =>
            {
                Err(Inconsistency::Forgotten {
                    offset: extent.offset,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether a range may be free as a whole in a domain: in the shared one since it was just added, elsewhere if nothing is set
    /// apart for it.
    fn may_hang_whole(&self, domain: Domain) -> bool {
        domain.is_shared() || self.apart_from(domain).is_none()
    }

    fn bins_agree(&self, bins: &Bins, domain: Domain, expected: Counted) -> bool {
        let mut extents = 0;
        for bin in bins.occupied() {
            let mut below = NIL;
            let mut index = bins.head(bin);
            while index != NIL {
                let record = self.records.at(index);
                let belongs = record.is_free_in(domain)
                    && Bin::of(record.units) == bin
                    && record.bin_prev == below;
                if !belongs || extents == expected.extents {
                    return false;
                }
                extents += 1;
                below = index;
                index = record.bin_next;
            }
        }
        let free = u64::from(bins.free_units) * self.unit();
        bins.bits_agree()
            && (extents, free) == (expected.extents, expected.bytes)
            && bins.extents == extents
    }

    fn order_agrees(&self, domain: Domain, expected: Counted) -> bool {
        let mut bytes = 0;
        let mut extents = 0;
        let mut last = 0;
        for extent in self
            .extents_by_stamp(domain)
            .take(expected.extents as usize + 1)
        {
            match extent.state {
                ExtentState::Free { domain: of, stamp } if of == domain && stamp >= last => {
                    last = stamp
                }
                _ => return false,
            }
            bytes += extent.bytes;
            extents += 1;
        }
        (bytes, extents) == (expected.bytes, expected.extents)
    }
}

fn check_neighbours(
    first: u64,
    below: Option<Extent>,
    extent: Extent,
) -> Result<(), Inconsistency> {
    let expected = below.map_or(first, |below| below.offset + below.bytes);
    if extent.offset != expected || extent.bytes == 0 {
        return Err(Inconsistency::Gap {
            expected,
            offset: extent.offset,
        });
    }
    let domain_of = |extent: Extent| match extent.state {
        ExtentState::Live { .. } => None,
        ExtentState::Free { domain, .. } => Some(domain),
    };
    let domain = domain_of(extent);
    if domain.is_some() && domain == below.and_then(domain_of) {
        return Err(Inconsistency::Unmerged {
            offset: extent.offset,
        });
    }
    Ok(())
}
