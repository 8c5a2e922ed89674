//! Whether freed memory may be used again, by whom, and after which waits. This file decides it and nothing else does.
//!
//! The rules:
//!
//! 1. Memory none of whose uses is pending is anyone's.
//! 2. Memory used last on one lane is that lane's at once: its later work runs after the use.
//! 3. Another lane may have it if the clock says the lane is ordered behind the use, or with a wait that it enqueues
//!    first.
//! 4. Uses that were pending at hand-out stay with the allocation. They are forgotten when the allocation is given
//!    back with a use on the lane it was handed to that is known to run after them: by lane order, by the clock, or by
//!    the wait, where somebody has [vouched](Allocation::assume_waited) for its place. Given back without such a use, they are
//!    joined to the last uses: giving back is safe, so that a wait was made is no more than what somebody says.

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
pub(crate) fn uses_to_respect(
    allocation: &Allocation,
    last_uses: Frontier,
    timeline: &Timeline,
) -> Frontier {
    let mut uses = last_uses;
    if let Some(others) = &allocation.others {
        let is_its = |point: &&Timepoint| Some(point.lane) == allocation.lane();
        match uses.points().iter().find(is_its).copied() {
            Some(last) if others.is_waited_at(last) => {}
            Some(last) => {
                let earlier = others.earlier.points().iter();
                let left = earlier.filter(|point| !timeline.is_known_behind(last, **point));
                left.for_each(|point| uses.insert(*point));
            }
            None => uses.join(&others.earlier),
        }
    }
    // Of two points on one lane the later counts, whatever the program says.
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
            // A place before its lane's last use is no place of its own use.
            [point] if (allocation.own == 0) | allocation.is_on(point.lane) => {
                Self::At(Timepoint {
                    seq: point.seq.max(allocation.own),
                    ..*point
                })
            }
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
