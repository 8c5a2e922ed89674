//! A region that a plan is served from: the program's position in the plan, and the last uses of each piece of the
//! region.

use std::ops::Range;
use std::sync::Arc;

use piton_driver::DevicePtr;
use piton_plan::{Answer, Departure, Plan, PlanCursor};
use piton_suballoc::ExtentId;
use piton_timeline::{Frontier, LaneId, Reuse, Timeline};

use super::recording::stream_of;
use crate::adaptor::Tag;
use crate::allocation::{About, Allocation, AllocationId, AllocationInfo, OtherUses, PoolId};
use crate::config::CrossLane;
use crate::pool::DevicePool;
use crate::region::Region;
use crate::request::Request;
use crate::reuse;
use crate::stats::PoolStats;

/// A plan on a region of the pool.
///
/// # Invariants
/// 1. `region` is an allocation of the pool of `plan.height()` bytes or more, for no lane: nobody else has it, and its uses
///    before were complete.
/// 2. For each piece that no live block has, `uses` of its last request covers every use of the piece not known complete. A
///    live block's own handle covers what came before it.
#[derive(Debug)]
pub(super) struct Serving {
    pool: PoolId,
    /// Which region of the pool's, so that a handle of an earlier one is told apart.
    number: u32,
    region: Allocation,
    cursor: PlanCursor,
    /// By piece, one more than the request whose block had it last; 0 for nobody's.
    last: Vec<u32>,
    /// By request, what was pending when its block was freed last.
    uses: Vec<Frontier>,
    /// By request, what was asked for the last time.
    asked: Vec<Asked>,
    live: u64,
    /// Bytes that departed in this step and were expected not to.
    spilled: u64,
}

/// What a block was asked for as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: AllocationId,
    pub(super) bytes: u64,
    pub(super) lane: Option<LaneId>,
    pub(super) tag: Option<Tag>,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Served {
    Placed(Allocation),
    Departed,
}

/// A part of a region, from its start to its end in order.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) state: PartState,
}

/// Whose a part is.
#[derive(Debug)]
pub(super) enum PartState {
    /// Nobody's, once this is complete.
    Free(Frontier),
    /// A block's.
    Live(Asked),
}

impl Asked {
    /// The same place, as that of this block.
    pub(super) fn tell(&self, place: &AllocationInfo) -> AllocationInfo {
        AllocationInfo {
            id: self.id,
            bytes: self.bytes,
            lane: self.lane,
            tag: self.tag,
            ..*place
        }
    }
}

impl Serving {
    // INVARIANT: (1) the caller has asked the pool for it; (2) nothing was used.
    pub(super) fn new(pool: PoolId, number: u32, region: Allocation, plan: Arc<Plan>) -> Self {
        let requests = plan.requests().len();
        let nothing = Asked {
            id: AllocationId::new(pool, ExtentId::from_parts(0, number)),
            bytes: 0,
            lane: None,
            tag: None,
        };
        Self {
            pool,
            number,
            region,
            last: vec![0; plan.piece_count() as usize],
            uses: vec![Frontier::new(); requests],
            asked: vec![nothing; requests],
            cursor: PlanCursor::new(plan),
            live: 0,
            spilled: 0,
        }
    }

    pub(super) fn begin_step(&mut self) {
        self.cursor.begin_step();
        self.spilled = 0;
    }

    /// The place that the plan has for a request, if it is free and may be had by the request's lane.
    pub(super) fn take(&mut self, request: &Request, pool: &DevicePool) -> Served {
        match self.cursor.next(request.bytes, stream_of(request.lane)) {
            Answer::Planned {
                request: number,
                offset,
            } => match self.hand_out(number, offset, request, pool) {
                Some(allocation) => Served::Placed(allocation),
                None => {
                    let _was_live = self.cursor.free(number);
                    self.spill(request.bytes)
                }
            },
            Answer::Departed(Departure::Unplanned) => Served::Departed,
            Answer::Departed(_) => self.spill(request.bytes),
        }
    }

    fn spill(&mut self, bytes: u64) -> Served {
        self.spilled = self.spilled.saturating_add(bytes);
        Served::Departed
    }

    fn hand_out(
        &mut self,
        number: u32,
        offset: u64,
        request: &Request,
        pool: &DevicePool,
    ) -> Option<Allocation> {
        let ptr = self.region.ptr().checked_add(offset)?;
        if !request.align.is_power_of_two() || !ptr.address().is_multiple_of(request.align) {
            return None;
        }
        let earlier = self.pending(self.cursor.plan().pieces(number), pool.timeline());
        let waits_allowed = pool.settings.cross_lane != CrossLane::Never;
        let wait = match reuse::may_take(pool.timeline(), &earlier, request.lane, waits_allowed) {
            Reuse::Now => Frontier::new(),
            Reuse::AfterWait(points) => points,
            Reuse::No => return None,
        };
        let rounded = self.cursor.plan().requests().get(number as usize)?.bytes;
        let padding = rounded.checked_sub(request.bytes)?;
        if padding > About::MOST_PADDING {
            return None;
        }
        let (own, others) = OtherUses::split(request.lane, wait, earlier);
        self.live += rounded;
        let id = ExtentId::from_parts(number, self.number);
        *self.asked.get_mut(number as usize)? = Asked {
            id: AllocationId::new(self.pool, id),
            bytes: request.bytes,
            lane: request.lane,
            tag: request.tag,
        };
        Some(Allocation {
            pool: self.pool,
            id,
            ptr,
            bytes: request.bytes,
            about: About::new(Region::Large, padding, request.lane, request.tag),
            own,
            others,
        })
    }

    /// Uses of these pieces that are not known complete.
    fn pending(&self, pieces: Range<u32>, timeline: &Timeline) -> Frontier {
        let mut uses = Frontier::new();
        let mut before = 0;
        let last = self.last.get(pieces.start as usize..pieces.end as usize);
        for &last in last.unwrap_or_default() {
            if last == before {
                continue;
            }
            before = last;
            let of_last = last
                .checked_sub(1)
                .and_then(|last| self.uses.get(last as usize));
            for point in of_last.into_iter().flat_map(Frontier::points) {
                if !timeline.is_known_complete(*point) {
                    uses.insert(*point);
                }
            }
        }
        uses
    }

    /// Takes a block back; `false` if it is none of this region's live ones.
    pub(super) fn give_back(
        &mut self,
        allocation: &Allocation,
        uses: &Frontier,
        timeline: &Timeline,
    ) -> bool {
        let (number, region) = allocation.id.parts();
        if region != self.number || !self.cursor.free(number) {
            return false;
        }
        self.live -= allocation.rounded_bytes();
        let points = uses.points().iter().copied();
        let pending = points.filter(|point| !timeline.is_known_complete(*point));
        if let Some(uses) = self.uses.get_mut(number as usize) {
            *uses = pending.collect();
        }
        let pieces = self.cursor.plan().pieces(number);
        if let Some(last) = self
            .last
            .get_mut(pieces.start as usize..pieces.end as usize)
        {
            last.fill(number + 1);
        }
        true
    }

    /// The region as parts that blocks have and parts that nobody has, from its start to the height of its plan.
    pub(super) fn parts(&self, timeline: &Timeline) -> Vec<Part> {
        let plan = self.cursor.plan();
        let mut parts = Vec::new();
        let (mut end, mut piece) = (0, 0);
        let free = |from: u64, upto: u64, pieces: Range<u32>| {
            (from < upto).then(|| Part {
                bytes: upto - from,
                state: PartState::Free(self.pending(pieces, timeline)),
            })
        };
        for (request, offset) in self.cursor.live() {
            let pieces = plan.pieces(request);
            parts.extend(free(end, offset, piece..pieces.start));
            let expected = plan.requests().get(request as usize);
            let bytes = expected.map_or(0, |expected| expected.bytes);
            // Every request has one.
            let asked = self.asked.get(request as usize).copied();
            parts.extend(asked.map(|asked| Part {
                bytes,
                state: PartState::Live(asked),
            }));
            (end, piece) = (offset + bytes, pieces.end);
        }
        parts.extend(free(end, plan.height(), piece..plan.piece_count()));
        parts
    }

    /// Counts the region's blocks and what is free of it instead of the region.
    pub(super) fn count_in(&self, stats: &mut PoolStats, timeline: &Timeline) {
        let region = &self.region;
        stats.allocations -= 1;
        stats.live_bytes -= region.bytes();
        stats.padding_bytes -= region.rounded_bytes() - region.bytes();
        // What is behind the plan.
        stats.cached_bytes += region.rounded_bytes() - self.cursor.plan().height();
        for part in self.parts(timeline) {
            match part.state {
                PartState::Live(asked) => {
                    stats.allocations += 1;
                    stats.live_bytes += asked.bytes;
                    stats.padding_bytes += part.bytes - asked.bytes;
                }
                PartState::Free(uses) if uses.is_empty() => stats.cached_bytes += part.bytes,
                PartState::Free(_) => stats.pending_bytes += part.bytes,
            }
        }
    }

    pub(super) fn start(&self) -> DevicePtr {
        self.region.ptr()
    }

    pub(super) fn into_region(self) -> Allocation {
        self.region
    }

    pub(super) fn contains(&self, address: DevicePtr) -> bool {
        let offset = address.checked_offset_from(self.region.ptr());
        offset.is_some_and(|offset| offset < self.region.rounded_bytes())
    }

    /// The block that an address of the region lies in.
    pub(super) fn lookup(
        &self,
        address: DevicePtr,
        around: &AllocationInfo,
    ) -> Option<AllocationInfo> {
        let offset = address.checked_offset_from(self.region.ptr())?;
        let number = self.cursor.at(offset)?;
        let expected = self.cursor.plan().requests().get(number as usize)?;
        let around = AllocationInfo {
            ptr: self.region.ptr().checked_add(expected.offset?)?,
            offset: offset - expected.offset?,
            rounded_bytes: expected.bytes,
            ..*around
        };
        let asked = self.asked.get(number as usize)?;
        Some(asked.tell(&around))
    }

    /// Bytes of the region.
    pub(super) fn bytes(&self) -> u64 {
        self.region.rounded_bytes()
    }

    /// Bytes of it that blocks have.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn spilled(&self) -> u64 {
        self.spilled
    }

    pub(super) fn check(&self) -> bool {
        self.cursor.check() && self.cursor.plan().height() <= self.region.rounded_bytes()
    }
}
