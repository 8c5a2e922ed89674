//! Commands that wait: the queue hangs on what it waits for, and no thread is held.
//!
//! Each function returns `None` where the wait is met and the front still the caller's. Otherwise the front may be
//! somebody else's from the moment the stall is in place, and the command may have ended and left its slot: what a
//! function names after that it holds itself.
//!
//! Trouble (an abort, loss of the device) ends stalls; a queue that stalls just after that looks once more when its
//! stall is in place. A wait for another queue is the exception: it ends when that queue has ended what it waits for,
//! trouble or not.

use super::Step;
use crate::{
    deadlock::{self, Awaits},
    progress::Progress,
    queue::{QueueCore, Watcher},
    semaphore::SemaphoreCore,
    urgency,
};
use piton_driver::MemoryWait;
use piton_sync::atomic::Ordering;
use std::sync::Arc;

/// Waits for another queue to have ended `awaited`.
pub(super) fn on_queue(
    queue: &Arc<QueueCore>,
    other: &Arc<QueueCore>,
    awaited: u64,
) -> Option<Step> {
    if other.progress.reached() >= awaited {
        return None;
    }
    // Once the stall is in place the command may be gone, and what it names with it.
    let other = Arc::clone(other);
    let awaits = Awaits::Queue(Arc::clone(&other), awaited);
    let step = hang(queue, &other.progress, awaited, awaits)?;
    other.start_what_is_awaited();
    urgency::lend(queue.band(), &other, awaited);
    if queue.device.machine().is_watched() {
        deadlock::check_wait(queue, &other);
    }
    Some(step)
}

/// Waits for a semaphore to have reached `value`.
pub(super) fn on_semaphore(
    queue: &Arc<QueueCore>,
    position: u64,
    semaphore: &Arc<SemaphoreCore>,
    value: u64,
) -> Option<Step> {
    let machine = queue.device.machine();
    machine.semaphore_waits.store(true, Ordering::Relaxed);
    if semaphore.progress.reached() >= value {
        return None;
    }
    let semaphore = Arc::clone(semaphore);
    let awaits = Awaits::Semaphore(Arc::clone(&semaphore), value);
    let step = hang(queue, &semaphore.progress, value, awaits.clone())?;
    wake_if_in_trouble(queue, position);
    urgency::hand_on(queue.band(), awaits);
    deadlock::check(queue);
    Some(step)
}

/// Waits for a value in memory. An address that is not there any more is no reason to wait: the command then ends
/// with the error.
pub(super) fn on_memory(queue: &Arc<QueueCore>, position: u64, wait: MemoryWait) -> Option<Step> {
    let ticket = queue.stall.begin(Awaits::Memory(wait.at));
    let machine = queue.device.machine();
    if !machine.memory_waits.watch(queue, ticket, wait) {
        return if queue.stall.end(ticket) {
            None
        } else {
            Some(Step::Waits)
        };
    }
    wake_if_in_trouble(queue, position);
    Some(Step::Waits)
}

/// Waits for nothing: only trouble ends the stall.
pub(super) fn for_ever(queue: &Arc<QueueCore>, position: u64) -> Step {
    let _ticket = queue.stall.begin(Awaits::Never);
    wake_if_in_trouble(queue, position);
    Step::Waits
}

fn hang(
    queue: &Arc<QueueCore>,
    awaited: &Progress<Watcher>,
    number: u64,
    awaits: Awaits,
) -> Option<Step> {
    let ticket = queue.stall.begin(awaits);
    match awaited.watch(number, Watcher::Queue(Arc::clone(queue), ticket)) {
        Ok(()) => Some(Step::Waits),
        Err(_) if queue.stall.end(ticket) => None,
        Err(_) => Some(Step::Waits),
    }
}

/// Trouble that came while the stall was being put in place did not see it.
fn wake_if_in_trouble(queue: &Arc<QueueCore>, position: u64) {
    if queue.trouble.is_aborted(position) || queue.device.core().is_lost() {
        queue.wake_stalled();
    }
}
