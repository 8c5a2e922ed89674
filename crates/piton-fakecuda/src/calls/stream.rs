//! Streams, events, and what streams are asked to do.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::{
    counter,
    world::{self, INVALID_HANDLE, INVALID_VALUE, Object},
};
use piton_driver::{Command, DevicePtr, FillPattern, PeerAddress};
use piton_standin::{Answer, Event, Stream};
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
    ptr::NonNull,
    sync::Arc,
};

/// The stream of a handle, on whose context the call must be made.
fn stream(handle: *mut c_void) -> Answer<Arc<Stream>> {
    let current = world::current()?;
    let stream = world::with(|world| world.stream(handle.addr()))?;
    let is_own = Arc::ptr_eq(&current, &stream.context);
    if is_own {
        Ok(stream)
    } else {
        Err(INVALID_HANDLE)
    }
}

fn event(handle: *mut c_void) -> Answer<Arc<Event>> {
    world::with(|world| world.event(handle.addr()))
}

/// Puts a command that names memory on a stream.
fn submit(handle: *mut c_void, command: &Command<'_>) -> Answer<()> {
    // SAFETY: whoever called the entry point promised what the reference asks of the command's memory.
    let _position = unsafe { stream(handle)?.submit(command) }?;
    Ok(())
}

fn fill(address: u64, pattern: FillPattern, count: usize, handle: *mut c_void) -> Answer<()> {
    let bytes = (count as u64).checked_mul(pattern.bytes());
    let fill = Command::Fill {
        dst: DevicePtr::new(address),
        pattern,
        bytes: bytes.ok_or(INVALID_VALUE)?,
    };
    submit(handle, &fill)
}

piton_standin::entry_points! {
    [world::answer, INVALID_VALUE]

    /// `cuStreamCreateWithPriority`.
    cuStreamCreateWithPriority(place: *mut *mut c_void, flags: c_uint, priority: c_int) fills(place) {
        let context = world::current()?;
        // In no order with the stream that has no name, or a mistake.
        if flags != 1 {
            return Err(INVALID_VALUE);
        }
        let stream = Object::Stream(Arc::new(Stream::new(&context, priority)?));
        let handle = world::with(|world| world.objects.give(stream));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `cuStreamDestroy`: what it has runs on.
    cuStreamDestroy_v2(handle: *mut c_void) fills() {
        let gone = world::with(|world| {
            world.stream(handle.addr())?;
            world.objects.take(handle.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `cuStreamQuery`.
    cuStreamQuery(handle: *mut c_void) fills() {
        stream(handle)?.query()
    }

    /// `cuStreamWaitEvent`.
    cuStreamWaitEvent(handle: *mut c_void, awaited: *mut c_void, flags: c_uint) fills() {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        event(awaited)?.hold(&*stream(handle)?)
    }

    /// `cuStreamWriteValue64`.
    cuStreamWriteValue64_v2(handle: *mut c_void, address: u64, value: u64, flags: c_uint) fills() {
        if flags != 0 || !address.is_multiple_of(8) {
            return Err(INVALID_VALUE);
        }
        counter::write(&*stream(handle)?, address, value)
    }

    /// `cuStreamWaitValue64`: at least the value.
    cuStreamWaitValue64_v2(handle: *mut c_void, address: u64, value: u64, flags: c_uint) fills() {
        if flags != 0 || !address.is_multiple_of(8) {
            return Err(INVALID_VALUE);
        }
        counter::wait_for(&*stream(handle)?, address, value)
    }

    /// `cuEventCreate`.
    cuEventCreate(place: *mut *mut c_void, flags: c_uint) fills(place) {
        let keeps_time = flags & 2 == 0;
        let event = Event::new(&world::current()?, keeps_time)?;
        let handle = world::with(|world| world.objects.give(Object::Event(Arc::new(event))));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `cuEventDestroy`.
    cuEventDestroy_v2(handle: *mut c_void) fills() {
        let gone = world::with(|world| {
            world.event(handle.addr())?;
            world.objects.take(handle.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `cuEventRecord`.
    cuEventRecord(handle: *mut c_void, on: *mut c_void) fills() {
        event(handle)?.record(&*stream(on)?)
    }

    /// `cuEventQuery`.
    cuEventQuery(handle: *mut c_void) fills() {
        event(handle)?.query()
    }

    /// `cuEventSynchronize`.
    cuEventSynchronize(handle: *mut c_void) fills() {
        event(handle)?.wait()
    }

    /// `cuEventElapsedTime`.
    cuEventElapsedTime(milliseconds: *mut f32, first: *mut c_void, last: *mut c_void) fills(milliseconds) {
        let (first, last) = (event(first)?.time()?, event(last)?.time()?);
        Ok((elapsed(first, last),))
    }

    /// `cuMemcpyHtoDAsync`.
    cuMemcpyHtoDAsync_v2(dst: u64, src: *const c_void, bytes: usize, on: *mut c_void) fills() {
        let src = NonNull::new(src.cast_mut().cast()).ok_or(INVALID_VALUE)?;
        let (dst, bytes) = (DevicePtr::new(dst), bytes as u64);
        submit(on, &Command::CopyToDevice { dst, src, bytes })
    }

    /// `cuMemcpyDtoHAsync`.
    cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: u64, bytes: usize, on: *mut c_void) fills() {
        let dst = NonNull::new(dst.cast()).ok_or(INVALID_VALUE)?;
        let (src, bytes) = (DevicePtr::new(src), bytes as u64);
        submit(on, &Command::CopyToHost { dst, src, bytes })
    }

    /// `cuMemcpyDtoDAsync`.
    cuMemcpyDtoDAsync_v2(dst: u64, src: u64, bytes: usize, on: *mut c_void) fills() {
        let (dst, src, bytes) = (DevicePtr::new(dst), DevicePtr::new(src), bytes as u64);
        submit(on, &Command::CopyOnDevice { dst, src, bytes })
    }

    /// `cuMemcpyPeerAsync`.
    cuMemcpyPeerAsync(
        dst: u64, to: *mut c_void, src: u64, from: *mut c_void, bytes: usize, on: *mut c_void
    ) fills() {
        let end = |context: *mut c_void, address| -> Answer<PeerAddress> {
            let context = world::with(|world| world.context(context.addr()))?;
            Ok(PeerAddress { device: context.id, ptr: DevicePtr::new(address) })
        };
        let (dst, src, bytes) = (end(to, dst)?, end(from, src)?, bytes as u64);
        submit(on, &Command::CopyPeer { dst, src, bytes })
    }

    /// `cuMemsetD8Async`.
    cuMemsetD8Async(dst: u64, value: u8, count: usize, on: *mut c_void) fills() {
        fill(dst, FillPattern::Byte(value), count, on)
    }

    /// `cuMemsetD16Async`.
    cuMemsetD16Async(dst: u64, value: u16, count: usize, on: *mut c_void) fills() {
        fill(dst, FillPattern::Half(value), count, on)
    }

    /// `cuMemsetD32Async`.
    cuMemsetD32Async(dst: u64, value: c_uint, count: usize, on: *mut c_void) fills() {
        fill(dst, FillPattern::Word(value), count, on)
    }
}

/// As the library tells it: milliseconds, as a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the library's own answer is no more exact"
)]
fn elapsed(first: u64, last: u64) -> f32 {
    (last as f64 / 1e6 - first as f64 / 1e6) as f32
}
