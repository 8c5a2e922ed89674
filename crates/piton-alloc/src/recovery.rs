//! What is tried, in order, when the first search finds nothing, before the source is asked.
//!
//! 1. Drain: ask the timeline what is complete by now, and release it to everyone.
//! 2. Runs of neighbouring memory, free or pending, that the taker's lane is ordered behind, so that no wait is
//!    needed.
//! 3. The same with a wait, if the configuration allows it.
//!
//! Each step is followed by a search. None calls the source or blocks.

use std::fmt;

use piton_suballoc::Domain;
use piton_timeline::Timeline;

use crate::allocation::Allocation;
use crate::books::Books;
use crate::region::Region;
use crate::request::Request;
use crate::reuse::Disposal;
use crate::run::Search;

/// What each step of the recovery yielded for a request that none of them could serve. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Pending memory that turned out to be complete.
    pub drained: u64,
    /// Whether memory pending on other lanes was considered, to be handed out with a wait.
    pub waits_allowed: bool,
    /// Pages taken from holes.
    pub stolen: u64,
    /// Memory given back to the source.
    pub returned: u64,
    /// How often the source was asked for memory and had none.
    pub refused: u32,
    /// How often the program's callback said that it had freed something.
    pub callbacks: u32,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            drained,
            waits_allowed,
            stolen,
            returned,
            refused,
            callbacks,
        } = self;
        let waits = if *waits_allowed {
            "allowed"
        } else {
            "not allowed"
        };
        write!(
            f,
            "draining yielded {drained} bytes, waits on other lanes were {waits}, {stolen} bytes of pages were taken \
             from holes, {returned} were given back, the source refused {refused} times, the callback freed something \
             {callbacks} times"
        )
    }
}

impl Books {
    /// Steps 1 to 3, each followed by a search.
    pub(crate) fn recover(
        &mut self,
        request: &Request,
        region: Region,
        timeline: &Timeline,
        waits_allowed: bool,
        recovery: &mut Recovery,
    ) -> Option<Allocation> {
        recovery.waits_allowed |= waits_allowed;
        recovery.drained += self.drain_others(timeline);
        self.gather(request.lane, region);
        if let Some(found) = self.take_again(request, region) {
            return Some(found);
        }
        let mut search = Search {
            request,
            bytes: request.bytes.next_multiple_of(self.index.unit()),
            region,
            timeline,
            waits: false,
            page: None,
            all: false,
        };
        let stretches = search.stretches(self);
        if let Some(found) = self.take_run(&search, &stretches) {
            return Some(found);
        }
        search.waits = true;
        waits_allowed.then(|| self.take_run(&search, &stretches))?
    }

    /// Makes everyone's what is complete by now, of which the timeline is asked a few times for each lane with pending
    /// memory. Returns the bytes.
    pub(crate) fn drain(&mut self, timeline: &Timeline) -> u64 {
        let mut drained = self.drain_others(timeline);
        for region in Region::ALL {
            if let Some((lane, domain)) = self.sole_domain(region) {
                drained += self.release_complete(lane, domain, |point| timeline.is_complete(point));
            }
        }
        drained
    }

    /// The same but for the memory of a lane that has a region to itself.
    pub(crate) fn drain_others(&mut self, timeline: &Timeline) -> u64 {
        let mut drained = 0;
        for entry in self.deferred.drain_settled(timeline) {
            let disposal = match entry.uses.single() {
                None => {
                    drained += entry.chunk.bytes;
                    Disposal::Anyone
                }
                Some(_) => Disposal::of(&entry.uses, entry.region, timeline),
            };
            self.dispose(entry.chunk.id, entry.chunk.bytes, entry.region, disposal);
        }
        let domains: Vec<Domain> = self.index.domains().collect();
        for domain in domains {
            if let Some(lane) = self.lane_of(domain).filter(|_| !self.is_soles(domain)) {
                timeline.refresh(lane);
                let is_complete = |point| timeline.is_known_complete(point);
                drained += self.release_complete(lane, domain, is_complete);
            }
        }
        drained
    }
}
