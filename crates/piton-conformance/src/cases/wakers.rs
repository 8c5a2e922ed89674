//! Wakers: called for reached positions, once, and never lost.

use crate::{
    cases::queues::Gate,
    drive::{DeviceBuffer, fill_word},
    outcome::{Checked, Failure, accepted, ensure_eq},
    stage::{Stage, finish},
    subject::Subject,
    waker::{CountingWaker, PanickingWaker},
};
use piton_driver::Position;
use piton_sync::thread;
use std::sync::Arc;

cases! { "wakers":
    an_ended_position_wakes_at_once [],
    a_position_wakes_when_it_ends_and_not_before [Semaphores],
    each_waker_is_woken_for_its_own_position [Semaphores],
    wakers_registered_while_work_runs_are_all_woken [],
    a_waker_that_panics_keeps_nobody_else_waiting [Semaphores],
}

fn an_ended_position_wakes_at_once(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let (count, waker) = CountingWaker::new();
    queue.notify(Position::START, &waker)?;
    ensure_eq(count.count(), 1, "the start has ended")?;
    let position = accepted(fill_word(&queue, &buffer, 1))?;
    finish(&queue)?;
    queue.notify(position, &waker)?;
    ensure_eq(count.count(), 2, "so has what was waited for")
}

fn a_position_wakes_when_it_ends_and_not_before(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let gate = Gate::close(&stage, &queue)?;
    let position = accepted(fill_word(&queue, &buffer, 1))?;
    let (count, waker) = CountingWaker::new();
    queue.notify(position, &waker)?;
    ensure_eq(count.count(), 0, "nothing has ended yet")?;
    gate.open()?;
    finish(&queue)?;
    woken(&count, 1)?;
    accepted(fill_word(&queue, &buffer, 2))?;
    finish(&queue)?;
    ensure_eq(count.count(), 1, "one notify, one wake")
}

fn each_waker_is_woken_for_its_own_position(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let early_gate = Gate::close(&stage, &queue)?;
    let first = accepted(fill_word(&queue, &buffer, 1))?;
    let late_gate = Gate::close(&stage, &queue)?;
    let last = accepted(fill_word(&queue, &buffer, 2))?;
    let ((early, early_waker), (late, late_waker)) = (CountingWaker::new(), CountingWaker::new());
    queue.notify(last, &late_waker)?;
    queue.notify(first, &early_waker)?;
    early_gate.open()?;
    crate::stage::end(&queue, first)?;
    woken(&early, 1)?;
    ensure_eq(late.count(), 0, "the later position has not ended")?;
    late_gate.open()?;
    finish(&queue)?;
    woken(&late, 1)?;
    ensure_eq(early.count(), 1, "the earlier was woken once")
}

fn wakers_registered_while_work_runs_are_all_woken(subject: &Subject) -> Checked {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 300;
    let stage = Stage::open(subject)?;
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let (device, queue) = (Arc::clone(&stage.device), stage.queue()?);
        threads.push(thread::spawn(move || -> Checked {
            let buffer = DeviceBuffer::new(&device, 64)?;
            let (count, waker) = CountingWaker::new();
            for round in 1..=ROUNDS {
                let position = accepted(fill_word(&queue, &buffer, 1))?;
                queue.notify(position, &waker)?;
                finish(&queue)?;
                woken(&count, round)?;
            }
            Ok(())
        }));
    }
    join(threads)
}

fn a_waker_that_panics_keeps_nobody_else_waiting(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    for _ in 0..2 {
        let gate = Gate::close(&stage, &queue)?;
        let position = accepted(fill_word(&queue, &buffer, 1))?;
        let (count, waker) = CountingWaker::new();
        for waker in [PanickingWaker::waker(), waker] {
            queue.notify(position, &waker)?;
        }
        gate.open()?;
        finish(&queue)?;
        woken(&count, 1)?;
        ensure_eq(queue.completed(), position, "the queue goes on")?;
    }
    Ok(())
}

/// The position has ended; its waker is called right after, perhaps by another thread.
#[track_caller]
fn woken(count: &CountingWaker, times: u64) -> Checked {
    /// Looks before the case gives up; each yields the processor.
    const LOOKS: u32 = 1_000_000;
    for _ in 0..LOOKS {
        if count.count() >= times {
            return ensure_eq(
                count.count(),
                times,
                "a waker is not called more often than asked",
            );
        }
        thread::yield_now();
    }
    Err(Failure::new(
        "an ended position wakes who asked",
        "the wake was lost",
    ))
}

/// The first failure of the threads.
pub(crate) fn join(threads: Vec<thread::JoinHandle<Checked>>) -> Checked {
    let results: Vec<_> = threads.into_iter().map(thread::JoinHandle::join).collect();
    for result in results {
        result.unwrap_or_else(|_| Err(Failure::new("no call panics", "a thread panicked")))?;
    }
    Ok(())
}
