//! Counters that the host signals and queues wait for.

use crate::{
    drive::{copy, fill_word},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{ErrorKind, Position, Semaphores, SignalledBy};

cases! { "semaphores":
    a_semaphore_only_grows [Semaphores],
    a_wait_may_come_before_its_signal [Semaphores HostMemory],
    a_wait_after_its_signal_does_not_hold [Semaphores],
    a_signal_comes_after_the_work_before_it [Semaphores HostMemory],
    a_queue_does_not_lower_a_semaphore [Semaphores],
    only_queues_raise_what_is_for_queues [Semaphores],
    queues_meet_at_a_semaphore_without_the_host [Semaphores HostMemory],
    queues_and_semaphores_of_another_driver_are_foreign [Semaphores],
}

#[track_caller]
fn semaphores(stage: &Stage) -> Result<&dyn Semaphores, Failure> {
    let missing = || Failure::new("the case says it needs semaphores", "it does not");
    stage.device.semaphores().ok_or_else(missing)
}

fn a_semaphore_only_grows(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let semaphore = semaphores(&stage)?.create(7, SignalledBy::Anyone)?;
    ensure_eq(
        semaphore.value(),
        7,
        "a semaphore starts where it was told to",
    )?;
    semaphore.signal(9)?;
    for given in [0, 8, 9] {
        let expected = ErrorKind::NotMonotonic { current: 9, given };
        refused(
            semaphore.signal(given),
            |kind| *kind == expected,
            "a semaphore never falls",
        )?;
    }
    semaphore.signal(u64::MAX)?;
    ensure_eq(semaphore.value(), u64::MAX, "a semaphore holds any number")
}

fn only_queues_raise_what_is_for_queues(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let semaphore = semaphores(&stage)?.create(3, SignalledBy::Queues)?;
    for value in [0, 3, 4] {
        refused(
            semaphore.signal(value),
            |kind| *kind == ErrorKind::NotForHost,
            "the host may not raise it",
        )?;
    }
    ensure_eq(semaphore.value(), 3, "what is refused changes nothing")?;
    let (first, second) = (stage.queue()?, stage.queue()?);
    accepted(first.signal_semaphore(&semaphore, 4))?;
    accepted(second.wait_semaphore(&semaphore, 4))?;
    finish(&second)?;
    ensure_eq(semaphore.value(), 4, "a queue raised it")
}

fn a_wait_may_come_before_its_signal(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let semaphore = semaphores(&stage)?.create(0, SignalledBy::Anyone)?;
    accepted(fill_word(&queue, &buffer, 1))?;
    accepted(queue.wait_semaphore(&semaphore, 5))?;
    let last = accepted(fill_word(&queue, &buffer, 2))?;
    semaphore.signal(4)?;
    ensure(queue.completed() < last, "four is not five")?;
    semaphore.signal(6)?;
    finish(&queue)?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![2; 16],
        "a higher value lets through",
    )
}

fn a_wait_after_its_signal_does_not_hold(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let semaphore = semaphores(&stage)?.create(3, SignalledBy::Anyone)?;
    for value in [0, 1, 3] {
        accepted(queue.wait_semaphore(&semaphore, value))?;
    }
    accepted(fill_word(&queue, &buffer, 1))?;
    finish(&queue)
}

fn a_signal_comes_after_the_work_before_it(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b) = (stage.queue()?, stage.queue()?);
    let (buffer, back) = (stage.buffer(1 << 16)?, stage.buffer(64)?);
    let semaphore = semaphores(&stage)?.create(0, SignalledBy::Anyone)?;
    accepted(b.wait_semaphore(&semaphore, 1))?;
    accepted(copy(&b, (&back, 0), (&buffer, (1 << 16) - 64), 64))?;
    accepted(fill_word(&a, &buffer, 8))?;
    accepted(a.signal_semaphore(&semaphore, 1))?;
    finish(&a)?;
    ensure_eq(semaphore.value(), 1, "the signal was given")?;
    finish(&b)?;
    ensure_eq(
        stage.words(&back, 16)?,
        vec![8; 16],
        "the waiter saw the work before the signal",
    )
}

fn a_queue_does_not_lower_a_semaphore(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let semaphore = semaphores(&stage)?.create(5, SignalledBy::Anyone)?;
    accepted(queue.signal_semaphore(&semaphore, 2))?;
    finish(&queue)?;
    ensure_eq(semaphore.value(), 5, "a late signal leaves it alone")
}

fn queues_meet_at_a_semaphore_without_the_host(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b, buffer) = (stage.queue()?, stage.queue()?, stage.buffer(64)?);
    let semaphore = semaphores(&stage)?.create(0, SignalledBy::Anyone)?;
    for turn in 0..20 {
        let word = u32::try_from(turn).unwrap_or(0);
        accepted(a.wait_semaphore(&semaphore, 2 * turn))?;
        accepted(fill_word(&a, &buffer, 2 * word))?;
        accepted(a.signal_semaphore(&semaphore, 2 * turn + 1))?;
        accepted(b.wait_semaphore(&semaphore, 2 * turn + 1))?;
        accepted(fill_word(&b, &buffer, 2 * word + 1))?;
        accepted(b.signal_semaphore(&semaphore, 2 * turn + 2))?;
    }
    finish(&b)?;
    finish(&a)?;
    ensure_eq(semaphore.value(), 40, "all signals were given")?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![39; 16],
        "the last turn wrote last",
    )
}

fn queues_and_semaphores_of_another_driver_are_foreign(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let (queue, foreign_queue) = (stage.queue()?, other.queue()?);
    let own = semaphores(&stage)?.create(0, SignalledBy::Anyone)?;
    let foreign = semaphores(&other)?.create(0, SignalledBy::Anyone)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::ForeignObject { .. });
    refused(
        queue.wait_semaphore(&foreign, 1),
        is_reason,
        "a foreign semaphore is no wait",
    )?;
    refused(
        queue.signal_semaphore(&foreign, 1),
        is_reason,
        "a foreign semaphore is no signal",
    )?;
    refused(
        foreign_queue.wait_semaphore(&own, 1),
        is_reason,
        "a foreign queue does not wait",
    )?;
    refused(
        foreign_queue.signal_semaphore(&own, 1),
        is_reason,
        "a foreign queue does not signal",
    )?;
    ensure_eq(
        queue.submitted(),
        Position::START,
        "a refused command takes no position",
    )
}
