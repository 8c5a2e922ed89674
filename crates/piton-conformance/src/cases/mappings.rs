//! Physical pages at addresses of the caller's choice: mapping and unmapping them.

use super::virtual_memory::{is_mapped, is_unknown_address, nth, page};
use crate::{
    drive::{DeviceBuffer, Pages, fill_word, free_bytes},
    outcome::{Checked, accepted, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{DevicePtr, DeviceRange, ErrorKind};

cases! { "virtual memory":
    two_mappings_of_one_handle_show_the_same_bytes [VirtualMemory HostMemory],
    content_moves_with_its_handle [VirtualMemory HostMemory],
    a_mapping_outside_reservations_is_refused [VirtualMemory],
    a_mapping_over_another_is_refused [VirtualMemory],
    unmapping_takes_whole_mappings_or_nothing [VirtualMemory],
    a_destroyed_handle_comes_back_when_it_is_unmapped [VirtualMemory],
    commands_on_unmapped_addresses_are_refused [VirtualMemory],
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
