//! Regions: small requests keep to memory of their own, so that a small survivor does not pin what a large one left.
//! And which domain of the index means what.
//!
//! A region is a set of domains: what everyone may have, what nothing backs (addresses without pages), and what each
//! lane freed and may still use. Extents of two regions never merge, since they never share a domain. Where memory
//! comes as Blocks there is one region.

use piton_suballoc::{Apart, Domain};
use piton_timeline::LaneId;

/// Domains with a fixed meaning before those of the lanes.
const FIXED: u32 = 4;
/// Lane slots that have a domain for each region.
const LANES: u32 = (Domain::COUNT - FIXED) / 2;

/// Which requests share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Region {
    /// Large ones; all, where there is only one region.
    Large,
    /// Small ones.
    Small,
}

impl Region {
    pub(crate) const ALL: [Self; 2] = [Self::Large, Self::Small];

    /// What is free for all.
    #[inline]
    pub(crate) const fn shared(self) -> Domain {
        match self {
            Self::Large => Domain::SHARED,
            Self::Small => fixed(0),
        }
    }

    /// Addresses that nothing backs.
    pub(crate) const fn unbacked(self) -> Domain {
        match self {
            Self::Large => fixed(1),
            Self::Small => fixed(2),
        }
    }

    /// Blocks that are free as a whole. Only large requests have any: there is one region where there are Blocks.
    pub(crate) const IDLE: Domain = fixed(3);

    /// What is pending on a lane. Seqs go on growing when a lane's slot gets a new lane, so the domain is the slot's.
    /// `None` past the last domain: such memory is deferred instead.
    #[inline]
    pub(crate) const fn of_lane(self, lane: LaneId) -> Option<Domain> {
        if lane.index < LANES {
            Domain::new(FIXED + 2 * lane.index + self as u32)
        } else {
            None
        }
    }

    /// The one to try when a request's own has nothing left.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Large => Self::Small,
            Self::Small => Self::Large,
        }
    }

    /// The region of a domain.
    pub(crate) fn of(domain: Domain) -> Self {
        let is_small = match domain.number() {
            None | Some(1 | 3) => false,
            Some(0 | 2) => true,
            Some(number) => (number - FIXED) % 2 == 1,
        };
        if is_small { Self::Small } else { Self::Large }
    }
}

/// The lane slot whose pending memory a domain holds; `None` for the other domains.
pub(crate) fn slot_of(domain: Domain) -> Option<u32> {
    Some(domain.number()?.checked_sub(FIXED)? / 2)
}

/// Where Blocks hang that are free as a whole: idle ones, and each lane's that are pending.
pub(crate) const WHOLE_BLOCKS: Apart = Apart {
    of: idle_for,
    home: home_of_idle,
};

fn idle_for(domain: Domain) -> Option<Domain> {
    match domain.number() {
        None => Some(Region::IDLE),
        Some(number) if number >= FIXED && (number - FIXED).is_multiple_of(2) => {
            Domain::new(number + 1)
        }
        Some(_) => None,
    }
}

fn home_of_idle(domain: Domain) -> Option<Domain> {
    if domain == Region::IDLE {
        return Some(Domain::SHARED);
    }
    let number = domain.number()?;
    if number >= FIXED && !(number - FIXED).is_multiple_of(2) {
        Domain::new(number - 1)
    } else {
        None
    }
}

/// Whether a domain is addresses that nothing backs.
pub(crate) fn is_unbacked(domain: Domain) -> bool {
    Region::ALL.iter().any(|region| region.unbacked() == domain)
}

const fn fixed(number: u32) -> Domain {
    match Domain::new(number) {
        Some(domain) => domain,
        None => Domain::SHARED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_domain_means_two_things() {
        let lane = |index| LaneId {
            index,
            generation: 0,
        };
        let mut seen = Vec::new();
        for region in Region::ALL {
            let lanes = (0..100).map(|index| region.of_lane(lane(index)).unwrap());
            let domains = [region.shared(), region.unbacked()]
                .into_iter()
                .chain(lanes);
            for domain in domains {
                assert_eq!(Region::of(domain), region);
                assert!(!seen.contains(&domain));
                seen.push(domain);
            }
            assert_eq!(slot_of(region.shared()), None);
            assert_eq!(region.of_lane(lane(7)).and_then(slot_of), Some(7));
            assert!(is_unbacked(region.unbacked()) && !is_unbacked(region.shared()));
            assert_eq!(region.of_lane(lane(40_000)), None);
        }
    }
}
