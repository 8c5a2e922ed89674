//! A request and a drop from end to end: the short way, and the pool's shared parts where that ends.
//!
//! The picture of it is in [`core`](crate::core), whose lock order holds here.
//!
//! # Invariants
//! A block is counted as out before its handle exists, and as back before anybody else can have it.

use crate::{
    PinnedError,
    config::PAGE,
    core::{Core, Taken, trim},
    growth::Growth,
    label::Known,
    record::Record,
    request::Request,
    short_way,
    span::Span,
    thread_cache,
    tickets::Ticket,
};
use piton_driver::ErrorKind;
use std::mem::ManuallyDrop;

/// Takes memory for a request; see the picture in [`core`](crate::core).
///
/// # Errors
/// [`PinnedError::CapReached`], [`PinnedError::Driver`], [`PinnedError::Books`].
pub(crate) fn take(core: &Ticket<Core>, request: &Request) -> Result<Taken, PinnedError> {
    if let Some(class) = request.listed_class()
        && let Some(taken) = short_way::take_of(core, class.index(), request.asked)
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
        && let Some(taken) = short_way::take_of(core, class.index(), request.asked)
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

/// Takes a block back. It may be handed out again once its uses are complete. In a fork all of it stays where it is.
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
    if let Err(dropped) = short_way::give(core, record, label.class(), label.asked()) {
        give_back_slowly(dropped, label);
    }
}

/// As [`give_back_free`], where the short way ends. In a fork all of it stays where it is.
#[cold]
fn give_back_slowly(dropped: Taken, label: Known) {
    if dropped.1.timeline.is_forked() {
        let _there = ManuallyDrop::new(dropped);
        return;
    }
    if let Err((record, core)) = short_way::give_up(dropped, label.class(), label.asked()) {
        give_to_all(core, record, label);
    }
}

/// Takes a block back of which uses were recorded.
#[inline(never)]
fn give_back_used(core: Ticket<Core>, mut record: Box<Record>, label: Known) {
    if core.timeline.is_forked() {
        let _there = ManuallyDrop::new((core, record));
        return;
    }
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
