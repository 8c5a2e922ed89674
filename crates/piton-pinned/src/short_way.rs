//! The short way of a request and of a drop: what this thread keeps, and its counters, and nothing that others write.
//!
//! # The idea
//! Each first tries the cache that the thread used last, inlined where it is called: a call saves and restores as much as the rest of
//! it does. What that cannot do goes another way, out of line: the cache has to be found or made, the depot asked, or this is a fork.
//! What is given goes in and comes back by value, so that it stays in registers.

#![expect(
    unsafe_code,
    reason = "what is kept of a pool and what is said to be of it are of the same"
)]

use crate::{
    PinnedBlock,
    class_counts::ClassCount,
    core::{Core, Taken},
    kept::Kept,
    label::Label,
    record::Record,
    span::Span,
    thread_cache::{first, first_briefly, mine},
    tickets::Ticket,
};
use piton_suballoc::SizeClass;

/// Takes a free block for a request of `asked` bytes at the common alignment, if the cache that this thread used last is the
/// pool's and has one at hand of the size's class. A size that has no class, or is no size, finds none.
#[inline]
pub(crate) fn take(core: &Ticket<Core>, asked: usize) -> Option<PinnedBlock> {
    let asked = asked as u64;
    let class = SizeClass::index_for(asked);
    let take = |kept: &mut Kept, ()| {
        // SAFETY: the cache has the pool's key, so what it keeps is of this pool, or was taken (its invariant 1).
        unsafe { kept.take(core, class, asked) }
    };
    // SAFETY: nobody is called.
    let taken = unsafe { first_briefly(core.key(), (), take) };
    Some(PinnedBlock::new(taken.ok()??, Label::of(asked, class)))
}

/// Takes a free block of a class from this thread's magazine or the depot, for a request of `asked` bytes.
pub(crate) fn take_of(core: &Ticket<Core>, class: usize, asked: u64) -> Option<Taken> {
    let take = |kept: &mut Kept, ()| kept.take_or_fetch(class, asked);
    match first(core.key(), (), take) {
        Ok(taken) => taken,
        Err(()) => mine(core)?.enter((), take).ok()?,
    }
}

/// Keeps a block that was dropped, is of the size class of this index, and that no device uses, if the cache that this thread used
/// last is the pool's and has room at hand. If not, hands it back; so too in a fork.
#[inline]
pub(crate) fn give(
    core: Ticket<Core>,
    record: Box<Record>,
    class: usize,
    asked: u64,
) -> Result<(), Taken> {
    let (key, dropped) = (core.key(), (record, core));
    let give = |kept: &mut Kept, dropped| {
        // SAFETY: the cache has the key of the block's pool, so what it keeps is of that, or was taken (its invariant 1).
        unsafe { kept.take_back(dropped, class, asked) }
    };
    // SAFETY: nobody is called.
    unsafe { first_briefly(key, dropped, give) }.flatten()
}

/// Keeps a block as [`give`] does, where room has to be made or the cache to be found first. Hands it back if this thread has no
/// place for it, or the pool is closed, or it is of no size class.
pub(crate) fn give_up(dropped: Taken, class: usize, asked: u64) -> Result<(), Taken> {
    if class >= SizeClass::COUNT {
        return Err(dropped);
    }
    let give = |kept: &mut Kept, dropped| {
        // SAFETY: the cache has the key of the block's pool, so what it keeps is of that, or was taken (its invariant 1).
        unsafe { kept.take_back_or_leave(dropped, class, asked) }
    };
    let given = first(dropped.1.key(), dropped, give).or_else(|dropped| match mine(&dropped.1) {
        Some(cache) => cache.enter(dropped, give),
        None => Err(dropped),
    });
    given.flatten()
}

/// Keeps a block that was given back before and has become free, of the size class of this index. Hands it back if this
/// thread has no place for it.
pub(crate) fn keep(
    core: &Ticket<Core>,
    record: Box<Record>,
    class: usize,
) -> Result<(), Box<Record>> {
    let Some(cache) = mine(core) else {
        return Err(record);
    };
    cache
        .enter(record, |kept, record| kept.keep(record, class))
        .flatten()
}

/// Notes that a block went out, for a request of `asked` bytes, that came from the pool's books or straight from a depot.
pub(crate) fn note_out(core: &Ticket<Core>, span: &Span, asked: u64) -> Ticket<Core> {
    let class = span.class;
    if class.is_none() {
        core.events.exact_out(span.bytes);
    }
    let note = |kept: &mut Kept, ()| kept.note_out(class.map(SizeClass::index), asked);
    let noted = mine(core).and_then(|cache| cache.enter((), note).ok()?);
    noted.unwrap_or_else(|| {
        let count = ClassCount {
            handed_out: 1,
            requested: asked,
            exchanged: 1,
            ..ClassCount::default()
        };
        core.counters.count(class, count);
        core.clone()
    })
}

/// Notes that a block was dropped that goes elsewhere than into a magazine.
pub(crate) fn note_back(core: &Ticket<Core>, span: &Span, asked: u64) {
    let class = span.class;
    if class.is_none() {
        core.events.exact_back(span.bytes);
    }
    // No cache is made for it: a thread that only ever drops what devices still use keeps nothing.
    let note = |kept: &mut Kept, ()| kept.note_back(class.map(SizeClass::index), asked);
    if let Ok(Some(())) = first(core.key(), (), note) {
        return;
    }
    let count = ClassCount {
        taken_back: 1,
        requested: asked.wrapping_neg(),
        exchanged: 1_u64.wrapping_neg(),
        ..ClassCount::default()
    };
    core.counters.count(class, count);
}
