//! What is tried, in order, when the first look finds nothing, before the source is asked.
//!
//! 1. Drain: ask the timeline what is complete by now; what is becomes everyone's.
//! 2. Join: a lane's pending memory and the free memory beside it, where only together they are large enough.
//! 3. Other lanes' pending memory that the taker is ordered behind: no wait is needed.
//! 4. The same with a wait, if the configuration allows it.
//!
//! Each step is followed by a search of its own. None calls the source or blocks.

use std::fmt;

use piton_suballoc::Domain;
use piton_timeline::{Frontier, Reuse, Timeline, Timepoint};

use crate::allocation::Allocation;
use crate::books::Books;
use crate::request::Request;
use crate::reuse::{self, Disposal};

/// What the steps yielded for a request that none of them could serve. Sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Pending memory found complete.
    pub drained: u64,
    /// Blocks given back to the source.
    pub returned: u64,
    /// Times the source was asked for a Block and had none.
    pub refused: u32,
    /// Whether memory pending on other lanes was looked at for a hand-out with a wait.
    pub waits_allowed: bool,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            drained,
            returned,
            refused,
            waits_allowed,
        } = self;
        let waits = if *waits_allowed {
            "allowed"
        } else {
            "not allowed"
        };
        write!(
            f,
            "draining yielded {drained} bytes, {returned} were given back, the source refused {refused} times, \
             waits on other lanes were {waits}"
        )
    }
}

impl Books {
    /// Steps 1 to 4, each followed by a search.
    pub(crate) fn recover(
        &mut self,
        request: &Request,
        timeline: &Timeline,
        waits_allowed: bool,
        recovery: &mut Recovery,
    ) -> Option<Allocation> {
        recovery.waits_allowed |= waits_allowed;
        recovery.drained += self.drain(timeline);
        if let Some(found) = self.take_at_once(request, timeline) {
            return Some(found);
        }
        if self.join_for(request)
            && let Some(found) = self.take_at_once(request, timeline)
        {
            return Some(found);
        }
        self.take_pending(request, timeline, false)
            .or_else(|| waits_allowed.then(|| self.take_pending(request, timeline, true))?)
    }

    /// Makes everyone's what is complete by now. Asks the timeline once per lane with pending memory and once per
    /// deferred Chunk's point. Returns the bytes.
    pub(crate) fn drain(&mut self, timeline: &Timeline) -> u64 {
        let mut drained = 0;
        for entry in self.deferred.drain_settled(timeline) {
            let disposal = match entry.uses.single() {
                None => {
                    drained += entry.chunk.bytes;
                    Disposal::Anyone
                }
                Some(_) => Disposal::of(&entry.uses, timeline),
            };
            self.dispose(entry.chunk.id, entry.chunk.bytes, disposal);
        }
        let domains: Vec<Domain> = self.index.domains().collect();
        for domain in domains {
            if let Some(lane) = self.lane_of(domain) {
                drained += self.release_complete(lane, domain, |point| timeline.is_complete(point));
            }
        }
        drained
    }

    fn join_for(&mut self, request: &Request) -> bool {
        let own = request.lane.and_then(reuse::domain_of);
        own.is_some_and(|domain| self.index.join_run(domain, request.bytes, request.align))
    }

    /// Memory that others' work still uses: the smallest that fits.
    fn take_pending(
        &mut self,
        request: &Request,
        timeline: &Timeline,
        waits: bool,
    ) -> Option<Allocation> {
        self.take_of_lanes(request, timeline, waits)
            .or_else(|| self.take_deferred(request, timeline, waits))
    }

    fn take_of_lanes(
        &mut self,
        request: &Request,
        timeline: &Timeline,
        waits: bool,
    ) -> Option<Allocation> {
        let own = request.lane.and_then(reuse::domain_of);
        let others = self.index.domains().filter(|domain| Some(*domain) != own);
        let candidates = others.filter_map(|domain| {
            let lane = self.lane_of(domain)?;
            let extent = self.index.peek(domain, request.bytes, request.align)?;
            let seq = extent.stamp();
            let uses = Frontier::from(Timepoint { lane, seq });
            let wait = wait_for(&uses, request, timeline, waits)?;
            Some((extent.bytes, domain, uses, wait))
        });
        let (_, domain, uses, wait) = candidates.min_by_key(|(bytes, ..)| *bytes)?;
        let chunk = self.index.allocate(domain, request.bytes, request.align)?;
        self.issue(chunk, request, wait, uses)
    }

    fn take_deferred(
        &mut self,
        request: &Request,
        timeline: &Timeline,
        waits: bool,
    ) -> Option<Allocation> {
        let may_take = |uses: &Frontier| wait_for(uses, request, timeline, waits).is_some();
        let at = self.deferred.find(request.bytes, request.align, may_take)?;
        let entry = self.deferred.remove(at);
        let wait = wait_for(&entry.uses, request, timeline, waits)?;
        let (chunk, rest) = self.index.cut(entry.chunk.id, request.bytes).ok()?;
        if let Some(rest) = rest {
            self.deferred.push(rest, entry.uses.clone());
        }
        self.issue(chunk, request, wait, entry.uses)
    }
}

/// The wait under which the request's lane may have memory with these uses; `None` if it may not.
fn wait_for(
    uses: &Frontier,
    request: &Request,
    timeline: &Timeline,
    waits: bool,
) -> Option<Frontier> {
    match reuse::may_take(timeline, uses, request.lane, waits) {
        Reuse::Now => Some(Frontier::new()),
        Reuse::AfterWait(wait) => Some(wait),
        Reuse::No => None,
    }
}
