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
//! | a cache | its thread |
//! | its counters | written by its thread, read by all |
//! | `recall` of the pool | anybody adds one; a cache that sees it changed gives up what it keeps, at its next call |
//!
//! When a thread ends, its caches give their blocks to the depots and their tickets back. What a thread keeps that
//! makes no more calls and does not end cannot be had: at most a magazine a class.
//!
//! # Invariants
//! - A cache has a ticket of its pool, so no other pool has the same address, and its pool has not ended.
//! - No lock is held, and no driver is called, while the list of caches is borrowed.

use crate::{
    class_counts::{ClassCount, ClassCounters, ThreadCounters},
    core::{Core, Taken},
    magazine::{Batch, Magazine},
    record::Record,
    span::Span,
    tickets::{Key, Purse, Ticket},
};
use piton_suballoc::SizeClass;
use piton_sync::atomic::Ordering;
use std::cell::RefCell;

thread_local! {
    // GLOBAL: what a thread keeps of a pool is found by the thread and the pool alone. A block may be dropped on any
    // thread, and a drop is passed nothing that could carry it.
    static CACHES: RefCell<Vec<ThreadCache>> = const { RefCell::new(Vec::new()) };
}

/// What one thread keeps of one pool.
#[derive(Debug)]
pub(crate) struct ThreadCache {
    purse: Purse<Core>,
    counters: ThreadCounters,
    /// By number of the class; classes of larger blocks have none.
    magazines: Box<[Magazine<Box<Record>>]>,
    /// The pool's `recall` that was last heeded.
    heeded: u64,
}

impl ThreadCache {
    fn new(ticket: Ticket<Core>) -> Self {
        let halves = ticket.halves.iter();
        Self {
            counters: ticket.counters.join(),
            magazines: halves.map(|half| Magazine::new(*half)).collect(),
            heeded: ticket.recall.load(Ordering::Relaxed),
            purse: Purse::new(ticket),
        }
    }

    /// Takes a free block of a class, for a request of `asked` bytes.
    #[inline]
    fn take(&mut self, class: usize, asked: u64) -> Option<Taken> {
        let kept = self.magazines.get_mut(class).and_then(Magazine::pop);
        let record = match kept {
            Some(record) => record,
            None => self.fetch(class)?,
        };
        self.counters.get(class)?.hand_out(asked);
        Some((record, self.purse.take()))
    }

    /// Takes a block from the depot, and if there are magazines of its class, what came with it.
    #[cold]
    fn fetch(&mut self, class: usize) -> Option<Box<Record>> {
        let mut batch = self.purse.depots.get(class)?.take()?;
        self.counters.get(class)?.came(batch.len());
        match self.magazines.get_mut(class) {
            Some(magazine) => {
                magazine.load(batch);
                magazine.pop()
            }
            None => batch.pop(),
        }
    }

    /// Keeps a block that is free.
    #[inline]
    fn keep(&mut self, record: Box<Record>, class: usize) {
        let Some(magazine) = self.magazines.get_mut(class) else {
            return self.leave(class, vec![record]);
        };
        if let Some(full) = magazine.push(record) {
            self.leave(class, full);
        }
    }

    /// Leaves a batch in the depot.
    #[cold]
    fn leave(&self, class: usize, batch: Batch<Box<Record>>) {
        if let Some(counters) = self.counters.get(class) {
            counters.left(batch.len());
        }
        if let Some(depot) = self.purse.depots.get(class) {
            depot.put(batch);
        }
    }

    /// Gives everything it keeps to the depots.
    fn flush(&mut self) {
        for class in 0..self.magazines.len() {
            let batches = self.magazines.get_mut(class).map(Magazine::unload);
            for batch in batches.into_iter().flatten() {
                self.leave(class, batch);
            }
        }
    }

    /// Gives up what it keeps if the pool has asked for it since it last did.
    #[inline]
    fn heed(&mut self) {
        let recall = self.purse.recall.load(Ordering::Relaxed);
        if recall != self.heeded {
            self.heeded = recall;
            self.flush();
        }
    }

    /// Takes a dropped block of a size class, and its ticket.
    #[inline]
    fn take_back(&mut self, dropped: &mut Option<Taken>, class: usize, asked: u64) {
        self.heed();
        let Some((record, ticket)) = dropped.take() else {
            return;
        };
        if let Some(counters) = self.counters.get(class) {
            counters.take_back(asked);
        }
        self.keep(record, class);
        self.purse.put(ticket);
    }

    /// The counters of a block's class, or of blocks of none.
    fn counters_of(&self, span: &Span) -> Option<&ClassCounters> {
        let last = self.counters.len().saturating_sub(1);
        self.counters.get(span.class.map_or(last, SizeClass::index))
    }
}

impl Drop for ThreadCache {
    fn drop(&mut self) {
        // In a fork the depots' locks may be held for ever.
        if self.purse.timeline.is_forked() {
            return;
        }
        self.flush();
        self.purse.counters.leave(&self.counters);
    }
}

/// Runs `act` on the first cache of this thread if it is the pool's.
#[inline]
fn first<R>(key: Key<Core>, act: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
    let acted = CACHES.try_with(|caches| {
        let mut caches = caches.try_borrow_mut().ok()?;
        let cache = caches.first_mut()?;
        cache.purse.is_of(key).then(|| act(cache))
    });
    acted.ok()?
}

/// Runs `act` on this thread's cache of the pool. `None` if there can be none: the thread is ending, or is in here.
#[inline]
fn with<R>(core: &Ticket<Core>, mut act: impl FnMut(&mut ThreadCache) -> R) -> Option<R> {
    let acted = first(core.key(), &mut act);
    if acted.is_some() {
        return acted;
    }
    bring_forward(core)?;
    first(core.key(), act)
}

/// Puts the pool's cache first in the list, making it if there is none. Caches of pools that have been closed go.
#[cold]
fn bring_forward(core: &Ticket<Core>) -> Option<()> {
    let key = core.key();
    let find = |caches: &[ThreadCache]| caches.iter().position(|cache| cache.purse.is_of(key));
    let found = CACHES.try_with(|caches| Some(find(&caches.try_borrow().ok()?)));
    let made = match found.ok()?? {
        Some(_) => None,
        None => Some(ThreadCache::new(core.clone())),
    };
    let closed = CACHES.try_with(|caches| {
        let mut caches = caches.try_borrow_mut().ok()?;
        let closed: Vec<_> = caches
            .extract_if(.., |cache| cache.purse.is_closed())
            .collect();
        caches.extend(made);
        let at = find(&caches)?;
        caches.swap(0, at);
        Some(closed)
    });
    // Under no borrow: this may be the end of their pools.
    drop(closed.ok()??);
    Some(())
}

/// Takes a free block of a class from this thread's magazine or the depot, for a request of `asked` bytes.
#[inline]
pub(crate) fn take(core: &Ticket<Core>, class: usize, asked: u64) -> Option<Taken> {
    with(core, |cache| {
        cache.heed();
        cache.take(class, asked)
    })?
}

/// Keeps a block that was dropped, is of the size class of this index, and that no device uses. Hands it back if this thread has no
/// place for it.
#[inline]
pub(crate) fn give(
    core: Ticket<Core>,
    record: Box<Record>,
    class: usize,
    asked: u64,
) -> Result<(), Taken> {
    let key = core.key();
    let mut dropped = Some((record, core));
    if first(key, |cache| cache.take_back(&mut dropped, class, asked)).is_none()
        && let Some((_, core)) = &dropped
        && bring_forward(core).is_some()
    {
        first(key, |cache| cache.take_back(&mut dropped, class, asked));
    }
    dropped.map_or(Ok(()), Err)
}

/// Notes that a block went out, for a request of `asked` bytes, that came from the pool's books or straight from a depot.
pub(crate) fn note_out(core: &Ticket<Core>, span: &Span, asked: u64) -> Ticket<Core> {
    if span.class.is_none() {
        core.events.exact_out(span.bytes);
    }
    let noted = with(core, |cache| {
        if let Some(counters) = cache.counters_of(span) {
            counters.came(1);
            counters.hand_out(asked);
        }
        cache.purse.take()
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
    let noted = first(core.key(), |cache| {
        if let Some(counters) = cache.counters_of(span) {
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
    first(core.key(), ThreadCache::flush).or_else(|| {
        bring_forward(core)?;
        first(core.key(), ThreadCache::flush)
    });
}

/// Ends this thread's cache of the pool.
pub(crate) fn forget(core: &Ticket<Core>) {
    let key = core.key();
    let ended = CACHES.try_with(|caches| {
        let mut caches = caches.try_borrow_mut().ok()?;
        let at = caches.iter().position(|cache| cache.purse.is_of(key))?;
        Some(caches.swap_remove(at))
    });
    // Under no borrow, though `core` keeps the pool.
    drop(ended);
}
