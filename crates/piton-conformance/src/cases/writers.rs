//! A queue for one producer alone: the same commands, which may start later.

use crate::{
    drive::{fill_by, fill_word},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq},
    stage::{Stage, end, finish},
    subject::Subject,
};
use piton_driver::{Position, Queue, QueueWriter};
use std::sync::Arc;

cases! { "writers":
    what_a_writer_submits_runs_in_its_place [Writers HostMemory],
    who_waits_starts_what_a_writer_left [Writers],
    another_queues_wait_starts_what_a_writer_left [Writers],
    a_writer_that_ends_leaves_nothing_unstarted [Writers],
    a_queue_has_a_writer_again_when_one_has_ended [Writers],
}

#[track_caller]
fn writer(queue: &Arc<dyn Queue>) -> Result<Box<dyn QueueWriter + '_>, Failure> {
    let missing = || Failure::new("facets do not change", "writers went away");
    queue.writer().ok_or_else(missing)
}

fn what_a_writer_submits_runs_in_its_place(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    accepted(fill_word(&queue, &buffer, 1))?;
    let mut writer = writer(&queue)?;
    for n in 2..=40 {
        let number = u32::try_from(n).unwrap_or(0);
        let position = accepted(fill_by(&mut *writer, &queue, &buffer, number))?;
        ensure_eq(position, Position::new(n), "positions go on")?;
    }
    drop(writer);
    let last = accepted(fill_word(&queue, &buffer, 41))?;
    ensure_eq(last, Position::new(41), "and go on behind it")?;
    finish(&queue)?;
    let seen = stage.words(&buffer, 16)?;
    ensure_eq(seen, vec![41; 16], "the last command is the last")
}

fn who_waits_starts_what_a_writer_left(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let mut writer = writer(&queue)?;
    let first = accepted(fill_by(&mut *writer, &queue, &buffer, 1))?;
    end(&queue, first)?;
    accepted(fill_by(&mut *writer, &queue, &buffer, 2))?;
    writer.flush()?;
    let last = accepted(fill_by(&mut *writer, &queue, &buffer, 3))?;
    end(&queue, last)?;
    drop(writer);
    finish(&queue)
}

fn another_queues_wait_starts_what_a_writer_left(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let other = stage.queue()?;
    let mut writer = writer(&queue)?;
    let position = accepted(fill_by(&mut *writer, &queue, &buffer, 1))?;
    accepted(other.wait_for(&*queue, position))?;
    finish(&other)?;
    ensure(queue.completed() >= position, "the wait was kept")?;
    drop(writer);
    finish(&queue)
}

fn a_writer_that_ends_leaves_nothing_unstarted(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let mut writer = writer(&queue)?;
    let position = accepted(fill_by(&mut *writer, &queue, &buffer, 1))?;
    drop(writer);
    finish(&queue)?;
    ensure_eq(queue.completed(), position, "it ran")?;
    ensure_eq(queue.submitted(), position, "nothing else was submitted")
}

fn a_queue_has_a_writer_again_when_one_has_ended(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    for n in 1..=3 {
        let mut writer = writer(&queue)?;
        let position = accepted(fill_by(&mut *writer, &queue, &buffer, 1))?;
        ensure_eq(
            position,
            Position::new(n),
            "positions go on from one to the next",
        )?;
    }
    finish(&queue)
}
