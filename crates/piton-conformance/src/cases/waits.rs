//! Queues that wait for each other, with no host between.

use crate::{
    cases::queues::Gate,
    drive::{copy, copy_behind, fill_word, launch},
    outcome::{Checked, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{Admission, ErrorKind, Grid, Position, QueueWait};

cases! { "waits":
    a_queue_waits_for_what_another_has_not_done_yet [HostMemory Semaphores],
    a_wait_for_what_has_ended_costs_nothing_but_a_position [HostMemory],
    a_wait_for_the_own_past_is_harmless [],
    a_command_is_taken_with_all_its_waits_or_with_none [HostMemory Semaphores],
    two_queues_take_turns [HostMemory],
    one_queue_waits_for_many_and_many_for_one [HostMemory],
    queues_without_a_wait_do_not_hold_each_other [Semaphores],
    a_queue_of_another_driver_is_foreign [],
}

fn a_queue_waits_for_what_another_has_not_done_yet(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, second) = (stage.queue()?, stage.queue()?);
    let (a, b) = (stage.buffer(64)?, stage.buffer(64)?);
    let gate = Gate::close(&stage, &first)?;
    let written = accepted(fill_word(&first, &a, 5))?;
    accepted(second.wait_for(&*first, written))?;
    let last = accepted(copy(&second, (&b, 0), (&a, 0), 64))?;
    ensure(second.completed() < last, "the second waits")?;
    gate.open()?;
    finish(&second)?;
    ensure(
        first.completed() >= written,
        "what was waited for has ended",
    )?;
    ensure_eq(
        stage.words(&b, 16)?,
        vec![5; 16],
        "the second saw what the first wrote",
    )
}

fn a_wait_for_what_has_ended_costs_nothing_but_a_position(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, second) = (stage.queue()?, stage.queue()?);
    let (a, b) = (stage.buffer(64)?, stage.buffer(64)?);
    let written = accepted(fill_word(&first, &a, 6))?;
    finish(&first)?;
    let waits = [Position::START, written].map(|position| second.wait_for(&*first, position));
    for (n, wait) in (1..).zip(waits) {
        ensure_eq(accepted(wait)?, Position::new(n), "a wait is a command")?;
    }
    accepted(copy(&second, (&b, 0), (&a, 0), 64))?;
    finish(&second)?;
    ensure_eq(
        stage.words(&b, 16)?,
        vec![6; 16],
        "the second saw what the first wrote",
    )
}

fn a_wait_for_the_own_past_is_harmless(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let position = accepted(fill_word(&queue, &buffer, 1))?;
    accepted(queue.wait_for(&*queue, position))?;
    accepted(fill_word(&queue, &buffer, 2))?;
    finish(&queue)
}

fn a_command_is_taken_with_all_its_waits_or_with_none(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, second) = (stage.queue()?, stage.queue()?);
    let (a, b) = (stage.buffer(64)?, stage.buffer(64)?);
    let gates = [Gate::close(&stage, &first)?, Gate::close(&stage, &second)?];
    let written = accepted(fill_word(&first, &a, 7))?;
    let wait = QueueWait {
        queue: &*first,
        position: written,
        inherits: true,
    };
    while second.submitted().get() + 1 < second.capacity() {
        accepted(fill_word(&second, &b, 1))?;
    }
    let before = second.submitted();
    let refused = copy_behind((&second, &[wait]), (&b, 0), (&a, 0), 64)?;
    ensure_eq(
        refused,
        Admission::Full,
        "there is room for one, not for two",
    )?;
    ensure_eq(second.submitted(), before, "a refusal leaves no wait")?;
    let last = accepted(fill_word(&second, &b, 1))?;
    ensure_eq(last.get(), before.get() + 1, "the room is there still")?;
    gates[1].open()?;
    finish(&second)?;
    let taken = accepted(copy_behind((&second, &[wait, wait]), (&b, 0), (&a, 0), 64))?;
    ensure_eq(taken.get(), last.get() + 3, "each wait has a position")?;
    ensure(second.completed() < taken, "the command waits")?;
    gates[0].open()?;
    finish(&second)?;
    ensure_eq(
        stage.words(&b, 16)?,
        vec![7; 16],
        "the second saw what the first wrote",
    )
}

fn two_queues_take_turns(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b, add) = (
        stage.queue()?,
        stage.queue()?,
        stage.kernel(TestKernels::ADD)?,
    );
    let words = TestKernels::BLOCK as usize;
    let buffer = stage.buffer(words as u64 * 4)?;
    accepted(fill_word(&a, &buffer, 0))?;
    for _ in 0..50 {
        let first = accepted(launch(&a, &add, Grid::linear(1), &[&buffer], 1))?;
        accepted(b.wait_for(&*a, first))?;
        let second = accepted(launch(&b, &add, Grid::linear(1), &[&buffer], 1))?;
        accepted(a.wait_for(&*b, second))?;
    }
    finish(&a)?;
    finish(&b)?;
    ensure_eq(
        stage.words(&buffer, words)?,
        vec![100; words],
        "no addition was lost",
    )
}

fn one_queue_waits_for_many_and_many_for_one(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (fan, buffer, sums) = (8_u32, stage.buffer(64)?, stage.buffer(64)?);
    let (source, sink) = (stage.queue()?, stage.queue()?);
    accepted(fill_word(&sink, &sums, 0))?;
    finish(&sink)?;
    let written = accepted(fill_word(&source, &buffer, 9))?;
    let mut middle = Vec::new();
    for n in 0..fan {
        let queue = stage.queue()?;
        accepted(queue.wait_for(&*source, written))?;
        let position = accepted(copy(&queue, (&sums, u64::from(n) * 4), (&buffer, 0), 4))?;
        accepted(sink.wait_for(&*queue, position))?;
        middle.push(queue);
    }
    let back = stage.buffer(64)?;
    accepted(copy(&sink, (&back, 0), (&sums, 0), 64))?;
    finish(&sink)?;
    let expected = [vec![9; 8], vec![0; 8]].concat();
    ensure_eq(
        stage.words(&back, 16)?,
        expected,
        "the sink saw all of them",
    )
}

fn queues_without_a_wait_do_not_hold_each_other(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (stuck, buffer) = (stage.queue()?, stage.buffer(64)?);
    let gate = Gate::close(&stage, &stuck)?;
    // More queues than there is hardware: some share it with the one that stands still.
    let count = stage.device.info().limits.hardware_queues.min(64) + 1;
    for _ in 0..count {
        let queue = stage.queue()?;
        accepted(fill_word(&queue, &buffer, 1))?;
        finish(&queue)?;
    }
    ensure_eq(stuck.completed(), Position::START, "the gate held")?;
    gate.open()?;
    finish(&stuck)
}

fn a_queue_of_another_driver_is_foreign(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let (queue, foreign) = (stage.queue()?, other.queue()?);
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::ForeignObject { .. });
    let result = queue.wait_for(&*foreign, Position::START);
    refused(result, is_reason, "another driver's queue is foreign")?;
    ensure_eq(
        queue.submitted(),
        Position::START,
        "a refused command takes no position",
    )
}
