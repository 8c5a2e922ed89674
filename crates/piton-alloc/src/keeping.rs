//! How long a lane keeps what it freed, and where memory is that is free for all.
//!
//! A lane keeps what it freed, complete or not, until another lane asks (`lane_slots`). Then whatever of it is complete
//! moves to the shared domain, where everyone finds it.
//!
//! # A sole lane
//! Most programs allocate on one lane. Even if the host sees completions only a little late, what such a lane frees is
//! pending at first. It lies in the lane's own domain, beside free memory of the shared one. The lane may use both at
//! once, but the two do not merge, and each alone may be too small. So a lane that missed memory twice, with no other
//! asker in between, has the region to itself: from then on everything that is free for all is kept in the *lane's*
//! domain too, where it merges with what the lane frees.
//!
//! Protocol, all of it under `books`:
//!
//! - Free for all is what is in the shared domain, and what is in a sole lane's with a stamp that is known complete.
//!   Nothing else may go back to the source ([`Books::is_free_for_all`]).
//! - While a region has a sole lane, memory that becomes free for all goes to that lane's domain
//!   ([`Books::everyones`]) with stamp 0, because it waits for nothing. Merging may give it a later stamp.
//! - A request of another lane, or of none, ends this before it searches: what is complete moves to the shared domain
//!   ([`Books::own_domain`]). That takes a step per extent, all of which a recovery had gathered before.
//! - Where pages are mapped, no lane becomes the sole one while memory is pending on another. Merged with pending
//!   memory, complete memory can give no pages, and with a host far ahead that costs more than it gains.
//! - Stamps still say who must wait, as in every lane's domain. So a wrong guess about who is alone costs memory and
//!   never order.

use piton_suballoc::{Domain, Extent, ExtentState};
use piton_timeline::{LaneId, Timepoint};

use crate::books::Books;
use crate::region::{self, Region};

impl Books {
    /// The domain of the requester's own memory, if it has one. If another asked last, what is complete of that one's
    /// memory becomes everyone's first.
    #[inline(always)]
    pub(crate) fn own_domain(&mut self, lane: Option<LaneId>, region: Region) -> Option<Domain> {
        if !self.slots.asked_last(lane, region) {
            self.change_asker(lane, region);
        }
        region.of_lane(lane?)
    }

    /// Gives up what is complete of the last asker's memory in the region and of the new asker's.
    #[cold]
    fn change_asker(&mut self, lane: Option<LaneId>, region: Region) {
        if let Some(sole) = self.slots.end_sole(region) {
            self.share(sole, region);
        }
        let before = self.slots.note_asker(lane, region);
        let before = before.and_then(|slot| Some(self.slots.get(slot)?.tenant));
        for lane in before.into_iter().chain(lane) {
            self.give_up(lane, region);
        }
    }

    /// Gives up what became known complete of a lane's memory in a region.
    fn give_up(&mut self, lane: LaneId, region: Region) {
        let slot = self.slots.meet(lane, &self.timeline);
        if let Some(done) = slot.and_then(|slot| slot.newly_done(region)) {
            self.give_up_to(lane, region, done);
        }
    }

    /// Gives up what is known complete of the memory that a lane had to itself in a region, and what waits for nothing.
    fn share(&mut self, lane: LaneId, region: Region) {
        let done = self.known_done(lane);
        self.give_up_to(lane, region, done);
    }

    /// How far a lane is known to be; at least 0, which waits for nothing.
    fn known_done(&mut self, lane: LaneId) -> u64 {
        let slot = self.slots.meet(lane, &self.timeline);
        slot.and_then(|slot| slot.done()).unwrap_or(0)
    }

    fn give_up_to(&mut self, lane: LaneId, region: Region, done: u64) {
        let whole = self.domain_of_wholes(lane);
        for domain in region.of_lane(lane).into_iter().chain(whole) {
            self.release_complete(lane, domain, |point| point.seq <= done);
        }
    }

    /// The domain of a lane's Blocks that are wholly free but pending; `None` where memory does not come as Blocks.
    pub(crate) fn domain_of_wholes(&self, lane: LaneId) -> Option<Domain> {
        let domain = Region::Large.of_lane(lane)?;
        self.index.apart_from(domain)
    }

    /// Bytes in a lane's domain that are known complete, and the lane's still since nobody else asked.
    pub(crate) fn complete_in(&self, domain: Domain) -> u64 {
        let extents = self.index.extents_by_stamp(domain);
        let complete = extents.take_while(|extent| self.is_complete(extent));
        complete.map(|extent| extent.bytes).sum()
    }

    /// Whether a free extent is a lane's, and its last use known complete.
    pub(crate) fn is_complete(&self, extent: &Extent) -> bool {
        match extent.state {
            ExtentState::Free { domain, stamp } => self.slots.is_complete(domain, stamp),
            ExtentState::Live { .. } => false,
        }
    }

    /// Moves what is complete of a lane's memory to everyone, oldest first; returns the bytes.
    pub(crate) fn release_complete(
        &mut self,
        lane: LaneId,
        domain: Domain,
        is_complete: impl Fn(Timepoint) -> bool,
    ) -> u64 {
        let home = self.index.home_of(domain).unwrap_or(domain);
        let shared = Region::of(home).shared();
        let mut released = 0;
        loop {
            let usage = self.index.domain_usage(domain);
            let done = |seq| is_complete(Timepoint { lane, seq });
            if usage.extents == 0 || !done(usage.oldest) {
                return released;
            }
            let upto = if done(usage.newest) {
                usage.newest
            } else {
                usage.oldest
            };
            released += self.index.release_to(domain, upto, shared);
        }
    }

    /// Where memory goes that is free for all: to the domain of the region's sole lane, if there is one, so that it
    /// merges with what that lane frees.
    #[inline]
    pub(crate) fn everyones(&self, region: Region) -> Domain {
        self.sole_domain(region)
            .map_or(region.shared(), |(_, domain)| domain)
    }

    /// The lane that has a region to itself, and the domain of it.
    #[inline]
    pub(crate) fn sole_domain(&self, region: Region) -> Option<(LaneId, Domain)> {
        let lane = self.slots.sole(region)?;
        Some((lane, region.of_lane(lane)?))
    }

    /// Whether a domain is that of its region's sole lane.
    pub(crate) fn is_soles(&self, domain: Domain) -> bool {
        self.sole_domain(Region::of(domain))
            .is_some_and(|(_, sole)| sole == domain)
    }

    /// The domains, with their regions, that hold memory which is free for all. In a sole lane's, stamps say what is.
    pub(crate) fn domains_of_all(&self) -> impl Iterator<Item = (Region, Domain)> + '_ {
        Region::ALL.into_iter().flat_map(|region| {
            let sole = self.sole_domain(region).map(|(_, domain)| domain);
            let domains = [region.shared()].into_iter().chain(sole);
            domains.map(move |domain| (region, domain))
        })
    }

    /// Whether a free extent may go back to the source.
    pub(crate) fn is_free_for_all(&self, extent: &Extent) -> bool {
        match extent.state {
            ExtentState::Free { domain, .. } if domain == Region::of(domain).shared() => true,
            _ => self.is_complete(extent),
        }
    }

    /// Called when memory is missing for a request. Decides whether its lane is the sole one; if so, all that is free for
    /// all moves to the lane's domain.
    pub(crate) fn gather(&mut self, lane: Option<LaneId>, region: Region) {
        if !self.has_blocks() && self.is_pending_elsewhere(lane) {
            return;
        }
        self.slots.note_miss(lane, region);
        let Some((lane, domain)) = self.sole_domain(region) else {
            return;
        };
        self.timeline.refresh(lane);
        self.index.move_all(region.shared(), domain);
        // A Block that has become whole by that, and that nobody uses any more, is idle.
        if let Some(wholes) = self.domain_of_wholes(lane) {
            let done = self.known_done(lane);
            self.release_complete(lane, wholes, |point| point.seq <= done);
        }
    }

    /// Whether memory comes as Blocks.
    fn has_blocks(&self) -> bool {
        self.index.apart_from(Domain::SHARED).is_some()
    }

    /// Whether memory waits for somebody else's work.
    fn is_pending_elsewhere(&self, lane: Option<LaneId>) -> bool {
        let own = lane.map(|lane| lane.index);
        let mut slots = self.index.domains().filter_map(region::slot_of);
        self.deferred.bytes() > 0 || slots.any(|slot| Some(slot) != own)
    }
}
