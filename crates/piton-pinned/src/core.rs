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
    Leftovers, PinnedBlock, PinnedError, PinnedPoolConfig,
    class_counts::AllCounters,
    config::PAGE,
    events::Events,
    growth::Growth,
    keeper::Bell,
    label::{Known, Label},
    leftovers::{Leftover, Remains},
    magazine::Depot,
    pending::{Complete, Pending},
    record::Record,
    regions::Regions,
    request::Request,
    short_way,
    source::Source,
    span::{RegionId, Span},
    thread_cache::{self, PoolCaches},
    tickets::Ticket,
};
use piton_driver::{ErrorKind, HostAllocation};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use piton_timeline::{Frontier, Timeline};
use std::{collections::BTreeMap, sync::Arc};

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
        })
    }

    /// Whether the last handle has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Puts a block nobody uses where any thread finds it.
    fn shelve(&self, record: Box<Record>) {
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

    fn shelve_all(&self, mut records: Complete<Box<Record>>) {
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
    fn take_from_depot(&self, request: &Request) -> Option<Box<Record>> {
        let depot = self.depots.get(request.listed_class()?.index())?;
        let mut batch = depot.take()?;
        let record = batch.pop();
        depot.put(batch);
        record
    }

    /// Memory for a request out of what depots hold, if that is enough and so much of all there is that it had better be
    /// merged than added to. What threads keep is left to them until there is no more to be had: taken here, requests of
    /// many sizes would cut up what they have just put together.
    fn take_merged(&self, request: &Request) -> Option<Span> {
        let held = self.regions.lock().held();
        if request.class.is_none() || self.depot_bytes() < request.bytes.max(held / 4) {
            return None;
        }
        self.empty_depots();
        self.take_cut(request)
    }

    /// Gives regions back that are too small for a large request, before the driver is asked for it: a sequence of requests
    /// that grow would otherwise leave them all behind.
    fn exchange_exact(&self, request: &Request) {
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

    fn ring_if_short(&self) {
        if self.config.ahead_bytes > 0 && self.is_short() {
            self.ring();
        }
    }

    fn take_cut(&self, request: &Request) -> Option<Span> {
        self.regions.lock().take(request)
    }

    /// Asks the driver for a region; its bytes. May block.
    pub(crate) fn grow(&self, growth: Growth) -> Result<u64, PinnedError> {
        self.grow_and(growth, |_| ()).map(|(bytes, ())| bytes)
    }

    /// As [`grow`](Self::grow), and does `then` with the books before any other thread finds the region there.
    fn grow_and<R>(
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

    fn cap_reached(&self, requested: u64) -> PinnedError {
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

/// Takes a block for a request that is the commonest kind, if this thread or the depot has one; see the picture above. In a
/// fork there is none.
#[inline]
pub(crate) fn take_common(core: &Ticket<Core>, asked: usize) -> Option<PinnedBlock> {
    let class = Request::common(asked, &core.config)?;
    if core.timeline.is_forked() {
        return None;
    }
    let asked = asked as u64;
    let taken = short_way::take(core, class.index(), asked)?;
    Some(PinnedBlock::new(taken, Label::new(asked, Some(class))))
}

/// Takes memory for a request; see the picture above.
///
/// # Errors
/// [`PinnedError::CapReached`], [`PinnedError::Driver`], [`PinnedError::Books`].
#[inline]
pub(crate) fn take(core: &Ticket<Core>, request: &Request) -> Result<Taken, PinnedError> {
    if let Some(class) = request.listed_class()
        && let Some(taken) = short_way::take(core, class.index(), request.asked)
    {
        return Ok(taken);
    }
    take_slowly(core, request)
}

/// As [`take`], when neither the thread nor the depot has anything.
#[cold]
fn take_slowly(core: &Ticket<Core>, request: &Request) -> Result<Taken, PinnedError> {
    // Before anything is looked for: what a lost device's driver would say of memory is of no use.
    core.source.check_alive()?;
    collect_for_this_thread(core);
    if let Some(class) = request.listed_class()
        && let Some(taken) = short_way::take(core, class.index(), request.asked)
    {
        return Ok(taken);
    }
    let record = match core.take_from_depot(request) {
        Some(record) => record,
        None => {
            let span = take_from_books(core, request);
            Record::new(span.inspect_err(|_| core.events.failure())?)
        }
    };
    let ticket = short_way::note_out(core, &record.span, request.asked);
    Ok((record, ticket))
}

/// As [`Core::collect`], by a thread that needs a block: it keeps what has become free, as if it had been when it was
/// dropped, and the depots get what is more than it keeps of a class.
fn collect_for_this_thread(core: &Ticket<Core>) {
    let complete = core.pending.take_complete(&core.timeline).into_iter();
    let left = complete.filter_map(|record| match record.span.class {
        Some(class) => short_way::keep(core, record, class.index()).err(),
        None => Some(record),
    });
    core.shelve_all(left.collect());
}

fn take_from_books(core: &Ticket<Core>, request: &Request) -> Result<Span, PinnedError> {
    let taken = cut_or_grow(core, request);
    match &taken {
        Err(error) if is_shortage(error) && make_room(core, request, error) => {
            cut_or_grow(core, request)
        }
        _ => taken,
    }
}

fn cut_or_grow(core: &Core, request: &Request) -> Result<Span, PinnedError> {
    if let Some(span) = core.take_cut(request) {
        core.events.cut();
        core.ring_if_short();
        return Ok(span);
    }
    if let Some(span) = core.take_merged(request) {
        core.events.cut();
        return Ok(span);
    }
    core.exchange_exact(request);
    let growth = Growth::of(request, &core.config);
    // Cut at once: another thread would take what is meant for this one.
    let (_, span) = core.grow_and(growth, |regions| regions.take(request))?;
    let span = span.ok_or_else(|| core.cap_reached(request.bytes))?;
    core.events.miss();
    Ok(span)
}

/// Merges and gives back what nobody uses, to make room for a request that failed for want of it. Whether
/// trying again may help.
fn make_room(core: &Ticket<Core>, request: &Request, error: &PinnedError) -> bool {
    let held = core.regions.lock().held();
    let limit = match error {
        PinnedError::CapReached { cap, .. } => *cap,
        _ => held,
    };
    let free = core.cached_bytes() > 0;
    let wanted = request.bytes.next_multiple_of(PAGE);
    let given_back = trim(core, limit.saturating_sub(wanted));
    given_back > 0 || free
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

/// Takes a block back. It may be handed out again once its uses are complete.
#[inline]
pub(crate) fn give_back(core: Ticket<Core>, record: Box<Record>, label: Known) {
    if label.is_used() {
        give_back_used(core, record, label);
    } else {
        give_back_free(core, record, label);
    }
}

/// Takes a block back that no device uses.
#[inline]
fn give_back_free(core: Ticket<Core>, record: Box<Record>, label: Known) {
    match label.class() {
        Some(class) => {
            if let Err((record, core)) = short_way::give(core, record, class, label.asked()) {
                give_to_all(core, record, label);
            }
        }
        None => give_to_all(core, record, label),
    }
}

/// Takes a block back of which uses were recorded.
fn give_back_used(core: Ticket<Core>, mut record: Box<Record>, label: Known) {
    let mut uses = record.memory.take_uses();
    uses.retain_pending(&core.timeline);
    if uses.is_empty() {
        return give_back_free(core, record, label);
    }
    note_back(&core, &record, label);
    if let Some(record) = core.pending.park(record, uses) {
        core.shelve(record);
    }
}

/// Takes a block back that no device uses and that this thread does not keep.
#[cold]
fn give_to_all(core: Ticket<Core>, record: Box<Record>, label: Known) {
    note_back(&core, &record, label);
    core.shelve(record);
}

fn note_back(core: &Ticket<Core>, record: &Record, label: Known) {
    if core.is_closed() {
        thread_cache::forget(core);
    }
    short_way::note_back(core, &record.span, label.asked());
}

/// The last handle has gone: what threads keep is taken.
pub(crate) fn close(core: &Ticket<Core>) {
    core.closed.store(true, Ordering::Relaxed);
    core.ring();
    thread_cache::forget(core);
    core.caches.end();
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
