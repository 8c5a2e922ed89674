//! Where the bytes are that a pool holds and no program has.

use std::fmt;

use piton_timeline::LaneId;

use crate::books::Books;
use crate::placement::Placement;
use crate::region::Region;

/// What a pool holds and the program does not use, at one moment. All sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Bytes lost to rounding by allocations in use.
    pub padding: u64,
    /// Free bytes that anyone may have.
    pub cached: u64,
    /// The longest contiguous range of those.
    pub largest_hole: u64,
    /// Bytes of pages in holes that can be mapped elsewhere. 0 without virtual addressing.
    pub stealable: u64,
    /// Free bytes whose last use is not known complete, by the lane that used them, in order of slot.
    pub pending: Vec<Pending>,
}

/// Free bytes whose last use is not known complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The lane that used them last; `None` for memory that several lanes used last.
    pub lane: Option<LaneId>,
    /// Bytes.
    pub bytes: u64,
}

impl Books {
    pub(crate) fn fragmentation(&self, placement: &Placement) -> Fragmentation {
        let stats = self.stats();
        let shared = Region::ALL.map(Region::shared);
        let holes = shared.into_iter().chain([Region::IDLE]);
        let holes = holes.map(|domain| self.index.largest_free(domain));
        Fragmentation {
            padding: stats.padding_bytes,
            cached: stats.cached_bytes,
            largest_hole: holes.max().unwrap_or(0),
            stealable: match placement {
                Placement::Blocks => 0,
                Placement::Virtual(range) => self.stealable(range.page),
            },
            pending: self.pending(),
        }
    }

    /// What is pending, a lane at a time.
    pub(crate) fn pending(&self) -> Vec<Pending> {
        let mut pending: Vec<Pending> = Vec::new();
        for domain in self.index.domains() {
            let bytes = self.index.domain_usage(domain).bytes - self.complete_in(domain);
            let Some(lane) = self.lane_of(domain).filter(|_| bytes > 0) else {
                continue;
            };
            let lane = Some(lane);
            match pending.iter_mut().find(|known| known.lane == lane) {
                Some(known) => known.bytes += bytes,
                None => pending.push(Pending { lane, bytes }),
            }
        }
        pending.sort_by_key(|known| known.lane.map(|lane| lane.index));
        let (lane, bytes) = (None, self.deferred.bytes());
        if bytes > 0 {
            pending.push(Pending { lane, bytes });
        }
        pending
    }
}

/// As text for the middle of a sentence; nothing where nothing is pending.
pub(crate) struct ByLane<'a>(pub(crate) &'a [Pending]);

impl fmt::Display for ByLane<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pending) in self.0.iter().enumerate() {
            f.write_str(if number == 0 { " (" } else { ", " })?;
            match pending.lane {
                Some(lane) => write!(f, "{} on lane {}", pending.bytes, lane.index)?,
                None => write!(f, "{} on several lanes", pending.bytes)?,
            }
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
}
