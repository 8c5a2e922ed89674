//! Whether freed memory may be used again, by whom, and after which waits. This file decides it and nothing else does.
//!
//! The rules:
//!
//! 1. Memory none of whose uses is pending is anyone's.
//! 2. Memory used last on one lane is that lane's at once: its later work runs after the use.
//! 3. Another lane may have it if the clock says the lane is ordered behind the use, or with a wait that it enqueues
//!    first.
//! 4. Uses that were pending at hand-out stay with the allocation. They are forgotten when the allocation is given
//!    back with a use on the lane it was handed to, since that use runs after them: by lane order, by the order the
//!    clock knew, or by the wait. Given back without such a use, they are joined to the last uses.

use piton_suballoc::Domain;
use piton_timeline::{Frontier, LaneId, Reuse, Timeline, Timepoint};

use crate::allocation::Allocation;
use crate::region::Region;

/// Where freed memory goes.
#[derive(Debug)]
pub(crate) enum Disposal {
    /// No use is pending.
    Anyone,
    /// The only pending use is on one lane.
    Lane(Domain, Timepoint),
    /// Several lanes' uses are pending.
    Deferred(Frontier),
}

impl Disposal {
    /// Of memory of a region with these last uses, by what is known complete: a load per point.
    pub(crate) fn of(uses: &Frontier, region: Region, timeline: &Timeline) -> Self {
        let pending = |point: &&Timepoint| !timeline.is_known_complete(**point);
        let mut points = uses.points().iter().filter(pending);
        let Some(first) = points.next() else {
            return Self::Anyone;
        };
        match (points.next(), region.of_lane(first.lane)) {
            (None, Some(domain)) => Self::Lane(domain, *first),
            _ => Self::Deferred(uses.points().iter().filter(pending).copied().collect()),
        }
    }

    /// The same of memory whose last use is at most one point.
    #[inline]
    pub(crate) fn of_last(last: Option<Timepoint>, region: Region, timeline: &Timeline) -> Self {
        match last {
            None => Self::Anyone,
            Some(point) if timeline.is_known_complete(point) => Self::Anyone,
            Some(point) => match region.of_lane(point.lane) {
                Some(domain) => Self::Lane(domain, point),
                None => Self::Deferred(Frontier::from(point)),
            },
        }
    }
}

/// All uses of an allocation's memory that reuse must respect, given the allocation's own last uses.
pub(crate) fn uses_to_respect(allocation: &Allocation, last_uses: Frontier) -> Frontier {
    let used_by_its_lane = |lane: LaneId| last_uses.points().iter().any(|point| point.lane == lane);
    if allocation.lane().is_some_and(used_by_its_lane) {
        return last_uses;
    }
    let mut uses = last_uses;
    if let Some(others) = &allocation.others {
        uses.join(&others.earlier);
    }
    if let Some(own) = allocation.own_use() {
        uses.insert(own);
    }
    uses
}

/// The same where it is at most one point, which is nearly always.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LastUse {
    /// None at all.
    None,
    /// One.
    At(Timepoint),
    /// More, or it takes a closer look: [`uses_to_respect`].
    Several,
}

impl LastUse {
    /// Of an allocation given back with these last uses.
    #[inline]
    pub(crate) fn of(allocation: &Allocation, last_uses: &Frontier) -> Self {
        if allocation.others.is_some() {
            return Self::Several;
        }
        match last_uses.points() {
            [point] if (allocation.own == 0) | allocation.is_on(point.lane) => Self::At(*point),
            [] => allocation.own_use().map_or(Self::None, Self::At),
            _ => Self::Several,
        }
    }
}

/// Whether `lane` may have memory with pending `uses`, and after which waits.
pub(crate) fn may_take(
    timeline: &Timeline,
    uses: &Frontier,
    lane: Option<LaneId>,
    waits_allowed: bool,
) -> Reuse {
    match timeline.reuse(uses, lane) {
        Reuse::AfterWait(_) if !waits_allowed => Reuse::No,
        answer => answer,
    }
}
