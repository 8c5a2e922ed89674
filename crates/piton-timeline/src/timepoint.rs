//! A place in the order of work.

use std::fmt;

/// Which lane. Slots are reused; the generation tells their tenants apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId {
    /// The slot.
    pub index: u32,
    /// Which tenant of the slot, from 0.
    pub generation: u32,
}

impl fmt::Debug for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {}.{}", self.index, self.generation)
    }
}

/// The place after the `seq`-th submission of a lane. Sixteen bytes, `Copy`, means something to its
/// [`Timeline`](crate::Timeline) only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timepoint {
    /// The lane.
    pub lane: LaneId,
    /// How many submissions of the lane's slot come up to here.
    pub seq: u64,
}

impl fmt::Debug for Timepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.lane, self.seq)
    }
}
