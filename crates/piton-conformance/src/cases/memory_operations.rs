//! Values in device memory that queues wait for and write.

use crate::{
    drive::{copy, fill_word, wait_memory, write_memory},
    outcome::{Checked, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{Comparison, ErrorKind, MemoryWord, Position};

cases! { "memory words":
    a_wait_for_a_value_holds_until_a_queue_writes_it [MemoryOperations HostMemory],
    a_wait_for_a_value_that_is_there_does_not_hold [MemoryOperations],
    a_wait_sees_what_a_fill_and_a_copy_left [MemoryOperations],
    every_comparison_holds_as_it_says [MemoryOperations],
    a_written_word_is_as_wide_as_it_is [MemoryOperations HostMemory],
    values_askew_and_outside_are_refused [MemoryOperations],
    a_device_without_the_facet_says_so [],
}

const fn word(value: u32) -> MemoryWord {
    MemoryWord::U32(value)
}

fn a_wait_for_a_value_holds_until_a_queue_writes_it(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (waiting, writing) = (stage.queue()?, stage.queue()?);
    let (flag, buffer) = (stage.buffer(64)?, stage.buffer(64)?);
    accepted(fill_word(&waiting, &flag, 0))?;
    accepted(fill_word(&waiting, &buffer, 1))?;
    finish(&waiting)?;
    let held = accepted(wait_memory(
        &waiting,
        &flag,
        8,
        Comparison::AtLeast,
        word(5),
    ))?;
    accepted(fill_word(&waiting, &buffer, 2))?;
    accepted(write_memory(&writing, &flag, 8, word(4)))?;
    finish(&writing)?;
    ensure(waiting.completed() < held, "four is not five")?;
    accepted(write_memory(&writing, &flag, 8, word(6)))?;
    finish(&waiting)?;
    let seen = stage.words(&buffer, 16)?;
    ensure_eq(seen, vec![2; 16], "what was held ran behind the wait")
}

fn a_wait_for_a_value_that_is_there_does_not_hold(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, flag) = (stage.queue()?, stage.buffer(64)?);
    accepted(fill_word(&queue, &flag, 7))?;
    accepted(wait_memory(&queue, &flag, 0, Comparison::Equal, word(7)))?;
    finish(&queue)?;
    ensure_eq(queue.completed(), Position::new(2), "a wait is a command")
}

fn a_wait_sees_what_a_fill_and_a_copy_left(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (waiting, working) = (stage.queue()?, stage.queue()?);
    let (flag, source) = (stage.buffer(64)?, stage.buffer(64)?);
    accepted(fill_word(&working, &flag, 0))?;
    accepted(fill_word(&working, &source, 9))?;
    finish(&working)?;
    accepted(wait_memory(&waiting, &flag, 4, Comparison::Equal, word(3)))?;
    accepted(wait_memory(&waiting, &flag, 4, Comparison::Equal, word(9)))?;
    accepted(fill_word(&working, &flag, 3))?;
    finish(&working)?;
    let _reached = waiting.wait(Position::new(1), None)?;
    accepted(copy(&working, (&flag, 0), (&source, 0), 64))?;
    finish(&waiting)
}

fn every_comparison_holds_as_it_says(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, flag) = (stage.queue()?, stage.buffer(64)?);
    let met = [
        (Comparison::Equal, 6, 6),
        (Comparison::AtLeast, 6, 5),
        // Counted in a circle.
        (Comparison::AtLeast, 3, u32::MAX),
        (Comparison::And, 6, 4),
        (Comparison::NotOr, 6, 1),
    ];
    for (comparison, there, given) in met {
        accepted(write_memory(&queue, &flag, 0, word(there)))?;
        accepted(wait_memory(&queue, &flag, 0, comparison, word(given)))?;
        finish(&queue)?;
    }
    let wide = MemoryWord::U64(1 << 40);
    accepted(write_memory(&queue, &flag, 16, wide))?;
    accepted(wait_memory(&queue, &flag, 16, Comparison::And, wide))?;
    finish(&queue)
}

fn a_written_word_is_as_wide_as_it_is(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    accepted(fill_word(&queue, &buffer, u32::MAX))?;
    accepted(write_memory(&queue, &buffer, 4, word(1)))?;
    accepted(write_memory(&queue, &buffer, 16, MemoryWord::U64(2)))?;
    finish(&queue)?;
    let expected = [u32::MAX, 1, u32::MAX, u32::MAX, 2, 0, u32::MAX, u32::MAX];
    let expected = if cfg!(target_endian = "big") {
        [u32::MAX, 1, u32::MAX, u32::MAX, 0, 2, u32::MAX, u32::MAX]
    } else {
        expected
    };
    ensure_eq(
        stage.words(&buffer, 8)?,
        expected.to_vec(),
        "no byte beside it changed",
    )
}

fn values_askew_and_outside_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let before = queue.submitted();
    let is_askew = |kind: &ErrorKind| matches!(kind, ErrorKind::Misaligned { .. });
    let is_outside = |kind: &ErrorKind| matches!(kind, ErrorKind::UnknownAddress { .. });
    let (wide, equal) = (MemoryWord::U64(0), Comparison::Equal);
    refused(
        write_memory(&queue, &buffer, 2, word(1)),
        is_askew,
        "a word lies at its size",
    )?;
    refused(
        write_memory(&queue, &buffer, 4, wide),
        is_askew,
        "a word lies at its size",
    )?;
    refused(
        wait_memory(&queue, &buffer, 4, equal, wide),
        is_askew,
        "a word lies at its size",
    )?;
    let past = 1 << 40;
    refused(
        write_memory(&queue, &buffer, past, word(1)),
        is_outside,
        "memory ends",
    )?;
    refused(
        wait_memory(&queue, &buffer, past, equal, word(1)),
        is_outside,
        "memory ends",
    )?;
    ensure_eq(
        queue.submitted(),
        before,
        "what is refused takes no position",
    )
}

fn a_device_without_the_facet_says_so(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    if stage.device.memory_operations() {
        return Ok(());
    }
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let is_unsupported = |kind: &ErrorKind| *kind == ErrorKind::Unsupported;
    let written = write_memory(&queue, &buffer, 0, word(1));
    refused(written, is_unsupported, "the facet is absent")?;
    let waited = wait_memory(&queue, &buffer, 0, Comparison::Equal, word(1));
    refused(waited, is_unsupported, "the facet is absent")?;
    ensure_eq(
        queue.submitted(),
        Position::START,
        "what is refused takes no position",
    )
}
