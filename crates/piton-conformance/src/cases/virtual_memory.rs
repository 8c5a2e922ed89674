//! Reservations and physical handles; what is mapped where is in `mappings`.

use crate::{
    drive::{Pages, free_bytes},
    outcome::{Checked, Failure, ensure, ensure_eq, refused},
    stage::Stage,
    subject::Subject,
};
use piton_driver::{DevicePtr, DeviceRange, ErrorKind, PhysicalHandle};

cases! { "virtual memory":
    granularities_are_powers_of_two [VirtualMemory],
    sizes_must_fit_the_granularity [VirtualMemory],
    reservations_use_no_memory_and_are_disjoint [VirtualMemory],
    physical_memory_is_counted_and_runs_out [VirtualMemory],
    a_reservation_is_released_once_and_empty [VirtualMemory],
    an_unknown_handle_is_refused [VirtualMemory],
    an_allocation_is_no_reservation [VirtualMemory],
}

pub(super) fn is_unknown_address(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnknownAddress { .. })
}

pub(super) fn is_mapped(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyMapped { .. })
}

pub(super) fn is_unknown_handle(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnknownHandle { .. })
}

pub(super) fn page(pages: Pages<'_>) -> u64 {
    pages.0.granularity().minimum
}

/// The `n`-th page of a reservation.
#[track_caller]
pub(super) fn nth(range: DeviceRange, page: u64, n: u64) -> Result<DevicePtr, Failure> {
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
