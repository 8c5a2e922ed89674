//! Queues that wait for each other in a circle, and waits that nothing can end.
//!
//! # What is a deadlock
//! A queue is *stuck* if what it waits for can come from stuck queues only:
//! - a wait for another queue, if that one is stuck;
//! - a wait for a semaphore that only queues may raise, if signals high enough are submitted and each of them is
//!   behind a wait of a stuck queue;
//! - a wait for any semaphore of which nobody has a handle, if no signal high enough is submitted outside of stuck
//!   queues.
//!
//! Everything else waits for something outside: the host, another process, a value in memory. The stuck queues are
//! the largest set that satisfies this: all queues reached from the one that has just stalled, less those that
//! somebody outside can set going, until no more fall out. What is left is failed, each queue with the next one it
//! waits for, and the rest runs on.
//!
//! # Why nothing is failed that could go on
//! The set is put together while queues run. Each member's stall has a ticket, noted when the member is first looked
//! at and looked at again when the set is complete: so there was a moment when all of them were stalled at once, and
//! each of them only another member can set going. Two checks at once may find the same set; a queue is failed by
//! whoever gets its ticket.

use crate::{queue::QueueCore, semaphore::SemaphoreCore};
use piton_driver::{Awaited, DevicePtr, ErrorKind, Position};
use std::{collections::BTreeMap, sync::Arc};

/// What a stalled queue waits for.
#[derive(Clone, Debug)]
pub(crate) enum Awaits {
    Queue(Arc<QueueCore>, u64),
    Semaphore(Arc<SemaphoreCore>, u64),
    Memory(DevicePtr),
    /// Nothing: a kernel that never ends, by a fault plan.
    Never,
}

impl Awaits {
    /// The same in the contract's words.
    pub(crate) fn told(&self) -> Option<Awaited> {
        match self {
            Self::Queue(queue, position) => {
                Some(Awaited::Queue(queue.id, Position::new(*position)))
            }
            Self::Semaphore(semaphore, wanted) => Some(Awaited::Semaphore {
                current: semaphore.progress.reached(),
                wanted: *wanted,
            }),
            Self::Memory(at) => Some(Awaited::Memory(*at)),
            Self::Never => None,
        }
    }
}

/// How many queues a quick look passes.
const LONGEST_LOOK: u32 = 8;

/// A queue that may be stuck, and the queues that could set it going.
#[derive(Debug)]
struct Suspect {
    queue: Arc<QueueCore>,
    ticket: u64,
    awaits: Awaits,
    helpers: Vec<Arc<QueueCore>>,
}

/// `queue` has stalled for `other`. One that does not stall itself goes on, and most do not: then there is nothing to look for.
/// Of several queues that close a circle at once, the last to stall sees the next one stalled.
pub(crate) fn check_wait(queue: &Arc<QueueCore>, other: &QueueCore) {
    if other.stall.is_on() {
        check(queue);
    }
}

/// `queue` has stalled, or a signal was submitted behind its stall, or something that it waits for has become less likely:
/// fails it and others with it if they are stuck.
pub(crate) fn check(queue: &Arc<QueueCore>) {
    if leads_out(queue) {
        return;
    }
    let Some(mut suspects) = reachable(queue) else {
        return;
    };
    drop_free(&mut suspects);
    let is_on = |suspect: &Suspect| suspect.queue.stall.is(suspect.ticket);
    if !suspects.values().all(is_on) {
        return;
    }
    // All of them before any goes on: what the first to end skips would be missing to whoever looks at the others.
    let is_mine = |suspect: &&Suspect| {
        let kind = verdict(suspect, &suspects);
        suspect.queue.take_to_doom(suspect.ticket, kind)
    };
    let doomed: Vec<&Suspect> = suspects.values().filter(is_mine).collect();
    for suspect in doomed {
        suspect.queue.engine().schedule(&suspect.queue);
    }
}

/// Whether `queue` waits for a queue, maybe for others in between, that waits for nothing or for something outside: it is
/// not stuck then, which is found without a set, and without asking for memory. `false` says nothing.
fn leads_out(queue: &Arc<QueueCore>) -> bool {
    let mut at = Arc::clone(queue);
    for _ in 0..LONGEST_LOOK {
        match at.stall.get() {
            None => return true,
            Some((_, Awaits::Queue(next, position))) if next.progress.reached() < position => {
                at = next;
            }
            Some((_, Awaits::Semaphore(semaphore, _))) => return semaphore.is_for_host(),
            Some(_) => return true,
        }
    }
    false
}

/// By number, so that who is failed first is no matter of chance.
type Suspects = BTreeMap<u64, Suspect>;

/// Every queue that `first` may have to wait for; `None` where it does not stall.
fn reachable(first: &Arc<QueueCore>) -> Option<Suspects> {
    let mut suspects = Suspects::new();
    let mut to_look_at = vec![Arc::clone(first)];
    while let Some(queue) = to_look_at.pop() {
        if suspects.contains_key(&queue.id.0) {
            continue;
        }
        let Some((ticket, awaits)) = queue.stall.get() else {
            continue;
        };
        let Some(helpers) = helpers(&awaits) else {
            continue;
        };
        to_look_at.extend(helpers.iter().cloned());
        let id = queue.id.0;
        let suspect = Suspect {
            queue,
            ticket,
            awaits,
            helpers,
        };
        suspects.insert(id, suspect);
    }
    suspects.contains_key(&first.id.0).then_some(suspects)
}

/// The queues that could end this wait; `None` if something else could, or if it is over.
fn helpers(awaits: &Awaits) -> Option<Vec<Arc<QueueCore>>> {
    match awaits {
        Awaits::Queue(queue, position) => {
            (queue.progress.reached() < *position).then(|| vec![Arc::clone(queue)])
        }
        Awaits::Semaphore(semaphore, value) => semaphore.helpers(*value),
        Awaits::Memory(_) | Awaits::Never => None,
    }
}

/// Takes out, again and again, whoever has a helper outside.
fn drop_free(suspects: &mut Suspects) {
    loop {
        let is_inside = |queue: &Arc<QueueCore>| suspects.contains_key(&queue.id.0);
        let free: Vec<u64> = suspects
            .iter()
            .filter(|(_, suspect)| !suspect.helpers.iter().all(is_inside))
            .map(|(id, _)| *id)
            .collect();
        if free.is_empty() {
            return;
        }
        for id in free {
            suspects.remove(&id);
        }
    }
}

/// What a stuck queue is told.
fn verdict(suspect: &Suspect, all: &Suspects) -> ErrorKind {
    let Some(next) = suspect.helpers.first() else {
        return never(&suspect.awaits);
    };
    ErrorKind::DeadlockCycle {
        awaited: next.id,
        length: circle(suspect, all),
    }
}

fn never(awaits: &Awaits) -> ErrorKind {
    match awaits {
        Awaits::Semaphore(semaphore, wanted) => ErrorKind::NeverSignalled {
            current: semaphore.progress.reached(),
            wanted: *wanted,
        },
        _ => ErrorKind::Deadlock { waiting: 1 },
    }
}

/// How many queues there are in the circle that this one runs into.
fn circle(from: &Suspect, all: &Suspects) -> u32 {
    let mut seen: Vec<u64> = Vec::new();
    let mut at = from.queue.id.0;
    loop {
        if let Some(place) = seen.iter().position(|id| *id == at) {
            return u32::try_from(seen.len() - place).unwrap_or(u32::MAX);
        }
        seen.push(at);
        match all.get(&at).and_then(|suspect| suspect.helpers.first()) {
            Some(next) => at = next.id.0,
            None => return u32::try_from(seen.len()).unwrap_or(u32::MAX),
        }
    }
}
