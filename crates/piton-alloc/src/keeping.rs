//! How long a lane keeps what it freed, and who has what is free for all.
//!
//! A lane keeps what it freed, complete or not, until another asks (`lane_slots`). Then what is complete of it moves to the
//! shared domain, where everyone finds it.
//!
//! # A sole lane
//! Most programs allocate on one lane. If the host sees the end of work a little late, what such a lane frees is pending and lies
//! in its own domain, beside memory of the shared one that it may use just as well. The two would not merge, and each alone may be
//! too small. So a lane that missed memory twice, with no other asker between, has the region to itself: from then on
//! all that is free for all is kept in *its* domain too, where it merges with what the lane frees.
//!
//! Protocol, all of it under `books`:
//!
//! - Free for all is what lies in the shared domain, and what of a sole lane's domain is known complete. That alone may go
//!   back to the source ([`Books::is_free_for_all`]).
//! - While a region has a sole lane, what becomes free for all goes to the lane's domain ([`Books::everyones`]), with stamp 0: it
//!   waits for nothing. What it merges with may give it a later stamp.
//! - A request of another lane, or of none, ends it before it looks: what is complete moves to the shared domain
//!   ([`Books::own_domain`]). That is a step per extent, and each of them was gathered in a recovery before.
//! - Where pages are mapped nobody becomes the sole lane while memory waits for another lane's work: merged with what is pending,
//!   complete memory can give no pages, and with a host far ahead that costs more than it gains (`neox20b` 1.39 for 1.29).
//! - Stamps say who must wait, as in every lane's domain, so a mistake about who is alone costs memory and never order.

use piton_suballoc::{Domain, Extent, ExtentState};
use piton_timeline::{LaneId, Timepoint};

use crate::books::Books;
use crate::region::{self, Region};

impl Books {
    /// The domain of the requester's own memory, if it has one. What is complete of the last requester's is everyone's if that
    /// was another.
    #[inline(always)]
    pub(crate) fn own_domain(&mut self, lane: Option<LaneId>, region: Region) -> Option<Domain> {
        if !self.slots.asked_last(lane, region) {
            self.change_asker(lane, region);
        }
        region.of_lane(lane?)
    }

    /// Gives up what is complete of those who asked last in the region and ask now.
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
        let slot = self.slots.meet(lane, &self.timeline);
        let done = slot.and_then(|slot| slot.done()).unwrap_or(0);
        self.give_up_to(lane, region, done);
    }

    fn give_up_to(&mut self, lane: LaneId, region: Region, done: u64) {
        let whole = self.domain_of_wholes(lane);
        for domain in region.of_lane(lane).into_iter().chain(whole) {
            self.release_complete(lane, domain, |point| point.seq <= done);
        }
    }

    /// Where a lane's Blocks hang that are pending as a whole, if there are Blocks.
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

    /// Where memory goes that is free for all: to the lane that has the region to itself, if there is one, so that it merges with
    /// what that frees.
    #[inline]
    pub(crate) fn everyones(&self, region: Region) -> Domain {
        let sole = self.slots.sole(region);
        sole.and_then(|lane| region.of_lane(lane))
            .unwrap_or(region.shared())
    }

    /// The lane that has a region to itself, and the domain of it.
    pub(crate) fn sole_domain(&self, region: Region) -> Option<(LaneId, Domain)> {
        let lane = self.slots.sole(region)?;
        Some((lane, region.of_lane(lane)?))
    }

    /// The domains that have memory which is free for all, and their regions: what of a sole lane's is, its stamps say.
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

    /// Memory is missing: a lane that alone asks has all there is in one domain.
    pub(crate) fn gather(&mut self, lane: Option<LaneId>, region: Region) {
        if !self.has_blocks() && self.is_pending_elsewhere(lane) {
            return;
        }
        self.slots.note_miss(lane, region);
        if let Some((lane, domain)) = self.sole_domain(region) {
            let seq = self.index.domain_usage(domain).newest;
            self.timeline.is_complete(Timepoint { lane, seq });
        }
        self.index.move_all(region.shared(), self.everyones(region));
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
