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
//! 2. `FIRST` has no key, or that of a cache in this thread's list, to which it points; whoever takes a cache off the list sees
//!    to it first. A cache that the thread is inside of stays on the list, and is first only while what it does there calls
//!    nobody: so whoever finds a cache first is not inside.
//! 3. A cache that is first is shut in forks.
//! 4. No driver is called, and no pool ends, while a list is borrowed or locked.

#![expect(
    unsafe_code,
    reason = "the cache a thread uses all the time is found by a pointer, and entered as its owner"
)]

use crate::{
    core::Core,
    kept::{Everything, Kept, empty, magazines, no_magazines},
    recall::{Recallable, Shut},
    shelf::{Shelves, Tally},
    tickets::{Key, Ticket},
};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use piton_timeline::Timeline;
use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    ptr,
    sync::Arc,
};

thread_local! {
    // GLOBAL: what a thread keeps of a pool is found by the thread and the pool alone. A block may be dropped on any
    // thread, and a drop is passed nothing that could carry it.
    static CACHES: RefCell<ThreadCaches> = const { RefCell::new(ThreadCaches(Vec::new())) };
    // GLOBAL: the one of them that was used last, without what it costs to know whether the list still is.
    static FIRST: First = const { First::none() };
}

/// A cache and its key, as an address, or 0 for none.
struct First {
    key: Cell<usize>,
    cache: Cell<*const ThreadCache>,
}

impl First {
    const fn none() -> Self {
        Self {
            key: Cell::new(0),
            cache: Cell::new(ptr::null()),
        }
    }

    fn set(&self, cache: &ThreadCache) {
        self.cache.set(cache);
        self.key.set(cache.key.address());
    }

    fn clear(&self) {
        self.key.set(0);
        self.cache.set(ptr::null());
    }

    /// There is none from now on, if it was this one; whether it was.
    fn clear_if(&self, cache: &ThreadCache) -> bool {
        let is_first = ptr::eq(self.cache.get(), cache);
        if is_first {
            self.clear();
        }
        is_first
    }
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
    kept: Recallable<Kept>,
    tally: Tally,
    /// Whether the pool is closed.
    closed: Arc<AtomicBool>,
    timeline: Arc<Timeline>,
}

impl ThreadCache {
    fn new(core: &Ticket<Core>) -> Arc<Self> {
        let shelves = Shelves::new(core.depots.len(), &core.halves);
        let tally = shelves.tally();
        core.counters.join(tally.clone());
        Arc::new(Self {
            key: core.key(),
            tally,
            closed: Arc::clone(&core.closed),
            timeline: Arc::clone(&core.timeline),
            kept: Recallable::new(Kept::new(core, shelves)),
        })
    }

    /// Does something with what is kept and what is given, as the owner. What is given comes back where the owner does not get
    /// in.
    ///
    /// # Safety
    /// The cache was made by this thread.
    unsafe fn enter_with<G, R>(
        &self,
        given: G,
        act: impl FnOnce(&mut Kept, G) -> R,
    ) -> Result<R, G> {
        let is_first = FIRST.with(|first| first.clear_if(self));
        // SAFETY: whoever made the cache is its owner (the caller).
        let acted = unsafe { self.kept.enter_with(given, act) };
        if is_first {
            // INVARIANT: 2 holds, it was on the list all the time, and the thread has left. 3 was asked before.
            FIRST.with(|first| first.set(self));
        }
        acted.map_err(|(_, given)| given)
    }

    /// Whether something is kept, or everything was taken, tickets and all.
    ///
    /// # Safety
    /// As [`enter_with`](Self::enter_with).
    unsafe fn is_kept(&self) -> Result<bool, Shut> {
        // SAFETY: whoever made the cache is its owner (the caller).
        unsafe { self.kept.enter(|kept| !kept.is_over()) }
    }

    /// Gives blocks to the depots, as the owner, and opens the way.
    ///
    /// # Safety
    /// As [`enter_with`](Self::enter_with).
    unsafe fn flush(&self, core: &Core) {
        let fresh = magazines(core);
        // SAFETY: whoever made the cache is its owner (the caller).
        let taken = unsafe { self.kept.reopen(|kept| kept.swap(fresh)) };
        empty(core, taken.flatten());
    }

    /// Has blocks given to the depots, by any thread: at once, or by its own at its next call if that is in one.
    fn recall(&self, core: &Core) {
        let fresh = magazines(core);
        empty(core, self.kept.visit(|kept| kept.swap(fresh)).flatten());
    }

    /// What was kept goes, tickets too, and nobody knows of the cache any more.
    fn end(&self, kept: Everything) {
        let Everything { purse, magazines } = kept;
        empty(&purse, Some(magazines));
        purse.counters.leave(&self.tally);
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
        let none = no_magazines(self.tally.len());
        // SAFETY: whoever made the cache is its owner (the caller).
        let kept = unsafe { self.kept.reopen(|kept| kept.take_all(none)) };
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
            let none = no_magazines(cache.tally.len());
            let kept = cache.kept.visit(|kept| kept.take_all(none));
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

    /// The pool's cache, which is first from now on if it may be.
    fn find(key: Key<Core>) -> Option<Option<Arc<ThreadCache>>> {
        Self::with(|caches| {
            let found = caches.iter().find(|cache| cache.key == key)?;
            if found.kept.is_shut_in_forks() && !found.kept.is_inside() {
                // INVARIANT: 2 holds, it is on the list; 3 was asked.
                FIRST.with(|first| first.set(found));
            }
            Some(Arc::clone(found))
        })
    }

    /// Takes caches off the list and ends them.
    fn retire(is_over: impl Fn(&ThreadCache) -> bool) {
        let over = Self::with(|caches| {
            let over = caches.extract_if(.., |cache| is_over(cache));
            let over: Vec<_> = over.collect();
            FIRST.with(|first| {
                over.iter().any(|cache| first.clear_if(cache));
            });
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
        FIRST.with(First::clear);
        for cache in self.0.drain(..) {
            // SAFETY: it was on this thread's list, so this thread has made it.
            unsafe { cache.retire() };
        }
    }
}

/// Runs `act` on what this thread keeps of the pool, if that was used last, and what is given, which comes back if it was not. In
/// a fork nothing is run.
///
/// # Safety
/// `act` calls nobody.
#[inline]
pub(crate) unsafe fn first_briefly<G, R>(
    key: Key<Core>,
    given: G,
    act: impl FnOnce(&mut Kept, G) -> R,
) -> Result<R, G> {
    match find_first(key) {
        // SAFETY: it is on this thread's list, so this thread has made it, and it is not inside (invariant 2). The rest is the
        // caller's.
        Some(cache) => unsafe { cache.kept.enter_briefly(given, act) },
        None => Err(given),
    }
}

/// As [`first_briefly`], whatever is done, unless everything was taken: then a pool is gone, and this one is where that was.
pub(crate) fn first<G, R>(
    key: Key<Core>,
    given: G,
    act: impl FnOnce(&mut Kept, G) -> R,
) -> Result<R, G> {
    let act = |kept: &mut Kept, given| match kept.is_over() {
        true => Err(given),
        false => Ok(act(kept, given)),
    };
    match find_first(key) {
        // SAFETY: it is on this thread's list, so this thread has made it.
        Some(cache) => unsafe { cache.enter_with(given, act) }.flatten(),
        None => Err(given),
    }
}

/// The cache that this thread used last, if it is the pool's. To be entered and let go of.
#[inline]
fn find_first<'a>(key: Key<Core>) -> Option<&'a ThreadCache> {
    let (first, cache) = FIRST.with(|first| (first.key.get(), first.cache.get()));
    if first != key.address() {
        return None;
    }
    // SAFETY: with a key, it is on this thread's list, and there to stay while the thread is inside (invariant 2).
    Some(unsafe { &*cache })
}

/// This thread's cache of the pool, which is first from now on. None if there can be none: the thread is ending, or is in here, or
/// the pool is closed, or this is a fork.
pub(crate) fn mine(core: &Ticket<Core>) -> Option<Mine> {
    // INVARIANT: what is found is on this thread's list.
    bring_forward(core).map(|cache| Mine {
        cache,
        thread: PhantomData,
    })
}

/// A cache of this thread's.
///
/// # Invariants
/// It was made by this thread.
pub(crate) struct Mine {
    cache: Arc<ThreadCache>,
    /// It stays with the thread.
    thread: PhantomData<*const ()>,
}

impl Mine {
    /// Does something with what is kept and what is given, which comes back where a visitor is at it.
    pub(crate) fn enter<G, R>(
        &self,
        given: G,
        act: impl FnOnce(&mut Kept, G) -> R,
    ) -> Result<R, G> {
        // SAFETY: it was made by this thread (invariant).
        unsafe { self.cache.enter_with(given, act) }
    }
}

/// The pool's cache, found first from now on, open, and made if there is none. `None` if there can be none.
fn bring_forward(core: &Ticket<Core>) -> Option<Arc<ThreadCache>> {
    if core.timeline.is_forked() {
        return None;
    }
    let Some(cache) = ThreadCaches::find(core.key())? else {
        return make(core);
    };
    // SAFETY: it is on this thread's list, so this thread has made it.
    match unsafe { cache.is_kept() } {
        _ if core.is_closed() => {
            forget(core);
            None
        }
        Ok(true) => Some(cache),
        // Of a pool that is gone and was where this one is.
        Ok(false) => {
            ThreadCaches::retire(|other| ptr::eq(other, &raw const *cache));
            make(core)
        }
        Err(Shut::Inside) => None,
        Err(Shut::Barred) => {
            // SAFETY: as above.
            unsafe { cache.flush(core) };
            Some(cache)
        }
    }
}

/// Makes a cache of the pool, unless it is closed. Those of pools that are go.
fn make(core: &Ticket<Core>) -> Option<Arc<ThreadCache>> {
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
    ThreadCaches::find(core.key())?
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{PinnedPool, PinnedPoolConfig};
    use piton_driver::{DeviceId, Driver};
    use piton_sim::{DeviceConfig, SimConfig, SimDriver};

    #[test]
    fn a_thread_that_is_inside_finds_its_cache_neither_first_nor_otherwise() {
        let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
        let device = driver.open(DeviceId(0)).unwrap();
        let config = PinnedPoolConfig::default();
        let pool = PinnedPool::new(device, Timeline::new(), config).unwrap();
        drop(pool.allocate(512).unwrap());
        let core = pool.core();
        // SAFETY: nobody is called.
        let is_first = || unsafe { first_briefly(core.key(), (), |_, ()| ()) }.is_ok();
        assert!(is_first());
        let found = mine(core).unwrap().enter((), |_, ()| {
            // In between it is looked for on the thread's list.
            [is_first(), mine(core).is_some(), is_first()]
        });
        assert_eq!(found, Ok([false; 3]));
        assert!(is_first());
        // What is dropped meanwhile goes to the depot.
        let block = pool.allocate(512).unwrap();
        let dropped = mine(core).unwrap().enter((), |_, ()| drop(block));
        assert_eq!(dropped, Ok(()));
        let stats = pool.stats();
        assert_eq!((stats.thread_bytes, stats.cached_bytes), (0, 512));
        pool.check().unwrap();
    }
}
