//! Which requests may break into a Block that is wholly free.
//!
//! A Block is given back whole or not at all, so a small survivor in a large one costs all of it. Wholly free Blocks
//! are in a domain of their own (`Region::IDLE`), which the ordinary search does not see: it fills Blocks in use
//! first. Only then may a request take an idle Block, if it is not much larger than the Block that would be asked
//! for. Otherwise the pool asks for that Block, and gives the idle one back if it would hold more than ever before.
//!
//! Programs whose sizes alternate could have Blocks come and go all the time. While the limit is far they are spared
//! that: if Blocks go back too often, any idle one will do.

use piton_suballoc::{Chunk, Extent};
use piton_timeline::Frontier;

use crate::allocation::Allocation;
use crate::books::Books;
use crate::config::Settings;
use crate::region::Region;
use crate::request::Request;

/// A large request's Block may be larger than the request by this part of it.
const EXACT_SLACK: u64 = 4;
/// A smaller request's Block may be larger by this part than the one that would be asked for.
const SHARED_SLACK: u64 = 2;
/// Blocks that go back in more than one of so many requests are too many.
const SELDOM: u64 = 40;
/// The limit is far while the pool holds less than this part of it.
const FAR: u64 = 2;

/// The settings that say how large a Block may be broken into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleRule {
    block_bytes: u64,
    block_multiple: u64,
    growth_percent: u64,
    exact_from: u64,
    limit: u64,
}

impl IdleRule {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            block_bytes: settings.block_bytes,
            block_multiple: settings.block_multiple,
            growth_percent: u64::from(settings.growth_percent),
            exact_from: settings.exact_from,
            limit: settings.limit,
        }
    }

    /// Bytes of the largest idle Block that a request of `bytes` bytes may have, where `held` bytes are held.
    fn most(&self, bytes: u64, held: u64) -> u64 {
        let exact = bytes.next_multiple_of(self.block_multiple.max(1));
        if bytes >= self.exact_from {
            return exact.saturating_add(exact / EXACT_SLACK);
        }
        let share = held / 100 * self.growth_percent;
        let least = share.max(self.block_bytes).max(exact);
        least.saturating_add(least / SHARED_SLACK)
    }
}

impl Books {
    /// Memory of a Block that is free as a whole, idle or pending on the request's own lane, if there is one that is not too large
    /// for the request. Without Blocks there is none.
    #[cold]
    pub(crate) fn break_idle(&mut self, request: &Request) -> Option<Chunk> {
        let block = self.least_whole(request)?;
        let is_small_enough = block.bytes <= self.idle_rule.most(request.bytes, self.held);
        if !is_small_enough && !self.is_to_be_spared() {
            return None;
        }
        self.index
            .break_into(block.id, request.bytes, request.align)
    }

    /// The smallest Block that is free as a whole and holds the request.
    fn least_whole(&self, request: &Request) -> Option<Extent> {
        let own = request.lane.and_then(|lane| self.domain_of_wholes(lane));
        let domains = [own, Some(Region::IDLE)].into_iter().flatten();
        let blocks =
            domains.filter_map(|domain| self.index.peek(domain, request.bytes, request.align));
        blocks.min_by_key(|block| block.bytes)
    }

    /// Memory of the Block at an offset, if that is free as a whole, however large it is.
    pub(crate) fn take_of_block(
        &mut self,
        offset: u64,
        request: &Request,
        region: Region,
    ) -> Option<Allocation> {
        let block = self.index.extents_of(offset).next()?;
        let chunk = self
            .index
            .break_into(block.id, request.bytes, request.align)?;
        self.issue(chunk, request, region, Frontier::new(), Frontier::new())
    }

    /// Memory of any idle Block: nothing else is left.
    pub(crate) fn take_idle(&mut self, request: &Request, region: Region) -> Option<Allocation> {
        let idle = self
            .index
            .peek(Region::IDLE, request.bytes, request.align)?;
        self.take_of_block(idle.offset, request, region)
    }

    /// Whether the source should be asked for as little as can be: the program lives on what it reserved, or Blocks go back
    /// too often while the limit is far.
    pub(crate) fn is_to_be_spared(&self) -> bool {
        let on_its_reserve = self.reserved > 0 && self.held <= self.reserved;
        let is_far = self.held < self.idle_rule.limit / FAR;
        let counters = &self.counters;
        let often = counters.block_frees.saturating_mul(SELDOM) > counters.hits + counters.misses;
        on_its_reserve || is_far && often
    }
}
