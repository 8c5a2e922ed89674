//! Moving bytes: copies and fills, once a queue's turn has come.
//!
//! Ranges were checked when the command was submitted and are resolved again here: what was unmapped meanwhile,
//! against the contract, is an error and not a crash. Where an end has no bytes, and its device says that copies may do without
//! ([`Backing::Times`]), nothing is moved.

use crate::{
    command::HostRange, config::Backing, fault::LinkFate, machine::DeviceCore, queue::QueueCore,
};
use piton_copy::{copy_cached_raw, copy_streaming_raw};
use piton_driver::{DeviceRange, ErrorKind, FillPattern, PeerAddress};
use std::{ptr, ptr::NonNull, slice};

/// Whether a copy between devices ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    All,
    /// By a fault plan.
    Never,
}

/// Where the bytes of a range of this queue's device are.
fn resolve(queue: &QueueCore, range: DeviceRange) -> Result<Option<NonNull<u8>>, ErrorKind> {
    resolve_on(queue.device.core(), range)
}

/// Where the bytes of a range are; `None` where there are none and copies do without.
fn resolve_on(device: &DeviceCore, range: DeviceRange) -> Result<Option<NonNull<u8>>, ErrorKind> {
    match device.space.lock().resolve(range) {
        Err(ErrorKind::NotBacked) if device.config.backing == Backing::Times => Ok(None),
        resolved => resolved.map(Some),
    }
}

pub(crate) fn copy_in(
    queue: &QueueCore,
    dst: DeviceRange,
    src: HostRange,
) -> Result<(), ErrorKind> {
    if let Some(to) = resolve(queue, dst)? {
        copy_bytes(queue, (to, src.start), src.bytes);
    }
    Ok(())
}

pub(crate) fn copy_out(
    queue: &QueueCore,
    dst: HostRange,
    src: DeviceRange,
) -> Result<(), ErrorKind> {
    let Some(from) = resolve(queue, src)? else {
        return Ok(());
    };
    if queue
        .consumer
        .sequel
        .comes_again(dst.start.addr().get(), dst.bytes)
    {
        copy_chunk((dst.start, from), dst.bytes);
    } else {
        copy_bytes(queue, (dst.start, from), dst.bytes);
    }
    Ok(())
}

pub(crate) fn copy_within(
    queue: &QueueCore,
    dst: DeviceRange,
    src: DeviceRange,
) -> Result<(), ErrorKind> {
    if let (Some(to), Some(from)) = (resolve(queue, dst)?, resolve(queue, src)?) {
        copy_bytes(queue, (to, from), length(src.bytes)?);
    }
    Ok(())
}

pub(crate) fn copy_peer(
    queue: &QueueCore,
    dst: PeerAddress,
    src: PeerAddress,
    bytes: u64,
) -> Result<Moved, ErrorKind> {
    let machine = queue.device.machine();
    let unreachable = ErrorKind::NotPeers {
        from: src.device,
        to: dst.device,
    };
    let fate = machine.faults.link(src.device, dst.device);
    match fate {
        LinkFate::Fails => return Err(unreachable),
        LinkFate::Hangs => return Ok(Moved::Never),
        LinkFate::Carries | LinkFate::Corrupts => {}
    }
    let find = |end: PeerAddress| {
        let device = machine.device(end.device).ok_or(unreachable)?;
        if device.is_lost() {
            return Err(ErrorKind::DeviceLost);
        }
        let start = end.ptr;
        resolve_on(device, DeviceRange { start, bytes })
    };
    let (Some(to), Some(from)) = (find(dst)?, find(src)?) else {
        return Ok(Moved::All);
    };
    copy_bytes(queue, (to, from), length(bytes)?);
    if fate == LinkFate::Corrupts {
        change_byte(to);
    }
    Ok(Moved::All)
}

pub(crate) fn fill(
    queue: &QueueCore,
    dst: DeviceRange,
    pattern: FillPattern,
) -> Result<(), ErrorKind> {
    let Some(start) = resolve(queue, dst)? else {
        return Ok(());
    };
    let bytes = length(dst.bytes)?;
    match pattern {
        FillPattern::Byte(byte) => fill_with(start, byte, bytes),
        FillPattern::Half(half) => fill_with(start.cast(), half, bytes / 2),
        FillPattern::Word(word) => fill_with(start.cast(), word, bytes / 4),
    }
    Ok(())
}

fn length(bytes: u64) -> Result<usize, ErrorKind> {
    usize::try_from(bytes).map_err(|_| ErrorKind::InvalidSize {
        bytes,
        maximum: u64::MAX,
    })
}

#[expect(unsafe_code, reason = "the device's copy engine")]
fn copy_bytes(queue: &QueueCore, (to, from): (NonNull<u8>, NonNull<u8>), bytes: usize) {
    let (to, from) = (to.as_ptr(), from.as_ptr());
    let cached = queue.consumer.sequel.cached(to.addr(), bytes);
    // SAFETY: device ends were resolved just now: mapped, `bytes` long. Host ends were checked to be
    // page-locked memory when submitted, and the submitter promised that both ends stay valid, unshared and
    // apart until the command has ended. `copy` allows overlap, which aliased pages may bring.
    unsafe { ptr::copy(from, to, cached) };
    let (to, from) = (to.wrapping_add(cached), from.wrapping_add(cached));
    // SAFETY: as above, for the rest; it too allows overlap.
    unsafe { copy_streaming_raw(to, from, bytes - cached) };
}

#[expect(unsafe_code, reason = "the device's copy engine")]
fn copy_chunk((to, from): (NonNull<u8>, NonNull<u8>), bytes: usize) {
    // SAFETY: as for `copy_bytes`.
    unsafe { copy_cached_raw(to.as_ptr(), from.as_ptr(), bytes) };
}

#[expect(unsafe_code, reason = "the device's copy engine, gone wrong")]
fn change_byte(at: NonNull<u8>) {
    // SAFETY: as for `copy_bytes`, to which `at` was a destination just now.
    unsafe { *at.as_ptr() ^= 0xFF };
}

#[expect(unsafe_code, reason = "the device's fill engine")]
fn fill_with<T: Copy>(start: NonNull<T>, value: T, count: usize) {
    // SAFETY: the range was resolved just now: mapped, and a multiple of the pattern's size at a multiple of
    // it (checked when submitted). The submitter promised that nobody else uses it until the command ends.
    let words = unsafe { slice::from_raw_parts_mut(start.as_ptr(), count) };
    words.fill(value);
}
