//! Physical pages at addresses of the caller's choice.

use crate::{
    drive::{DeviceBuffer, Pages, fill_word, free_bytes},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{DevicePtr, DeviceRange, ErrorKind, PhysicalHandle};

cases! { "virtual memory":
    granularities_are_powers_of_two [VirtualMemory],
    sizes_must_fit_the_granularity [VirtualMemory],
    reservations_use_no_memory_and_are_disjoint [VirtualMemory],
    physical_memory_is_counted_and_runs_out [VirtualMemory],
    two_mappings_of_one_handle_show_the_same_bytes [VirtualMemory HostMemory],
    content_moves_with_its_handle [VirtualMemory HostMemory],
    a_mapping_outside_reservations_is_refused [VirtualMemory],
    a_mapping_over_another_is_refused [VirtualMemory],
    unmapping_takes_whole_mappings_or_nothing [VirtualMemory],
    a_reservation_is_released_once_and_empty [VirtualMemory],
    an_unknown_handle_is_refused [VirtualMemory],
    a_destroyed_handle_comes_back_when_it_is_unmapped [VirtualMemory],
    an_allocation_is_no_reservation [VirtualMemory],
    commands_on_unmapped_addresses_are_refused [VirtualMemory],
}

fn is_unknown_address(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnknownAddress { .. })
}

fn is_mapped(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyMapped { .. })
}

fn is_unknown_handle(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnknownHandle { .. })
}

fn page(pages: Pages<'_>) -> u64 {
    pages.0.granularity().minimum
}

/// The `n`-th page of a reservation.
#[track_caller]
fn nth(range: DeviceRange, page: u64, n: u64) -> Result<DevicePtr, Failure> {
    let at = range.start.checked_add(n * page);
    at.ok_or_else(|| Failure::new("a reservation ends below 2^64", format!("{range:?}")))
}

fn granularities_are_powers_of_two(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let granularity = Pages::of(&*stage.device)?.0.granularity();
    ensure(
        granularity.minimum.is_power_of_two(),
        "the minimum is a power of two",
    )?;
    ensure(
        granularity.recommended.is_power_of_two(),
        "the recommendation is a power of two",
    )?;
    ensure(
        granularity.recommended >= granularity.minimum,
        "the recommendation works",
    )
}

fn sizes_must_fit_the_granularity(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let odd = page(pages) + 1;
    let is_zero = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { bytes: 0, .. });
    let is_odd =
        |kind: &ErrorKind| matches!(kind, ErrorKind::Misaligned { value, .. } if *value == odd);
    refused(pages.0.reserve(0), is_zero, "no empty reservation")?;
    refused(pages.0.create(0), is_zero, "no empty handle")?;
    refused(pages.0.reserve(odd), is_odd, "reservations are whole pages")?;
    refused(pages.0.create(odd), is_odd, "handles are whole pages")?;
    let huge = u64::MAX - u64::MAX % page(pages);
    let is_huge = |kind: &ErrorKind| {
        matches!(
            kind,
            ErrorKind::InvalidSize { .. }
                | ErrorKind::OutOfAddressSpace { .. }
                | ErrorKind::OutOfMemory { .. }
        )
    };
    refused(pages.0.reserve(huge), is_huge, "no endless reservation")?;
    refused(pages.0.create(huge), is_huge, "no endless handle")
}

fn reservations_use_no_memory_and_are_disjoint(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let before = free_bytes(&*stage.device)?;
    let buffer = stage.buffer(1)?;
    let large = stage
        .device
        .info()
        .memory_bytes
        .next_multiple_of(page(pages));
    let (a, b) = (pages.0.reserve(large)?, pages.0.reserve(page(pages))?);
    ensure(!a.overlaps(b), "reservations are disjoint")?;
    ensure(
        !a.overlaps(buffer.range()),
        "a reservation holds no allocation",
    )?;
    buffer.free()?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before,
        "reservations use no memory",
    )?;
    pages.release(a)?;
    Ok(pages.release(b)?)
}

fn physical_memory_is_counted_and_runs_out(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let before = free_bytes(&*stage.device)?;
    let half = (before / 2) - (before / 2) % page(pages);
    let a = pages.0.create(half)?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before - half,
        "a handle is counted at once",
    )?;
    let too_much = pages.0.create(half + 2 * page(pages));
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::OutOfMemory { .. });
    refused(too_much, is_reason, "physical memory runs out")?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before - half,
        "a refusal changes nothing",
    )?;
    pages.0.destroy(a)?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before,
        "a destroyed handle comes back",
    )
}

fn two_mappings_of_one_handle_show_the_same_bytes(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(2 * bytes)?;
    let handle = pages.0.create(bytes)?;
    let (at, alias) = (range.start, nth(range, bytes, 1)?);
    pages.map(at, handle)?;
    pages.map(alias, handle)?;
    let written = DeviceBuffer::at_mapping(&stage.device, at, bytes);
    let read = DeviceBuffer::at_mapping(&stage.device, alias, bytes);
    let queue = stage.queue()?;
    accepted(fill_word(&queue, &written, 41))?;
    finish(&queue)?;
    ensure_eq(
        stage.words(&read, 4)?,
        vec![41; 4],
        "an alias shows what was written",
    )?;
    drop((written, read));
    pages.unmap(range)?;
    pages.0.destroy(handle)?;
    Ok(pages.release(range)?)
}

fn content_moves_with_its_handle(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(2 * bytes)?;
    let (first, second) = (range.start, nth(range, bytes, 1)?);
    let (handle, other) = (pages.0.create(bytes)?, pages.0.create(bytes)?);
    pages.map(first, handle)?;
    let queue = stage.queue()?;
    let buffer = DeviceBuffer::at_mapping(&stage.device, first, bytes);
    accepted(fill_word(&queue, &buffer, 7))?;
    finish(&queue)?;
    drop(buffer);
    pages.unmap(DeviceRange {
        start: first,
        bytes,
    })?;
    pages.map(second, handle)?;
    pages.map(first, other)?;
    let moved = DeviceBuffer::at_mapping(&stage.device, second, bytes);
    ensure_eq(
        stage.words(&moved, 2)?,
        vec![7; 2],
        "bytes belong to the handle, not the address",
    )?;
    drop(moved);
    pages.unmap(range)?;
    pages.0.destroy(handle)?;
    pages.0.destroy(other)?;
    Ok(pages.release(range)?)
}

fn a_mapping_outside_reservations_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(2 * bytes)?;
    let handle = pages.0.create(2 * bytes)?;
    let past = pages.map(nth(range, bytes, 1)?, handle);
    refused(
        past,
        is_unknown_address,
        "a mapping lies inside one reservation",
    )?;
    let null = pages.map(DevicePtr::new(0), handle);
    refused(null, is_unknown_address, "address zero is not reserved")?;
    let odd = pages.map(DevicePtr::new(range.start.address() + 1), handle);
    let is_odd = |kind: &ErrorKind| matches!(kind, ErrorKind::Misaligned { .. });
    refused(odd, is_odd, "mappings start at pages")?;
    pages.map(range.start, handle)?;
    pages.unmap(range)?;
    pages.0.destroy(handle)?;
    Ok(pages.release(range)?)
}

fn a_mapping_over_another_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(3 * bytes)?;
    let (handle, long) = (pages.0.create(bytes)?, pages.0.create(2 * bytes)?);
    pages.map(nth(range, bytes, 1)?, handle)?;
    refused(
        pages.map(nth(range, bytes, 1)?, handle),
        is_mapped,
        "no mapping twice",
    )?;
    refused(
        pages.map(range.start, long),
        is_mapped,
        "no mapping into another's front",
    )?;
    refused(
        pages.map(nth(range, bytes, 1)?, long),
        is_mapped,
        "no mapping over another",
    )?;
    pages.unmap(range)?;
    pages.map(range.start, long)?;
    refused(
        pages.map(nth(range, bytes, 1)?, handle),
        is_mapped,
        "no mapping into another's back",
    )?;
    pages.unmap(range)?;
    pages.0.destroy(handle)?;
    pages.0.destroy(long)?;
    Ok(pages.release(range)?)
}

fn unmapping_takes_whole_mappings_or_nothing(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(3 * bytes)?;
    let handle = pages.0.create(2 * bytes)?;
    refused(
        pages.unmap(range),
        is_unknown_address,
        "nothing is mapped yet",
    )?;
    pages.map(range.start, handle)?;
    let front = DeviceRange {
        start: range.start,
        bytes,
    };
    refused(
        pages.unmap(front),
        is_unknown_address,
        "a mapping is not cut",
    )?;
    let back = DeviceRange {
        start: nth(range, bytes, 1)?,
        bytes: 2 * bytes,
    };
    refused(
        pages.unmap(back),
        is_unknown_address,
        "a mapping is not cut",
    )?;
    let endless = DeviceRange {
        start: range.start,
        bytes: u64::MAX,
    };
    refused(
        pages.unmap(endless),
        is_unknown_address,
        "a range ends below 2^64",
    )?;
    refused(
        pages.release(range),
        is_mapped,
        "a refused unmap changes nothing",
    )?;
    pages.unmap(range)?;
    pages.0.destroy(handle)?;
    Ok(pages.release(range)?)
}

fn a_reservation_is_released_once_and_empty(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(2 * bytes)?;
    let handle = pages.0.create(bytes)?;
    pages.map(range.start, handle)?;
    refused(
        pages.release(range),
        is_mapped,
        "a reservation with a mapping stays",
    )?;
    pages.unmap(range)?;
    let half = DeviceRange { bytes, ..range };
    refused(
        pages.release(half),
        is_unknown_address,
        "a reservation goes as a whole",
    )?;
    pages.release(range)?;
    refused(
        pages.release(range),
        is_unknown_address,
        "a reservation goes once",
    )?;
    Ok(pages.0.destroy(handle)?)
}

fn an_unknown_handle_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let range = pages.0.reserve(page(pages))?;
    let stranger = PhysicalHandle(u64::MAX);
    refused(
        pages.0.destroy(stranger),
        is_unknown_handle,
        "no such handle to destroy",
    )?;
    refused(
        pages.map(range.start, stranger),
        is_unknown_handle,
        "no such handle to map",
    )?;
    let handle = pages.0.create(page(pages))?;
    pages.0.destroy(handle)?;
    refused(
        pages.0.destroy(handle),
        is_unknown_handle,
        "a handle is destroyed once",
    )?;
    refused(
        pages.map(range.start, handle),
        is_unknown_handle,
        "no mapping of a destroyed handle",
    )?;
    Ok(pages.release(range)?)
}

fn a_destroyed_handle_comes_back_when_it_is_unmapped(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let before = free_bytes(&*stage.device)?;
    let range = pages.0.reserve(2 * bytes)?;
    let handle = pages.0.create(bytes)?;
    let alias = nth(range, bytes, 1)?;
    pages.map(range.start, handle)?;
    pages.map(alias, handle)?;
    pages.0.destroy(handle)?;
    pages.unmap(DeviceRange {
        start: range.start,
        bytes,
    })?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before - bytes,
        "memory stays while it is mapped",
    )?;
    pages.unmap(DeviceRange {
        start: alias,
        bytes,
    })?;
    ensure_eq(
        free_bytes(&*stage.device)?,
        before,
        "memory goes with the last mapping",
    )?;
    Ok(pages.release(range)?)
}

fn an_allocation_is_no_reservation(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let buffer = stage.buffer(page(pages))?;
    let range = buffer.range();
    let is_kept = |kind: &ErrorKind| is_unknown_address(kind) || is_mapped(kind);
    refused(
        pages.release(range),
        is_kept,
        "an allocation is freed, not released",
    )?;
    refused(
        pages.unmap(range),
        is_unknown_address,
        "an allocation is freed, not unmapped",
    )?;
    let handle = pages.0.create(page(pages))?;
    refused(
        pages.map(range.start, handle),
        is_kept,
        "nothing is mapped into an allocation",
    )?;
    pages.0.destroy(handle)?;
    Ok(buffer.free()?)
}

fn commands_on_unmapped_addresses_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let pages = Pages::of(&*stage.device)?;
    let bytes = page(pages);
    let range = pages.0.reserve(2 * bytes)?;
    let handle = pages.0.create(bytes)?;
    pages.map(range.start, handle)?;
    let queue = stage.queue()?;
    let whole = DeviceBuffer::at_mapping(&stage.device, range.start, 2 * bytes);
    refused(
        fill_word(&queue, &whole, 1),
        is_unknown_address,
        "a hole is not memory",
    )?;
    drop(whole);
    pages.unmap(range)?;
    pages.0.destroy(handle)?;
    Ok(pages.release(range)?)
}
