//! Best fit among all memory that is backed, whoever used it last, where the host runs ahead of the device.
//!
//! Memory that the host has not seen complete belongs to its lane. A request is served from the lane's own memory,
//! then from everyone's, then from neighbours of several owners. The first of these that has a place is cut up,
//! although another place may fit exactly. Later, large requests find only pieces, and nothing can be unmapped or
//! given back to make room, because all of it is pending.
//!
//! So a pool that maps pages and holds much more than was ever live, while memory is pending that several lanes use,
//! is *crowded*. As long as it is, each large request takes its place in the shortest run of neighbouring memory that
//! has one, with a wait if need be. That is best fit in one range, as if everything were complete.
//!
//! A pool that holds more than an eighth beyond what was ever live has sizes that do not fit each other, whoever
//! waits for whom. There best fit gains nothing and costs waits. With Blocks it hardly helps, because what is held
//! beyond what is live lies between Blocks and not within them.
//!
//! It costs a step per free extent for each request, and waits between lanes. So it begins when the pool has just had
//! to grow, and ends when nothing is pending any more or enough is live. It applies only where the configuration lets
//! waits come before growing ([`CrossLane::Wait`](crate::CrossLane::Wait)).

use piton_timeline::Timeline;

use crate::allocation::Allocation;
use crate::books::Books;
use crate::config::CrossLane;
use crate::placement::Placement;
use crate::pool::DevicePool;
use crate::region::{self, Region};
use crate::request::Request;
use crate::run::Search;

/// Part of the most that was live that a pool may hold beyond it before it is crowded.
const CROWDED_SHARE: u64 = 16;
/// Beyond this part it is not for want of a better fit.
const SCATTERED_SHARE: u64 = 8;

impl DevicePool {
    /// In a crowded pool the place that fits best. `None` if it is not crowded, or there is none.
    pub(crate) fn take_tightly(&self, request: &Request, region: Region) -> Option<Allocation> {
        let mut books = self.books.lock();
        if !books.is_crowded_for(region) {
            return None;
        }
        books.drain(&self.timeline);
        books.note_crowding();
        let found = books
            .is_crowded
            .then(|| books.take_tightest(request, region, &self.timeline))??;
        books.counters.hits += 1;
        Some(found)
    }

    /// Looks whether the pool is crowded now that it has grown for a request.
    pub(crate) fn note_growth(&self) {
        let is_mapped = matches!(self.placement, Placement::Virtual(_));
        if is_mapped && self.settings.cross_lane == CrossLane::Wait {
            self.books.lock().note_crowding();
        }
    }
}

impl Books {
    /// Whether a request of this region is to look for the place that fits best.
    #[inline]
    pub(crate) fn is_crowded_for(&self, region: Region) -> bool {
        self.is_crowded && region == Region::Large
    }

    /// Decides whether the pool is crowded. A step per domain.
    fn note_crowding(&mut self) {
        let peak = self.counters.peak_live;
        let beyond = self.held.saturating_sub(peak);
        let is_between = beyond > peak / CROWDED_SHARE && beyond <= peak / SCATTERED_SHARE;
        self.is_crowded = is_between && self.may_need_waits();
    }

    /// Whether memory is pending that a request may have to wait for, as far as is known: several lanes', or one's where requests had to
    /// wait before. Where one lane alone has memory, nothing of it is another's to wait for.
    fn may_need_waits(&self) -> bool {
        let mut slots = self.index.domains().filter_map(region::slot_of);
        let first = slots.next();
        let is_shared = |first| self.counters.waits > 0 || slots.any(|slot| slot != first);
        self.deferred.bytes() > 0 || first.is_some_and(is_shared)
    }

    /// The place in the shortest run of memory that is everyone's or pending.
    fn take_tightest(
        &mut self,
        request: &Request,
        region: Region,
        timeline: &Timeline,
    ) -> Option<Allocation> {
        let search = Search {
            request,
            bytes: request.bytes.next_multiple_of(self.index.unit()),
            region,
            timeline,
            waits: true,
            page: None,
            all: true,
        };
        let run = search.tightest(self)?;
        self.take_place(&search, run)
    }
}
