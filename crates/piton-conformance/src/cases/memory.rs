//! Plain device memory.

use crate::{
    drive::{free, free_bytes},
    outcome::{Checked, ensure, ensure_eq, refused},
    stage::Stage,
    subject::Subject,
};
use piton_driver::{DevicePtr, ErrorKind};

cases! { "memory":
    sizes_of_zero_are_refused [],
    more_than_there_is_is_out_of_memory_with_its_numbers [],
    allocations_are_aligned_and_disjoint [],
    usage_follows_allocations [],
    a_device_fills_up_and_empties_again [],
    freeing_twice_is_an_unknown_address [],
    freeing_what_is_no_start_is_an_unknown_address [],
}

fn sizes_of_zero_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let result = stage.device.memory().allocate(0);
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { bytes: 0, .. });
    refused(result, is_reason, "zero bytes are refused")
}

fn more_than_there_is_is_out_of_memory_with_its_numbers(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let before = free_bytes(&*stage.device)?;
    let capacity = stage.device.info().memory_bytes;
    for bytes in [capacity + 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        let is_reason = |kind: &ErrorKind| match *kind {
            ErrorKind::OutOfMemory {
                requested,
                free,
                capacity: all,
            } => requested >= bytes && free <= all && all == capacity,
            ErrorKind::OutOfAddressSpace { .. } | ErrorKind::InvalidSize { .. } => true,
            _ => false,
        };
        refused(
            stage.device.memory().allocate(bytes),
            is_reason,
            "too much is refused",
        )?;
    }
    ensure_eq(
        free_bytes(&*stage.device)?,
        before,
        "a refused allocation changes nothing",
    )
}

fn allocations_are_aligned_and_disjoint(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let memory = stage.device.memory();
    let (granularity, alignment) = (memory.granularity(), memory.alignment());
    ensure(
        granularity.is_power_of_two(),
        "the granularity is a power of two",
    )?;
    ensure(
        alignment.is_power_of_two(),
        "the alignment is a power of two",
    )?;
    let mut buffers = Vec::new();
    for bytes in [
        1,
        7,
        granularity - 1,
        granularity,
        granularity + 1,
        3 * granularity,
    ] {
        let buffer = stage.buffer(bytes.max(1))?;
        ensure(
            buffer.start().is_aligned_to(alignment),
            "allocations are aligned",
        )?;
        buffers.push(buffer);
    }
    for (at, a) in buffers.iter().enumerate() {
        let overlaps = buffers[at + 1..]
            .iter()
            .any(|b| a.range().overlaps(b.range()));
        ensure(!overlaps, "allocations are disjoint")?;
    }
    Ok(())
}

fn usage_follows_allocations(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let granularity = stage.device.memory().granularity();
    let before = free_bytes(&*stage.device)?;
    let buffer = stage.buffer(2 * granularity)?;
    let during = free_bytes(&*stage.device)?;
    ensure(
        during + 2 * granularity <= before,
        "what is allocated is not free",
    )?;
    buffer.free()?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before,
        "what is freed is free again",
    )
}

fn a_device_fills_up_and_empties_again(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let before = free_bytes(&*stage.device)?;
    let piece = (before / 8).max(1);
    let mut buffers = Vec::new();
    let full = loop {
        match stage.device.memory().allocate(piece) {
            Ok(start) => buffers.push(start),
            Err(error) => break error,
        }
        ensure(buffers.len() <= 8, "eight eighths are all there is")?;
    };
    ensure(full.is_out_of_memory(), "a full device is out of memory")?;
    let freed: Result<(), _> = buffers
        .into_iter()
        .try_for_each(|start| free(&*stage.device, start));
    freed?;
    ensure_eq(free_bytes(&*stage.device)?, before, "all of it comes back")
}

fn freeing_twice_is_an_unknown_address(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let buffer = stage.buffer(1)?;
    let start = buffer.start();
    buffer.free()?;
    let again = free(&*stage.device, start);
    refused(again, is_unknown_address, "memory is freed once")
}

fn freeing_what_is_no_start_is_an_unknown_address(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let buffer = stage.buffer(2 * stage.device.memory().granularity())?;
    let inside = DevicePtr::new(buffer.start().address() + 1);
    for ptr in [inside, DevicePtr::new(0), DevicePtr::new(u64::MAX)] {
        refused(
            free(&*stage.device, ptr),
            is_unknown_address,
            "only starts are freed",
        )?;
    }
    Ok(buffer.free()?)
}

fn is_unknown_address(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnknownAddress { .. })
}
