//! What a queue says that it is at: for watchdogs and dumps, so a snapshot that may be late but not wrong.

use crate::{
    cases::queues::Gate,
    drive::fill_word,
    outcome::{Checked, Failure, accepted, ensure_eq},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{Awaited, Front, Operation, Position, Queue, QueueActivity};
use std::sync::Arc;

cases! { "activity":
    a_queue_with_nothing_left_is_idle [],
    a_queue_that_waits_for_a_semaphore_says_so [Semaphores],
    a_queue_that_waits_for_another_says_so [Semaphores],
}

/// Looks before a case is content with what it saw; each yields the processor.
const LOOKS: u32 = 10_000;

/// Looks at a queue until it says what its first command waits for. A queue may not have come to it yet, and a device need
/// not say.
fn awaited(queue: &Arc<dyn Queue>, operation: Operation) -> Result<Option<Awaited>, Failure> {
    for _ in 0..LOOKS {
        match queue.activity() {
            QueueActivity::Unknown => return Ok(None),
            QueueActivity::Waiting(front, awaited) => {
                check(front, operation)?;
                return Ok(Some(awaited));
            }
            QueueActivity::Running(front) => check(front, operation)?,
            QueueActivity::Ready(position) => {
                ensure_eq(
                    position,
                    Position::new(1),
                    "the oldest command is the front",
                )?;
            }
            other => return Err(Failure::new("there is work left", format!("{other:?}"))),
        }
        piton_sync::thread::yield_now();
    }
    Ok(None)
}

fn check(front: Front, operation: Operation) -> Checked {
    ensure_eq(
        front.position,
        Position::new(1),
        "the oldest command is the front",
    )?;
    ensure_eq(
        front.operation,
        operation,
        "the front is what was submitted",
    )?;
    let file = front.origin.map_or(file!(), |origin| origin.file());
    let is_of_the_suite = file.contains("cases");
    ensure_eq(is_of_the_suite, true, "and where it was submitted")
}

fn a_queue_with_nothing_left_is_idle(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    for word in [1, 2] {
        match queue.activity() {
            QueueActivity::Unknown | QueueActivity::Idle => {}
            other => return Err(Failure::new("nothing is left to do", format!("{other:?}"))),
        }
        accepted(fill_word(&queue, &buffer, word))?;
        finish(&queue)?;
    }
    Ok(())
}

fn a_queue_that_waits_for_a_semaphore_says_so(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let gate = Gate::close(&stage, &queue)?;
    if let Some(awaited) = awaited(&queue, Operation::WaitSemaphore)? {
        let [current, wanted] = [0, 1];
        let expected = Awaited::Semaphore { current, wanted };
        ensure_eq(awaited, expected, "it waits for the gate")?;
    }
    gate.open()?;
    finish(&queue)
}

fn a_queue_that_waits_for_another_says_so(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, second) = (stage.queue()?, stage.queue()?);
    let gate = Gate::close(&stage, &first)?;
    accepted(second.wait_for(&*first, Position::new(1)))?;
    if let Some(awaited) = awaited(&second, Operation::WaitQueue)? {
        let expected = Awaited::Queue(first.id(), Position::new(1));
        ensure_eq(awaited, expected, "it waits for the other's place")?;
    }
    gate.open()?;
    finish(&second)
}
