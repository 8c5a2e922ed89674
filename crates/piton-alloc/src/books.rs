//! What the pool's lock guards: the index, the Blocks, the pending memory and the counters.
//!
//! Nothing here calls the source or waits. Invariant, checked by `check`:
//! `held + suspended = live + padding + cached + pending + in_transit`, where in transit is what the index does not know
//! of and what is claimed from it while the source is called.

use std::sync::Arc;

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::{Chunk, ConfigError as IndexError, Domain, ExtentId, Tlsf};
use piton_sync::atomic::Ordering;
use piton_timeline::{Frontier, LaneId, Timeline, Timepoint};

use crate::allocation::{Allocation, OtherUses, PoolId, Taken};
use crate::block::{Block, Blocks};
use crate::config::Settings;
use crate::deferred::Deferred;
use crate::events::{EventRing, MemoryEventKind};
use crate::front::Fronts;
use crate::lane_slots::LaneSlots;
use crate::lookup::{Directory, Record};
use crate::placement::{IdleRule, PageTable, SuspendedBytes};
use crate::region::{self, Region};
use crate::request::Request;
use crate::reuse::{Disposal, LastUse};
use crate::stats::{Counters, PoolStats};

/// The state of a pool.
#[derive(Debug)]
pub(crate) struct Books {
    pool: PoolId,
    /// All Blocks as ranges. Domains are lane slots: what a lane freed and may still use.
    pub(crate) index: Tlsf,
    pub(crate) blocks: Blocks,
    pub(crate) deferred: Deferred,
    pub(crate) counters: Counters,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) slots: LaneSlots,
    /// Bytes asked for by allocations in use, and how many those are. Chunks on the shelves of fronts count.
    pub(crate) live: u64,
    pub(crate) allocations: u64,
    /// Bytes that the source gave and has not got back.
    pub(crate) held: u64,
    /// Those of them that the index does not know: withdrawn Blocks, and pages that are mapped nowhere.
    pub(crate) outside: u64,
    /// What the pool was told to hold for requests to come.
    pub(crate) reserved: u64,
    /// What is claimed from the index while pages are mapped or unmapped.
    pub(crate) claims: Claims,
    /// Allocations without their pages.
    pub(crate) suspended: SuspendedBytes,
    /// Whether there may be a Block that was added and that nothing was taken from.
    pub(crate) has_unbroken: bool,
    /// Whether requests take the place that fits best, whoever used it last: see `crowd`.
    pub(crate) is_crowded: bool,
    /// How large a Block a request may break into.
    pub(crate) idle_rule: IdleRule,
    /// The last things that happened.
    pub(crate) events: EventRing,
    /// They see a little of these books.
    fronts: Arc<Fronts>,
    /// What is live, for those who have an address and no lock.
    pub(crate) directory: Arc<Directory>,
    /// Which pages back which addresses; empty without virtual addressing.
    pub(crate) pages: PageTable,
}

/// Chunks of the index that are no allocations: claimed by whoever calls the source meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Claims {
    pub(crate) chunks: u64,
    /// Bytes in them that pages back.
    pub(crate) backed: u64,
    /// Bytes in them that nothing backs yet.
    pub(crate) hollow: u64,
}

impl Books {
    pub(crate) fn new(
        pool: PoolId,
        settings: &Settings,
        timeline: Arc<Timeline>,
        fronts: Arc<Fronts>,
        directory: Arc<Directory>,
    ) -> Result<Self, IndexError> {
        let mut index = Tlsf::empty(settings.unit)?;
        index.look_at(settings.tries);
        Ok(Self {
            pool,
            index,
            blocks: Blocks::new(Arc::clone(&directory)),
            deferred: Deferred::default(),
            counters: Counters::default(),
            timeline,
            slots: LaneSlots::default(),
            live: 0,
            allocations: 0,
            held: 0,
            outside: 0,
            reserved: 0,
            claims: Claims::default(),
            suspended: SuspendedBytes::default(),
            has_unbroken: false,
            is_crowded: false,
            idle_rule: IdleRule::new(settings),
            events: EventRing::new(settings.events),
            fronts,
            directory,
            pages: PageTable::default(),
        })
    }

    /// What can be had without looking at other lanes' memory: the lane's own, then everyone's.
    #[inline(always)]
    pub(crate) fn take_at_once(&mut self, request: &Request, region: Region) -> Option<Taken> {
        let shared = region.shared();
        let own = self.own_domain(request.lane, region);
        let (bytes, align) = (request.bytes, request.align);
        let found = match own {
            Some(own) => self.index.allocate_from([own, shared], bytes, align),
            None => self.index.allocate(shared, bytes, align),
        };
        let chunk = match found {
            Some(chunk) => chunk,
            None => self.break_idle(request)?,
        };
        // What is everyone's waits for nothing: its stamp is 0.
        self.issue_plainly(&chunk, request, region, chunk.stamp)
    }

    /// The same as an allocation, for those who have taken longer already.
    #[inline(never)]
    pub(crate) fn take_again(&mut self, request: &Request, region: Region) -> Option<Allocation> {
        let taken = self.take_at_once(request, region)?;
        Some(taken.handle(self.pool, request))
    }

    /// Makes a handle of a chunk just taken from the index. `None` only if the Blocks do not match the index.
    pub(crate) fn issue(
        &mut self,
        chunk: Chunk,
        request: &Request,
        region: Region,
        wait: Frontier,
        earlier: Frontier,
    ) -> Option<Allocation> {
        self.counters.waits += u64::from(!wait.is_empty());
        let (own, others) = OtherUses::split(request.lane, wait, earlier);
        let taken = self.issue_plainly(&chunk, request, region, own)?;
        Some(Allocation {
            others,
            ..taken.handle(self.pool, request)
        })
    }

    #[inline(always)]
    fn issue_plainly(
        &mut self,
        chunk: &Chunk,
        request: &Request,
        region: Region,
        own: u64,
    ) -> Option<Taken> {
        let ptr = self.blocks.find_address(chunk.offset)?;
        let record = Record {
            ptr,
            bytes: request.bytes,
            lane: request.lane,
            tag: request.tag,
        };
        self.note_handed_out(chunk, &record);
        if self.live > self.counters.peak_live {
            self.note_peak();
        }
        Some(Taken {
            own,
            padding: chunk.bytes - request.bytes,
            ptr,
            id: chunk.id,
            region,
        })
    }

    #[cold]
    fn note_peak(&mut self) {
        let in_use = self.live.saturating_sub(self.fronts.shelved());
        self.counters.peak_live = self.counters.peak_live.max(in_use);
    }

    /// Takes an allocation back; `false` if it is not live.
    pub(crate) fn give_back(&mut self, allocation: &Allocation, disposal: Disposal) -> bool {
        let (id, rounded) = (allocation.id, allocation.rounded_bytes());
        let is_live = self.dispose(id, rounded, allocation.region(), disposal);
        if is_live {
            self.note_freed(allocation);
        }
        is_live
    }

    /// Takes an allocation back whose last use is at most one point; otherwise, and where it is not live, `false`, and nothing
    /// is changed.
    #[inline(always)]
    pub(crate) fn give_back_simply(&mut self, allocation: &Allocation, last: LastUse) -> bool {
        let region = allocation.region();
        let place = match last {
            LastUse::None => Some((self.everyones(region), 0)),
            LastUse::At(point) => self.place_of(region, point),
            LastUse::Several => None,
        };
        let Some((domain, stamp)) = place else {
            return false;
        };
        let is_live = self.index.free(allocation.id, domain, stamp).is_ok();
        if is_live {
            self.note_freed(allocation);
        }
        is_live
    }

    /// Where memory belongs whose last use is a point, and the stamp it has there; `None` if that takes a closer look.
    #[inline(always)]
    pub(crate) fn place_of(&mut self, region: Region, point: Timepoint) -> Option<(Domain, u64)> {
        let sole = self.slots.sole(region);
        let slot = self.slots.get_mut(point.lane.index)?;
        let is_sole = sole.is_some_and(|sole| sole.index == point.lane.index);
        if slot.done()? >= point.seq && !is_sole {
            return Some((self.everyones(region), 0));
        }
        slot.tenant = point.lane;
        Some((region.of_lane(point.lane)?, point.seq))
    }

    /// A chunk that comes back to the index is no allocation's start any more.
    #[inline]
    pub(crate) fn unlist(&self, id: ExtentId) {
        self.directory.unlist(id);
    }

    /// Remembers an event.
    #[inline(always)]
    pub(crate) fn note(&mut self, kind: MemoryEventKind, range: DeviceRange, lane: Option<LaneId>) {
        let clock = self.events.push(kind, range, lane);
        self.fronts.pulse.clock.store(clock, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set_live(&mut self, bytes: u64) {
        self.live = bytes;
        self.fronts.pulse.live.store(bytes, Ordering::Relaxed);
    }

    /// A chunk is an allocation from now on.
    #[inline(always)]
    pub(crate) fn note_handed_out(&mut self, chunk: &Chunk, record: &Record) {
        self.directory.publish(chunk.id, chunk.offset, record);
        let range = DeviceRange {
            start: record.ptr,
            bytes: record.bytes,
        };
        self.note(MemoryEventKind::Allocated, range, record.lane);
        self.set_live(self.live + record.bytes);
        self.allocations += 1;
    }

    /// An allocation is none any more.
    #[inline(always)]
    pub(crate) fn note_taken_back(&mut self, allocation: &Allocation) {
        self.directory.withdraw(allocation.id);
        self.note(
            MemoryEventKind::Freed,
            allocation.range(),
            allocation.lane(),
        );
        self.set_live(self.live - allocation.bytes);
        self.allocations -= 1;
    }

    #[inline(always)]
    pub(crate) fn note_freed(&mut self, allocation: &Allocation) {
        self.note_taken_back(allocation);
        self.counters.frees += 1;
    }

    /// A request found no memory.
    pub(crate) fn note_out_of_memory(&mut self, request: &Request) {
        self.counters.out_of_memory += 1;
        let nowhere = DeviceRange {
            start: DevicePtr::new(0),
            bytes: request.bytes,
        };
        self.note(MemoryEventKind::OutOfMemory, nowhere, request.lane);
    }

    /// Puts a live chunk of the index where it belongs now; `false` if it is not live.
    pub(crate) fn dispose(
        &mut self,
        id: ExtentId,
        rounded: u64,
        region: Region,
        disposal: Disposal,
    ) -> bool {
        match disposal {
            Disposal::Anyone => self.index.free(id, self.everyones(region), 0).is_ok(),
            Disposal::Lane(domain, point) => {
                self.expect(point);
                self.index.free(id, domain, point.seq).is_ok()
            }
            Disposal::Deferred(uses) => match self.index.cut(id, rounded) {
                Ok((chunk, _)) => {
                    self.deferred.push(chunk, uses, region);
                    true
                }
                Err(_) => false,
            },
        }
    }

    /// The lane whose memory a domain holds.
    pub(crate) fn lane_of(&self, domain: Domain) -> Option<LaneId> {
        let slot = self.slots.get(region::slot_of(domain)?)?;
        Some(slot.tenant)
    }

    /// Adds a Block the source has just given; returns its offset.
    pub(crate) fn add_block(
        &mut self,
        range: DeviceRange,
        region: Region,
    ) -> Result<u64, IndexError> {
        let offset = self.index.add_range(range.bytes)?;
        self.give_to(offset, self.everyones(region));
        self.blocks.insert(Block { offset, range });
        self.note(MemoryEventKind::BlockAdded, range, None);
        self.held += range.bytes;
        self.counters.peak_held = self.counters.peak_held.max(self.held);
        Ok(offset)
    }

    /// Takes a wholly free Block out of the index, so that nobody can be given a part of it. It stays held, in transit,
    /// until [`forget`](Self::forget) or [`restore`](Self::restore).
    pub(crate) fn withdraw(&mut self, offset: u64) -> Option<Block> {
        // One that was just added and serves nobody yet is not idle.
        self.index
            .remove_range(offset, Region::IDLE)
            .or_else(|_| self.index.remove_range(offset, Region::Large.shared()))
            .ok()?;
        let block = self.blocks.remove(offset)?;
        self.outside += block.range.bytes;
        Some(block)
    }

    /// The withdrawn Block is the source's again.
    pub(crate) fn forget(&mut self, block: Block) {
        self.note(MemoryEventKind::BlockReturned, block.range, None);
        self.outside -= block.range.bytes;
        self.held -= block.range.bytes;
    }

    /// The source did not take the withdrawn Block: it serves on.
    pub(crate) fn restore(&mut self, block: Block) {
        if let Ok(offset) = self.index.add_range(block.range.bytes) {
            self.give_to(offset, Region::IDLE);
            self.outside -= block.range.bytes;
            self.blocks.insert(Block { offset, ..block });
        }
    }

    /// Moves a new range, wholly free in the shared domain, to another.
    pub(crate) fn give_to(&mut self, offset: u64, domain: Domain) {
        if domain.is_shared() {
            return;
        }
        let whole = self.index.extents_of(offset).next();
        if let Some(extent) = whole {
            let moved = self.index.move_domain(extent.id, Domain::SHARED, domain);
            debug_assert!(moved.is_ok());
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let usage = self.index.usage();
        let deferred = self.deferred.bytes();
        let free = |domain| self.index.domain_usage(domain).bytes;
        let unbacked = self.unbacked();
        let others = free(Region::Small.shared()) + free(Region::IDLE);
        let kept: u64 = self
            .index
            .domains()
            .map(|domain| self.complete_in(domain))
            .sum();
        let counters = self.counters;
        PoolStats {
            hits: counters.hits,
            misses: counters.misses,
            frees: counters.frees,
            out_of_memory: counters.out_of_memory,
            waits: counters.waits,
            block_allocations: counters.block_allocations,
            block_frees: counters.block_frees,
            page_calls: counters.page_calls,
            stolen_bytes: counters.stolen,
            blocks: self.blocks.iter().len() as u64,
            allocations: self.allocations,
            live_bytes: self.live,
            padding_bytes: usage.padding,
            cached_bytes: usage.shared + others + kept,
            pending_bytes: usage.reserved - others - unbacked - kept + deferred,
            in_transit_bytes: self.outside + self.claims.backed + self.suspended.backed,
            suspended_bytes: self.suspended.live,
            held_bytes: self.held,
            peak_live_bytes: counters.peak_live,
            peak_held_bytes: counters.peak_held,
        }
    }

    /// Free bytes of the index that nothing backs.
    pub(crate) fn unbacked(&self) -> u64 {
        let bytes = |region: &Region| self.index.domain_usage(region.unbacked()).bytes;
        Region::ALL.iter().map(bytes).sum()
    }

    /// Memory whose last use is this point comes into its lane's domain.
    fn expect(&mut self, point: Timepoint) {
        if let Some(slot) = self.slots.meet(point.lane, &self.timeline) {
            slot.tenant = point.lane;
        }
    }
}
