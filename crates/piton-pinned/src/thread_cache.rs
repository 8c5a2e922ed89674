//! What one thread keeps of one pool: magazines, tickets and counters. The fast path of a request and of a drop.
//!
//! # The idea
//! A request of a common size takes a block from the thread's magazine, a ticket from its purse, and adds to its
//! counters: plain loads and stores of memory that no other thread writes. A drop, on whatever thread, is the same
//! backwards. Whatever does not go like that (an empty magazine and an empty depot, a use that is not complete, a
//! thread that is ending) takes the way through the pool's shared parts, which is always open.
//!
//! # Protocol
//! | what | who may touch it |
//! |---|---|
//! | what is kept | its thread, or a visitor: [`Recallable`] |
//! | its counters | written by who has what is kept, read by all |
//! | the list of a thread's caches, and which is first | the thread |
//! | the list of a pool's caches | any thread, under its lock |
//!
//! A pool that wants its blocks back visits all its caches, and takes what threads keep that are not in a call; one that is
//! gives up what it keeps at its next call. A pool that is closed takes the tickets too, so that it ends with its last block.
//! When a thread ends, its caches give their blocks to the depots and their tickets back.
//!
//! # Invariants
//! 1. What is kept has a ticket of the pool. A cache without is of a pool that was closed, and its key says nothing.
//! 2. `FIRST` is null or points to a cache in this thread's list; whoever takes a cache off the list sees to it first. A cache
//!    that the thread is inside of stays on the list.
//! 3. No driver is called, and no pool ends, while a list is borrowed or locked.

#![expect(
    unsafe_code,
    reason = "the cache a thread uses all the time is found by a pointer, and entered as its owner"
)]

use crate::{
    class_counts::{ClassCount, ClassCounters, ThreadCounters},
    core::{Core, Taken},
    magazine::{Batch, Magazine},
    recall::{Recallable, Shut},
    record::Record,
    span::Span,
    tickets::{Key, Purse, Ticket},
};
use piton_suballoc::SizeClass;
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use piton_timeline::Timeline;
use std::{
    cell::{Cell, RefCell},
    ptr,
    sync::Arc,
};

thread_local! {
    // GLOBAL: what a thread keeps of a pool is found by the thread and the pool alone. A block may be dropped on any
    // thread, and a drop is passed nothing that could carry it.
    static CACHES: RefCell<ThreadCaches> = const { RefCell::new(ThreadCaches(Vec::new())) };
    // GLOBAL: the one of them that was used last, without what it costs to know whether the list still is.
    static FIRST: Cell<*const ThreadCache> = const { Cell::new(ptr::null()) };
}

/// The caches of one thread.
struct ThreadCaches(Vec<Arc<ThreadCache>>);

/// The caches of one pool.
#[derive(Debug, Default)]
pub(crate) struct PoolCaches(Mutex<Vec<Arc<ThreadCache>>>);

/// What one thread keeps of one pool.
#[derive(Debug)]
pub(crate) struct ThreadCache {
    key: Key<Core>,
    kept: Recallable<Option<Kept>>,
    counters: ThreadCounters,
    /// Whether the pool is closed.
    closed: Arc<AtomicBool>,
    timeline: Arc<Timeline>,
}

#[derive(Debug)]
struct Kept {
    purse: Purse<Core>,
    /// By number of the class; classes of larger blocks have none.
    magazines: Magazines,
}

type Magazines = Box<[Magazine<Box<Record>>]>;

/// Empty magazines of a pool's classes.
fn magazines(core: &Core) -> Magazines {
    core.halves
        .iter()
        .map(|half| Magazine::new(*half))
        .collect()
}

impl Kept {
    /// Takes a free block of a class, for a request of `asked` bytes.
    #[inline]
    fn take(&mut self, counters: &[ClassCounters], class: usize, asked: u64) -> Option<Taken> {
        let count = counters.get(class)?;
        let kept = self.magazines.get_mut(class).and_then(Magazine::pop);
        let record = match kept {
            Some(record) => record,
            None => self.fetch(counters, class)?,
        };
        count.hand_out(asked);
        Some((record, self.purse.take()))
    }

    /// Takes a block from the depot, and if there are magazines of its class, what came with it.
    #[cold]
    fn fetch(&mut self, counters: &[ClassCounters], class: usize) -> Option<Box<Record>> {
        let mut batch = self.purse.depots.get(class)?.take()?;
        counters.get(class)?.came(batch.len());
        match self.magazines.get_mut(class) {
            Some(magazine) => {
                magazine.load(batch);
                magazine.pop()
            }
            None => batch.pop(),
        }
    }

    /// Keeps a dropped block of a size class that was handed out for a request of `asked` bytes, and its ticket.
    #[inline]
    fn take_back(
        &mut self,
        counters: &[ClassCounters],
        (record, ticket): Taken,
        class: usize,
        asked: u64,
    ) {
        if let Some(counters) = counters.get(class) {
            counters.take_back(asked);
        }
        self.purse.put(ticket);
        self.keep(counters, record, class);
    }

    /// Keeps a free block of a size class.
    #[inline]
    fn keep(&mut self, counters: &[ClassCounters], record: Box<Record>, class: usize) {
        let kept = match self.magazines.get_mut(class) {
            Some(magazine) => magazine.put(record),
            None => Err(record),
        };
        if let Err(record) = kept {
            self.keep_at_edge(counters, record, class);
        }
    }

    /// As [`keep`](Self::keep), where the stack is full or there is none.
    #[cold]
    fn keep_at_edge(&mut self, counters: &[ClassCounters], record: Box<Record>, class: usize) {
        let surplus = match self.magazines.get_mut(class) {
            Some(magazine) => magazine.push(record),
            None => Some(vec![record]),
        };
        if let Some(surplus) = surplus {
            self.leave(counters, class, surplus);
        }
    }

    /// Leaves a batch in the depot.
    fn leave(&self, counters: &[ClassCounters], class: usize, batch: Batch<Box<Record>>) {
        if let Some(counters) = counters.get(class) {
            counters.left(batch.len());
        }
        if let Some(depot) = self.purse.depots.get(class) {
            depot.put(batch);
        }
    }
}

impl ThreadCache {
    fn new(core: &Ticket<Core>) -> Arc<Self> {
        Arc::new(Self {
            key: core.key(),
            counters: core.counters.join(),
            closed: Arc::clone(&core.closed),
            timeline: Arc::clone(&core.timeline),
            kept: Recallable::new(Some(Kept {
                magazines: magazines(core),
                purse: Purse::new(core.clone()),
            })),
        })
    }

    /// Does something with what is kept and what is given, as the owner. What is given comes back where the owner does not get
    /// in, or what was kept was taken, tickets and all.
    ///
    /// # Safety
    /// The cache was made by this thread.
    #[inline]
    unsafe fn enter_with<G, R>(
        &self,
        given: G,
        act: impl FnOnce(&mut Kept, &[ClassCounters], G) -> R,
    ) -> Result<R, G> {
        let act = |kept: &mut Option<Kept>, given| match kept {
            Some(kept) => Ok(act(kept, &self.counters, given)),
            None => Err(given),
        };
        // SAFETY: whoever made the cache is its owner (the caller).
        match unsafe { self.kept.enter_with(given, act) } {
            Ok(acted) => acted,
            Err((_, given)) => Err(given),
        }
    }

    /// Whether something is kept, or everything was taken, tickets and all.
    ///
    /// # Safety
    /// As [`enter_with`](Self::enter_with).
    unsafe fn is_kept(&self) -> Result<bool, Shut> {
        // SAFETY: whoever made the cache is its owner (the caller).
        unsafe { self.kept.enter(|kept| kept.is_some()) }
    }

    /// Gives blocks to the depots, as the owner, and takes the bar away.
    ///
    /// # Safety
    /// As [`enter_with`](Self::enter_with).
    unsafe fn flush(&self, core: &Core) {
        let fresh = magazines(core);
        let swap = |kept: &mut Option<Kept>| swap(kept.as_mut(), fresh, &self.counters);
        // SAFETY: whoever made the cache is its owner (the caller).
        let taken = unsafe { self.kept.reopen(swap) };
        empty(core, taken.flatten());
    }

    /// Has blocks given to the depots, by any thread: at once, or by its own at its next call if that is in one.
    fn recall(&self, core: &Core) {
        let fresh = magazines(core);
        let swap = |kept: &mut Option<Kept>| swap(kept.as_mut(), fresh, &self.counters);
        empty(core, self.kept.visit(swap).flatten());
    }

    /// What was kept goes, tickets too, and nobody knows of the cache any more.
    fn end(&self, kept: Kept) {
        let Kept { purse, magazines } = kept;
        empty(&purse, Some(magazines));
        purse.counters.leave(&self.counters);
        purse.caches.remove(self);
    }

    /// Ends the cache, as the owner.
    ///
    /// # Safety
    /// As [`enter_with`](Self::enter_with).
    unsafe fn retire(&self) {
        // In a fork locks may be held for ever.
        if self.timeline.is_forked() {
            return;
        }
        // SAFETY: whoever made the cache is its owner (the caller).
        let kept = unsafe { self.kept.reopen(|kept| take_all(kept, &self.counters)) };
        if let Some(kept) = kept.flatten() {
            self.end(kept);
        }
    }

    /// Whether it may leave the list: its pool is closed, and the thread is not inside.
    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && !self.kept.is_inside()
    }
}

/// Puts fresh magazines in place of those in use, which are counted as gone. Allocates nothing: they were made before.
fn swap(
    kept: Option<&mut Kept>,
    fresh: Magazines,
    counters: &[ClassCounters],
) -> Option<Magazines> {
    let magazines = std::mem::replace(&mut kept?.magazines, fresh);
    count_out(counters, &magazines);
    Some(magazines)
}

/// Takes everything that is kept.
fn take_all(kept: &mut Option<Kept>, counters: &[ClassCounters]) -> Option<Kept> {
    let kept = kept.take()?;
    count_out(counters, &kept.magazines);
    Some(kept)
}

/// Counts what is in magazines as gone from them.
fn count_out(counters: &[ClassCounters], magazines: &[Magazine<Box<Record>>]) {
    for (counters, magazine) in counters.iter().zip(magazines) {
        counters.left(magazine.len());
    }
}

/// Gives everything in magazines to the depots.
fn empty(core: &Core, magazines: Option<Magazines>) {
    let mut magazines = magazines.unwrap_or_default();
    for (depot, magazine) in core.depots.iter().zip(&mut magazines) {
        for batch in magazine.unload() {
            depot.put(batch);
        }
    }
}

impl PoolCaches {
    /// Has all that threads keep given to the depots, as far as they are not in a call; those do at their next.
    pub(crate) fn recall(&self, core: &Core) {
        self.all().iter().for_each(|cache| cache.recall(core));
    }

    /// The pool is closed: takes what threads keep, tickets too, of those that are not in a call. Others find at their next
    /// that it is.
    pub(crate) fn end(&self) {
        for cache in self.all() {
            let kept = cache.kept.visit(|kept| take_all(kept, &cache.counters));
            if let Some(kept) = kept.flatten() {
                cache.end(kept);
            }
        }
    }

    fn all(&self) -> Vec<Arc<ThreadCache>> {
        self.0.lock().clone()
    }

    fn add(&self, cache: &Arc<ThreadCache>) {
        self.0.lock().push(Arc::clone(cache));
    }

    fn remove(&self, cache: &ThreadCache) {
        let mut caches = self.0.lock();
        let found = caches
            .iter()
            .position(|other| ptr::eq(Arc::as_ptr(other), cache));
        let removed = found.map(|at| caches.swap_remove(at));
        drop(caches);
        drop(removed);
    }
}

impl ThreadCaches {
    /// Runs `act` on the list of this thread. `None` if it has none any more, or is at it.
    fn with<R>(act: impl FnOnce(&mut Vec<Arc<ThreadCache>>) -> R) -> Option<R> {
        let acted = CACHES.try_with(|caches| Some(act(&mut caches.try_borrow_mut().ok()?.0)));
        acted.ok()?
    }

    /// The pool's cache, which is first from now on.
    fn find(key: Key<Core>) -> Option<Option<Arc<ThreadCache>>> {
        Self::with(|caches| {
            let found = caches.iter().find(|cache| cache.key == key)?;
            // INVARIANT: 2 holds, it is on the list.
            FIRST.set(Arc::as_ptr(found));
            Some(Arc::clone(found))
        })
    }

    /// Takes caches off the list and ends them.
    fn retire(is_over: impl Fn(&ThreadCache) -> bool) {
        let over = Self::with(|caches| {
            let over = caches.extract_if(.., |cache| is_over(cache));
            let over: Vec<_> = over.collect();
            if over.iter().any(|cache| Arc::as_ptr(cache) == FIRST.get()) {
                FIRST.set(ptr::null());
            }
            over
        });
        for cache in over.into_iter().flatten() {
            // SAFETY: it was on this thread's list, so this thread has made it.
            unsafe { cache.retire() };
        }
    }
}

impl Drop for ThreadCaches {
    fn drop(&mut self) {
        FIRST.set(ptr::null());
        for cache in self.0.drain(..) {
            // SAFETY: it was on this thread's list, so this thread has made it.
            unsafe { cache.retire() };
        }
    }
}

/// Runs `act` on what this thread keeps of the pool, if that was used last, and what is given, which comes back if it was not.
#[inline]
fn first_with<G, R>(
    key: Key<Core>,
    given: G,
    act: impl FnOnce(&mut Kept, &[ClassCounters], G) -> R,
) -> Result<R, G> {
    // SAFETY: null, or on this thread's list and there to stay while the thread is inside (invariant 2).
    match unsafe { FIRST.get().as_ref() } {
        // SAFETY: it is on this thread's list, so this thread has made it.
        Some(cache) if cache.key == key => unsafe { cache.enter_with(given, act) },
        _ => Err(given),
    }
}

/// As [`first_with`], of nothing given.
#[inline]
fn first<R>(key: Key<Core>, act: impl FnOnce(&mut Kept, &[ClassCounters]) -> R) -> Option<R> {
    first_with(key, (), |kept, counters, ()| act(kept, counters)).ok()
}

/// Runs `act` on what this thread keeps of the pool. `None` if there can be none: the thread is ending, or is in here.
fn with<R>(
    core: &Ticket<Core>,
    mut act: impl FnMut(&mut Kept, &[ClassCounters]) -> R,
) -> Option<R> {
    let acted = first(core.key(), &mut act);
    if acted.is_some() {
        return acted;
    }
    bring_forward(core)?;
    first(core.key(), act)
}

/// Has the pool's cache found first, open, and made if there is none. `None` if there can be none.
#[cold]
fn bring_forward(core: &Ticket<Core>) -> Option<()> {
    let Some(cache) = ThreadCaches::find(core.key())? else {
        return make(core);
    };
    // SAFETY: it is on this thread's list, so this thread has made it.
    match unsafe { cache.is_kept() } {
        _ if core.is_closed() => {
            forget(core);
            None
        }
        Ok(true) => Some(()),
        // Of a pool that is gone and was where this one is.
        Ok(false) => {
            ThreadCaches::retire(|other| ptr::eq(other, &raw const *cache));
            make(core)
        }
        Err(Shut::Inside) => None,
        Err(Shut::Barred) => {
            // SAFETY: as above.
            unsafe { cache.flush(core) };
            Some(())
        }
    }
}

/// Makes a cache of the pool, unless it is closed. Those of pools that are go.
fn make(core: &Ticket<Core>) -> Option<()> {
    ThreadCaches::retire(ThreadCache::is_over);
    let cache = ThreadCache::new(core);
    core.caches.add(&cache);
    // Who closes the pool walks the caches after it has said so: one that it did not see must see that.
    let is_listed =
        !core.is_closed() && ThreadCaches::with(|caches| caches.push(Arc::clone(&cache))).is_some();
    if !is_listed {
        // SAFETY: this thread has made it.
        unsafe { cache.retire() };
        return None;
    }
    ThreadCaches::find(core.key())?.map(drop)
}

/// Takes a free block of a class from this thread's magazine or the depot, for a request of `asked` bytes.
// Always: called, it saves and restores as many registers again as its caller does, a seventh of all it does.
#[inline(always)]
pub(crate) fn take(core: &Ticket<Core>, class: usize, asked: u64) -> Option<Taken> {
    let taken = first(core.key(), |kept, counters| {
        kept.take(counters, class, asked)
    });
    match taken {
        Some(taken) => taken,
        None => take_again(core, class, asked),
    }
}

/// As [`take`], where the cache has to be found first.
#[cold]
fn take_again(core: &Ticket<Core>, class: usize, asked: u64) -> Option<Taken> {
    bring_forward(core)?;
    first(core.key(), |kept, counters| {
        kept.take(counters, class, asked)
    })?
}

/// Keeps a block that was dropped, is of the size class of this index, and that no device uses. Hands it back if this thread
/// has no place for it, or the pool is closed.
#[inline]
pub(crate) fn give(
    core: Ticket<Core>,
    record: Box<Record>,
    class: usize,
    asked: u64,
) -> Result<(), Taken> {
    let (key, dropped) = (core.key(), (record, core));
    let given = first_with(key, dropped, |kept, counters, dropped| {
        kept.take_back(counters, dropped, class, asked);
    });
    match given {
        Ok(()) => Ok(()),
        Err(dropped) => give_again(dropped, class, asked),
    }
}

/// As [`give`], where the cache has to be found first.
#[cold]
fn give_again(dropped: Taken, class: usize, asked: u64) -> Result<(), Taken> {
    let core = &dropped.1;
    if bring_forward(core).is_none() {
        return Err(dropped);
    }
    first_with(core.key(), dropped, |kept, counters, dropped| {
        kept.take_back(counters, dropped, class, asked);
    })
}

/// Keeps a block that was given back before and has become free, of the size class of this index. Hands it back if this
/// thread has no place for it.
#[cold]
pub(crate) fn keep(
    core: &Ticket<Core>,
    record: Box<Record>,
    class: usize,
) -> Result<(), Box<Record>> {
    let keep = |kept: &mut Kept, counters: &[ClassCounters], record| {
        if let Some(count) = counters.get(class) {
            count.came(1);
        }
        kept.keep(counters, record, class);
    };
    first_with(core.key(), record, keep).or_else(|record| {
        if bring_forward(core).is_none() {
            return Err(record);
        }
        first_with(core.key(), record, keep)
    })
}

/// The counters of a block's class, or of blocks of none.
fn counters_of<'a>(counters: &'a [ClassCounters], span: &Span) -> Option<&'a ClassCounters> {
    let last = counters.len().saturating_sub(1);
    counters.get(span.class.map_or(last, SizeClass::index))
}

/// Notes that a block went out, for a request of `asked` bytes, that came from the pool's books or straight from a depot.
pub(crate) fn note_out(core: &Ticket<Core>, span: &Span, asked: u64) -> Ticket<Core> {
    if span.class.is_none() {
        core.events.exact_out(span.bytes);
    }
    let noted = with(core, |kept, counters| {
        if let Some(counters) = counters_of(counters, span) {
            counters.came(1);
            counters.hand_out(asked);
        }
        kept.purse.take()
    });
    noted.unwrap_or_else(|| {
        let count = ClassCount {
            handed_out: 1,
            requested: asked,
            exchanged: 1,
            ..ClassCount::default()
        };
        core.counters.count(span.class, count);
        core.clone()
    })
}

/// Notes that a block was dropped that goes elsewhere than into a magazine.
pub(crate) fn note_back(core: &Ticket<Core>, span: &Span, asked: u64) {
    if span.class.is_none() {
        core.events.exact_back(span.bytes);
    }
    // No cache is made for it: a thread that only ever drops what devices still use keeps nothing.
    let noted = first(core.key(), |_, counters| {
        if let Some(counters) = counters_of(counters, span) {
            counters.left(1);
            counters.take_back(asked);
        }
    });
    if noted.is_some() {
        return;
    }
    let count = ClassCount {
        taken_back: 1,
        returned: asked,
        exchanged: 1_u64.wrapping_neg(),
        ..ClassCount::default()
    };
    core.counters.count(span.class, count);
}

/// Gives what this thread keeps of the pool to the depots.
pub(crate) fn flush(core: &Ticket<Core>) {
    if let Some(Some(cache)) = ThreadCaches::find(core.key()) {
        // SAFETY: it is on this thread's list, so this thread has made it.
        unsafe { cache.flush(core) };
    }
}

/// Ends this thread's cache of the pool.
pub(crate) fn forget(core: &Ticket<Core>) {
    let key = core.key();
    ThreadCaches::retire(|cache| cache.key == key && !cache.kept.is_inside());
}
