//! What a pool and its blocks share: the way of a block from request to reuse.
//!
//! # The way of a block
//! ```text
//!            request
//!               |                       a miss goes down, a hit stops
//!     free list of its class  <----------------------+
//!     completed pending blocks  --> free lists       |
//!     a cut of a slab already held                   |
//!     the driver (under the cap)                     |
//!     everything unused merged or given back, once more
//!               |                                    |
//!             block --dropped--> uses complete? -----+
//!                                     | no           |
//!                                  pending ----------+ when complete
//! ```
//! Lock order: each of the free lists', the pending list's and the regions' locks is held alone. No driver call
//! is made under any.

#![expect(
    unsafe_code,
    reason = "memory goes back to the driver when nothing of it is out"
)]

use crate::{
    Leftovers, PinnedError, PinnedPoolConfig,
    config::PAGE,
    counters::Counters,
    free_list::FreeList,
    leftovers::{Leftover, Remains},
    pending::Pending,
    regions::Regions,
    request::Request,
    source::Source,
    span::{RegionId, Span},
};
use piton_driver::{ErrorKind, HostAllocation};
use piton_suballoc::SizeClass;
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline};
use std::{collections::BTreeMap, sync::Arc};

/// The shared part of a pool. Lives as long as the pool or one of its blocks.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) source: Arc<Source>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) config: PinnedPoolConfig,
    pub(crate) leftovers: Leftovers,
    pub(crate) counters: Counters,
    /// By number of the size class.
    pub(crate) free: Vec<FreeList<Span>>,
    pub(crate) pending: Pending<Span>,
    pub(crate) regions: Mutex<Regions>,
}

impl Core {
    pub(crate) fn new(
        source: Source,
        timeline: Arc<Timeline>,
        config: PinnedPoolConfig,
        leftovers: Leftovers,
    ) -> Self {
        let largest = SizeClass::for_bytes(config.large_above_bytes);
        let classes = largest.map_or(0, |class| class.index() + 1);
        let queue_blocks = usize::try_from(config.queue_blocks).unwrap_or(usize::MAX);
        Self {
            source: Arc::new(source),
            timeline,
            config,
            leftovers,
            counters: Counters::default(),
            free: (0..classes).map(|_| FreeList::new(queue_blocks)).collect(),
            pending: Pending::new(),
            regions: Mutex::new(Regions::default()),
        }
    }

    /// Takes memory for a request; see the picture above.
    pub(crate) fn take(&self, request: &Request) -> Result<Span, PinnedError> {
        if let Some(span) = self.take_cached(request) {
            self.counters.hit();
            return Ok(span);
        }
        let taken = self
            .take_cut(request)
            .map_or_else(|| self.grow(request), Ok);
        if let Err(error) = &taken
            && is_shortage(error)
            && self.make_room(request, error)
        {
            return self
                .take_cut(request)
                .map_or_else(|| self.grow(request), Ok)
                .inspect_err(|_| self.counters.failure());
        }
        taken.inspect_err(|_| self.counters.failure())
    }

    /// Takes a block back. It may be handed out again once `uses` are complete.
    pub(crate) fn give_back(&self, span: Span, mut uses: Frontier) {
        uses.retain_pending(&self.timeline);
        if let Some(span) = self.pending.park(span, uses) {
            self.shelve(span);
        }
    }

    /// Moves blocks whose uses have become complete to the free lists.
    pub(crate) fn collect(&self) {
        let complete = self.pending.take_complete(&self.timeline);
        complete.into_iter().for_each(|span| self.shelve(span));
    }

    /// Puts everything free back into the books, where neighbours merge, then gives regions of which nothing is out
    /// back to the driver until at most `keep` bytes are held. Returns the bytes given back.
    pub(crate) fn trim(&self, keep: u64) -> u64 {
        self.collect();
        let free: Vec<Span> = self.free.iter().flat_map(FreeList::drain).collect();
        let mut regions = self.regions.lock();
        free.into_iter().for_each(|span| regions.put_back(span));
        let removed = regions.remove_unused(keep);
        drop(regions);
        let bytes = removed.iter().map(|allocation| allocation.bytes as u64);
        let bytes = bytes.sum();
        removed
            .into_iter()
            .for_each(|allocation| self.free(allocation));
        bytes
    }

    fn take_cached(&self, request: &Request) -> Option<Span> {
        let listed = request.listed_class();
        let list = listed.and_then(|class| self.free.get(class.index()));
        if let Some(span) = list.and_then(FreeList::pop) {
            return Some(span);
        }
        self.collect();
        match request.class {
            Some(_) => list.and_then(FreeList::pop),
            None => self.regions.lock().take(request),
        }
    }

    fn take_cut(&self, request: &Request) -> Option<Span> {
        let span = self.regions.lock().take(request)?;
        self.counters.cut();
        Some(span)
    }

    /// Asks the driver for a slab or, for a large request, for a region of its own. May block.
    fn grow(&self, request: &Request) -> Result<Span, PinnedError> {
        self.leftovers.sweep();
        let (slab, cap) = (self.config.slab_bytes, self.config.cap_bytes);
        let reserved = self.regions.lock().reserve(request, slab, cap);
        let reserved = reserved.ok_or_else(|| self.cap_reached(request))?;
        let allocated = self.source.allocate(reserved);
        let mut regions = self.regions.lock();
        let allocation = allocated.inspect_err(|_| regions.unreserve(reserved))?;
        let span = regions.add(allocation, reserved, request);
        drop(regions);
        self.counters.miss();
        span.ok_or_else(|| self.cap_reached(request))
    }

    /// Merges and gives back what nobody uses, to make room for a request that failed for want of it. Whether
    /// trying again may help.
    fn make_room(&self, request: &Request, error: &PinnedError) -> bool {
        let held = self.regions.lock().held();
        let limit = match error {
            PinnedError::CapReached { cap, .. } => *cap,
            _ => held,
        };
        let free: u64 = self.cached_bytes() + self.regions.lock().idle_bytes();
        let wanted = request.bytes.next_multiple_of(PAGE);
        let given_back = self.trim(limit.saturating_sub(wanted));
        given_back > 0 || free > 0
    }

    fn cap_reached(&self, request: &Request) -> PinnedError {
        let stats = self.stats();
        PinnedError::CapReached {
            requested: request.bytes,
            cap: self.config.cap_bytes,
            held: stats.held_bytes,
            live: stats.live_bytes,
            pending: stats.pending_bytes,
        }
    }

    /// Puts a block nobody uses where the next request finds it.
    pub(crate) fn shelve(&self, span: Span) {
        let class = span.extent.and_then(|_| SizeClass::for_bytes(span.bytes));
        match class.and_then(|class| self.free.get(class.index())) {
            Some(list) => list.push(span),
            None => self.regions.lock().put_back(span),
        }
    }

    fn free(&self, allocation: HostAllocation) {
        // SAFETY: the books gave the allocation up, so every span of it had been put back; a span is put back when
        // its block is gone and its uses are complete, so neither a reference nor a command is left.
        unsafe { self.source.free(allocation) }
    }
}

/// Whether giving memory back may help.
fn is_shortage(error: &PinnedError) -> bool {
    match error {
        PinnedError::CapReached { .. } => true,
        PinnedError::Driver(error) => matches!(
            error.kind,
            ErrorKind::LockRefused { .. } | ErrorKind::OutOfHostMemory { .. }
        ),
        _ => false,
    }
}

impl Drop for Core {
    /// No block is out any more. Regions that no device uses go back to the driver; the others move to the leftovers.
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            return;
        }
        let mut uses: BTreeMap<RegionId, Frontier> = BTreeMap::new();
        for (span, awaited) in self.pending.drain() {
            uses.entry(span.region).or_default().join(&awaited);
        }
        let regions = self.regions.lock().drain();
        for (id, region) in regions {
            self.leftovers.keep(Leftover {
                source: Arc::clone(&self.source),
                timeline: Arc::clone(&self.timeline),
                remains: Remains::Allocation(region.allocation),
                uses: uses.remove(&id).unwrap_or_default(),
            });
        }
    }
}
