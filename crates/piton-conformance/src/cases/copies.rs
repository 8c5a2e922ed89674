//! Copies of every kind, and fills.

use crate::{
    drive::{copy, fetch, fill, fill_word, send},
    outcome::{Checked, accepted, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{ErrorKind, FillPattern};

cases! { "copies":
    what_is_sent_is_what_is_fetched_at_any_size [HostMemory],
    a_copy_touches_its_bytes_and_no_others [HostMemory],
    a_copy_within_the_device_moves_bytes [HostMemory],
    overlapping_copies_are_refused [],
    fills_repeat_each_pattern [HostMemory],
    misaligned_fills_are_refused [],
    sizes_of_zero_and_past_the_end_are_refused [HostMemory],
}

fn what_is_sent_is_what_is_fetched_at_any_size(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    for words in [1_u32, 2, 63, 64, 1023, 1024, 1025, 100_000] {
        let bytes = u64::from(words) * 4;
        let content: Vec<u32> = (0..words).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        let (queue, buffer, host) = (stage.queue()?, stage.buffer(bytes)?, stage.host(&content)?);
        accepted(send(&queue, &host, &buffer, 0, bytes))?;
        let back = stage.host(&vec![0; words as usize])?;
        accepted(fetch(&queue, &buffer, 0, &back, bytes))?;
        finish(&queue)?;
        ensure_eq(back.words()?, content, "a round trip changes nothing")?;
    }
    Ok(())
}

fn a_copy_touches_its_bytes_and_no_others(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let host = stage.host(&[u32::MAX; 16])?;
    accepted(fill_word(&queue, &buffer, 0))?;
    accepted(send(&queue, &host, &buffer, 5, 3))?;
    finish(&queue)?;
    let bytes: Vec<u8> = stage
        .words(&buffer, 4)?
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let expected = [0, 0, 0, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0];
    ensure_eq(
        bytes,
        expected.to_vec(),
        "three bytes at offset five, and no others",
    )
}

fn a_copy_within_the_device_moves_bytes(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, a, b) = (stage.queue()?, stage.buffer(4096)?, stage.buffer(4096)?);
    accepted(fill_word(&queue, &a, 11))?;
    accepted(fill_word(&queue, &b, 22))?;
    accepted(copy(&queue, (&b, 0), (&a, 2048), 1024))?;
    accepted(copy(&queue, (&a, 0), (&a, 4000), 4))?;
    accepted(copy(&queue, (&a, 1024), (&b, 1024), 1024))?;
    finish(&queue)?;
    let expected = [vec![11; 256], vec![22; 768]].concat();
    ensure_eq(stage.words(&b, 1024)?, expected, "between two buffers")?;
    let expected = [vec![11; 256], vec![22; 256], vec![11; 512]].concat();
    ensure_eq(stage.words(&a, 1024)?, expected, "and within one")
}

fn overlapping_copies_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, a) = (stage.queue()?, stage.buffer(4096)?);
    for (to, from) in [(0, 0), (0, 1), (1023, 0), (512, 1000)] {
        let source = a.start().address() + from;
        let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::AlreadyMapped { address, .. } if address.address() == source);
        refused(
            copy(&queue, (&a, to), (&a, from), 1024),
            is_reason,
            "overlap is refused",
        )?;
    }
    accepted(copy(&queue, (&a, 1024), (&a, 0), 1024))?;
    finish(&queue)
}

fn fills_repeat_each_pattern(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(32)?);
    accepted(fill_word(&queue, &buffer, 0))?;
    accepted(fill(&queue, &buffer, 1, FillPattern::Byte(0xab), 3))?;
    accepted(fill(&queue, &buffer, 6, FillPattern::Half(0x1234), 4))?;
    accepted(fill(&queue, &buffer, 12, FillPattern::Word(0xdead_beef), 8))?;
    finish(&queue)?;
    let bytes: Vec<u8> = stage
        .words(&buffer, 6)?
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let (half, word) = (0x1234_u16.to_ne_bytes(), 0xdead_beef_u32.to_ne_bytes());
    let mut expected = vec![0; 24];
    expected[1..4].fill(0xab);
    expected[6..10].copy_from_slice(&[half, half].concat());
    expected[12..20].copy_from_slice(&[word, word].concat());
    ensure_eq(bytes, expected, "each pattern fills its range and no more")
}

fn misaligned_fills_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::Misaligned { .. });
    let (half, word) = (FillPattern::Half(1), FillPattern::Word(1));
    for (pattern, offset, bytes) in [(half, 1, 2), (half, 0, 3), (word, 2, 4), (word, 0, 6)] {
        let result = fill(&queue, &buffer, offset, pattern, bytes);
        refused(
            result,
            is_reason,
            "address and size are multiples of the pattern",
        )?;
    }
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn sizes_of_zero_and_past_the_end_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let granularity = stage.device.memory().granularity();
    let (queue, buffer) = (stage.queue()?, stage.buffer(granularity)?);
    let (other, host) = (stage.buffer(granularity)?, stage.host(&[0; 4])?);
    let is_zero = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { bytes: 0, .. });
    refused(send(&queue, &host, &buffer, 0, 0), is_zero, "no empty copy")?;
    refused(
        fetch(&queue, &buffer, 0, &host, 0),
        is_zero,
        "no empty copy",
    )?;
    refused(
        copy(&queue, (&other, 0), (&buffer, 0), 0),
        is_zero,
        "no empty copy",
    )?;
    let byte = FillPattern::Byte(0);
    refused(fill(&queue, &buffer, 0, byte, 0), is_zero, "no empty fill")?;
    let is_outside = |kind: &ErrorKind| {
        matches!(
            kind,
            ErrorKind::UnknownAddress { .. } | ErrorKind::InvalidSize { .. }
        )
    };
    for bytes in [stage.device.info().memory_bytes, u64::MAX] {
        refused(
            send(&queue, &host, &buffer, 0, bytes),
            is_outside,
            "a copy stays in its memory",
        )?;
        refused(
            fetch(&queue, &buffer, 0, &host, bytes),
            is_outside,
            "a copy stays in its memory",
        )?;
        refused(
            copy(&queue, (&other, 0), (&buffer, 0), bytes),
            is_outside,
            "a copy stays in its memory",
        )?;
        refused(
            fill(&queue, &buffer, 0, byte, bytes),
            is_outside,
            "a fill stays in its memory",
        )?;
    }
    let nowhere = 0_u64.wrapping_sub(buffer.start().address());
    refused(
        fill(&queue, &buffer, nowhere, byte, 4),
        is_outside,
        "address zero is no memory",
    )?;
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}
