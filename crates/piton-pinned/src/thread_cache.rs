//! Where what one thread keeps of one pool is found: by the thread, and by a pool that wants it back.
//!
//! # The idea
//! A request of a common size takes a block from the thread's magazine, a ticket from its purse, and adds to its
//! counters: plain loads and stores of memory that no other thread writes. A drop, on whatever thread, is the same
//! backwards ([`short_way`](crate::short_way)). Whatever does not go like that (an empty magazine and an empty depot, a use that
//! is not complete, a thread that is ending) takes the way through the pool's shared parts, which is always open.
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
    class_counts::{ClassCounters, ThreadCounters},
    core::Core,
    kept::{Kept, empty, magazines, swap, take_all},
    recall::{Recallable, Shut},
    tickets::{Key, Ticket},
};
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

impl ThreadCache {
    fn new(core: &Ticket<Core>) -> Arc<Self> {
        Arc::new(Self {
            key: core.key(),
            counters: core.counters.join(),
            closed: Arc::clone(&core.closed),
            timeline: Arc::clone(&core.timeline),
            kept: Recallable::new(Some(Kept::new(core))),
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
pub(crate) fn first_with<G, R>(
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
pub(crate) fn first<R>(
    key: Key<Core>,
    act: impl FnOnce(&mut Kept, &[ClassCounters]) -> R,
) -> Option<R> {
    first_with(key, (), |kept, counters, ()| act(kept, counters)).ok()
}

/// Runs `act` on what this thread keeps of the pool. `None` if there can be none: the thread is ending, or is in here.
pub(crate) fn with<R>(
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
pub(crate) fn bring_forward(core: &Ticket<Core>) -> Option<()> {
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
