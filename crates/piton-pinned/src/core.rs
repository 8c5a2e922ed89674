//! What a pool and its blocks share: the way of a block from request to reuse.
//!
//! # The way of a block
//! ```text
//!            request
//!               |                       a miss goes down, a hit stops
//!     the thread's magazine, then its depot  <---------+
//!     completed pending blocks  --> the magazine        |
//!     a cut of a region already held                    |
//!     the driver (under the cap)                        |
//!     everything unused merged or given back, once more |
//!               |                                       |
//!             block --dropped--> uses complete? --------+
//!                                     | no              |
//!                                  pending -------------+ when complete
//! ```
//! Lock order: the list of bells, then a bell's; each of the depots', the counters', the caches', the pending list's and the
//! regions' locks is held alone. No driver call is made under any.
//!
//! # How a pool ends
//! The pool's handles have a ticket between them, each block has one, and so has each thread that keeps something of
//! the pool. When the last handle goes, the pool is *closed*: what threads keep is taken from them, tickets too, and a block
//! that is dropped from then on goes to its depot. With the last ticket the memory goes back.

#![expect(
    unsafe_code,
    reason = "memory goes back to the driver when nothing of it is out"
)]

use crate::{
    Leftovers, PinnedError, PinnedPoolConfig, Staging,
    class_counts::AllCounters,
    events::Events,
    growth::Growth,
    keeper::Bell,
    leftovers::{Leftover, Remains},
    magazine::Depot,
    pending::{Complete, Pending},
    record::Record,
    regions::Regions,
    request::Request,
    source::Source,
    span::{RegionId, Span},
    thread_cache::{self, PoolCaches},
    tickets::Ticket,
};
use piton_driver::HostAllocation;
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use piton_timeline::{Frontier, Timeline};
use std::{collections::BTreeMap, sync::Arc};

/// Before the driver is asked, free blocks are merged if they are at least one part in so many of all there is. See
/// `docs/benchmarks.md`.
const WORTH_MERGING: u64 = 64;

/// The shared part of a pool. Lives as long as the pool or one of its blocks.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) source: Arc<Source>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) config: PinnedPoolConfig,
    pub(crate) leftovers: Leftovers,
    pub(crate) counters: AllCounters,
    pub(crate) events: Events,
    /// By number of the size class.
    pub(crate) depots: Vec<Depot<Box<Record>>>,
    /// How many blocks make half a magazine, for the classes that threads keep.
    pub(crate) halves: Vec<usize>,
    /// What threads keep.
    pub(crate) caches: PoolCaches,
    pub(crate) closed: Arc<AtomicBool>,
    /// The bells of keepers.
    bells: Mutex<Vec<Arc<Bell>>>,
    pub(crate) pending: Pending<Box<Record>>,
    pub(crate) regions: Mutex<Regions>,
    pub(crate) staging: Staging,
}

/// A block that was taken, and the reference to the pool that goes with it.
pub(crate) type Taken = (Box<Record>, Ticket<Core>);

impl Core {
    /// # Errors
    /// [`PinnedError::Books`], which does not happen with the units used here.
    pub(crate) fn new(
        source: Source,
        timeline: Arc<Timeline>,
        config: PinnedPoolConfig,
        leftovers: Leftovers,
    ) -> Result<Self, PinnedError> {
        let halves: Vec<usize> = config
            .classes()
            .map_while(|class| config.half_magazine(class))
            .collect();
        let queue_blocks = usize::try_from(config.queue_blocks).unwrap_or(usize::MAX);
        let batches = |class: usize| queue_blocks / halves.get(class).copied().unwrap_or(1);
        let classes = config.classes().count();
        Ok(Self {
            source: Arc::new(source),
            timeline,
            config,
            leftovers,
            counters: AllCounters::new(classes),
            events: Events::default(),
            depots: (0..classes)
                .map(|class| Depot::new(batches(class)))
                .collect(),
            halves,
            caches: PoolCaches::default(),
            closed: Arc::new(AtomicBool::new(false)),
            bells: Mutex::new(Vec::new()),
            pending: Pending::new(),
            regions: Mutex::new(Regions::new()?),
            staging: Staging::new(config.staging),
        })
    }

    /// Whether the last handle has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Puts a block nobody uses where any thread finds it.
    pub(crate) fn shelve(&self, record: Box<Record>) {
        let class = record.span.class;
        match class.and_then(|class| self.depots.get(class.index())) {
            Some(depot) => depot.put(vec![record]),
            None => self.put_back(&mut self.regions.lock(), record),
        }
    }

    /// Moves blocks whose uses have become complete to the depots, those of one class together.
    pub(crate) fn collect(&self) {
        self.shelve_all(self.pending.take_complete(&self.timeline));
    }

    pub(crate) fn shelve_all(&self, mut records: Complete<Box<Record>>) {
        records.sort_by_key(|record| record.span.class);
        let mut records = records.into_iter().peekable();
        while let Some(record) = records.next() {
            let Some(class) = record.span.class else {
                self.shelve(record);
                continue;
            };
            let half = self.halves.get(class.index()).copied().unwrap_or(1);
            let mut batch = vec![record];
            while batch.len() < half
                && let Some(next) = records.next_if(|next| next.span.class == Some(class))
            {
                batch.push(next);
            }
            if let Some(depot) = self.depots.get(class.index()) {
                depot.put(batch);
            }
        }
    }

    /// The record ends, and its memory goes back into the books.
    pub(crate) fn put_back(&self, regions: &mut Regions, record: Box<Record>) {
        let span = record.span;
        drop(record);
        regions.put_back(&span);
    }

    /// Puts everything free back into the books, where neighbours merge, then gives regions of which nothing is out
    /// back to the driver until at most `keep` bytes are held. Returns the bytes given back. What threads keep stays: see
    /// [`trim`].
    fn release(&self, keep: u64) -> u64 {
        self.collect();
        self.empty_depots();
        let mut regions = self.regions.lock();
        let removed = regions.remove_unused(keep);
        drop(regions);
        let bytes = removed.iter().map(|allocation| allocation.bytes as u64);
        let bytes = bytes.sum();
        removed
            .into_iter()
            .for_each(|allocation| self.free(allocation));
        bytes
    }

    /// A block of the depot for a thread that keeps none.
    pub(crate) fn take_from_depot(&self, request: &Request) -> Option<Box<Record>> {
        self.depots.get(request.listed_class()?.index())?.take_one()
    }

    /// Memory for a request out of what depots hold, if that is enough and so much of all there is that it had better be
    /// merged than added to. What threads keep is left to them until there is no more to be had: taken here, requests of
    /// many sizes would cut up what they have just put together.
    pub(crate) fn take_merged(&self, request: &Request) -> Option<Span> {
        let held = self.regions.lock().held();
        if request.class.is_none() || self.depot_bytes() < request.bytes.max(held / WORTH_MERGING) {
            return None;
        }
        self.empty_depots();
        self.take_cut(request)
    }

    /// Gives regions back that are too small for a large request, before the driver is asked for it: a sequence of requests
    /// that grow would otherwise leave them all behind.
    pub(crate) fn exchange_exact(&self, request: &Request) {
        if request.class.is_none() {
            let removed = self.regions.lock().remove_exact(request.bytes);
            removed.into_iter().for_each(|region| self.free(region));
        }
    }

    /// Puts everything depots hold back into the books, where neighbours merge.
    fn empty_depots(&self) {
        let free = self.depots.iter().flat_map(Depot::drain).flatten();
        let free: Vec<Box<Record>> = free.collect();
        let mut regions = self.regions.lock();
        for record in free {
            self.put_back(&mut regions, record);
        }
    }

    /// Lets a keeper be called by this bell.
    pub(crate) fn attach(&self, bell: Arc<Bell>) {
        let mut bells = self.bells.lock();
        // Those of keepers that have gone are only here.
        bells.retain(|bell| Arc::strong_count(bell) > 1);
        bells.push(bell);
    }

    /// Has keepers tend the pool, or see that it is closed.
    fn ring(&self) {
        self.bells.lock().iter().for_each(|bell| bell.ring());
    }

    pub(crate) fn ring_if_short(&self) {
        if self.config.ahead_bytes > 0 && self.is_short() {
            self.ring();
        }
    }

    pub(crate) fn take_cut(&self, request: &Request) -> Option<Span> {
        self.regions.lock().take(request)
    }

    /// Asks the driver for a region; its bytes. May block.
    pub(crate) fn grow(&self, growth: Growth) -> Result<u64, PinnedError> {
        self.grow_and(growth, |_| ()).map(|(bytes, ())| bytes)
    }

    /// As [`grow`](Self::grow), and does `then` with the books before any other thread finds the region there.
    pub(crate) fn grow_and<R>(
        &self,
        growth: Growth,
        then: impl FnOnce(&mut Regions) -> R,
    ) -> Result<(u64, R), PinnedError> {
        self.leftovers.sweep();
        let reserved = self.regions.lock().reserve(growth, self.config.cap_bytes);
        let reserved = reserved.ok_or_else(|| self.cap_reached(growth.least()))?;
        let allocated = self.source.allocate(reserved);
        let mut regions = self.regions.lock();
        let allocation = allocated.inspect_err(|_| regions.unreserve(reserved))?;
        let bytes = allocation.bytes as u64;
        let added = regions.add(allocation, reserved, growth.class);
        let added = added.map(|()| then(&mut regions));
        drop(regions);
        let done = added.map_err(|(allocation, error)| {
            self.free(allocation);
            PinnedError::Books(error)
        })?;
        Ok((bytes, done))
    }

    pub(crate) fn cap_reached(&self, requested: u64) -> PinnedError {
        let stats = self.stats();
        PinnedError::CapReached {
            requested,
            cap: self.config.cap_bytes,
            held: stats.held_bytes,
            live: stats.live_bytes,
            pending: stats.pending_bytes,
        }
    }

    pub(crate) fn free(&self, allocation: HostAllocation) {
        // SAFETY: the books gave the allocation up, so every span of it had been put back; a span is put back when
        // its block is gone and its uses are complete, so neither a reference nor a command is left.
        unsafe { self.source.free(allocation) }
    }
}

/// Gives memory back as [`Core::release`] does, after what threads keep has gone to the depots. What one keeps that is in a
/// call stays; it gives it up at its next.
pub(crate) fn trim(core: &Ticket<Core>, keep: u64) -> u64 {
    recall(core);
    core.release(keep)
}

/// Has what threads keep given to the depots.
pub(crate) fn recall(core: &Ticket<Core>) {
    thread_cache::flush(core);
    core.caches.recall(core);
}

/// The last handle has gone: what threads keep is taken.
pub(crate) fn close(core: &Ticket<Core>) {
    core.closed.store(true, Ordering::Relaxed);
    core.ring();
    thread_cache::forget(core);
    core.caches.end();
}

impl Drop for Core {
    /// No block is out any more. Regions that no device uses go back to the driver; the others move to the leftovers.
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            return;
        }
        let mut uses: BTreeMap<RegionId, Frontier> = BTreeMap::new();
        let mut regions = self.regions.lock();
        for (record, awaited) in self.pending.drain() {
            if let Some(region) = regions.region_of(&record.span) {
                uses.entry(region).or_default().join(&awaited);
            }
        }
        let drained = regions.drain();
        drop(regions);
        for (id, allocation) in drained {
            self.leftovers.keep(Leftover {
                source: Arc::clone(&self.source),
                timeline: Arc::clone(&self.timeline),
                remains: Remains::Allocation(allocation),
                uses: uses.remove(&id).unwrap_or_default(),
            });
        }
    }
}
