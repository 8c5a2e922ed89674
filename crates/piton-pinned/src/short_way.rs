//! The short way of a request and of a drop: what this thread keeps, and its counters, and nothing that others write.
//!
//! # The idea
//! Each first tries the cache that the thread used last, inlined where it is called: a call saves and restores as much as the rest of
//! it does. What that cannot do goes another way, out of line: the cache has to be found or made, the depot asked. What is
//! given goes in and comes back by value, so that it stays in registers.

use crate::{
    class_counts::{ClassCount, ClassCounters},
    core::{Core, Taken},
    kept::Kept,
    record::Record,
    span::Span,
    thread_cache::{bring_forward, first, first_with, with},
    tickets::Ticket,
};
use piton_suballoc::SizeClass;

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
