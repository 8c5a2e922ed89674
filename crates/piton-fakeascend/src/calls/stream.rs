//! Streams, events, notifications, and what streams are asked to do.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::world::{self, CODES, INVALID, OTHER_CONTEXT, Object};
use piton_driver::{Command, DevicePtr, FillPattern, PeerAddress};
use piton_standin::{Answer, Context, Event, Stream};
use piton_sync::Mutex;
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
    ptr::NonNull,
    sync::Arc,
};

/// `ACL_EVENT_SYNC`, `ACL_EVENT_CAPTURE_STREAM_PROGRESS` and `ACL_EVENT_TIME_LINE`.
const EVENT_FLAGS: [c_uint; 3] = [1, 2, 8];

/// The stream of a handle, whose context must be current.
pub(crate) fn stream(handle: *mut c_void) -> Answer<Arc<Stream>> {
    let current: Arc<Context> = world::current()?;
    let stream = world::with(|world| world.stream(handle.addr()))?;
    if super::context::is_same(&current, &stream.context) {
        Ok(stream)
    } else {
        Err(OTHER_CONTEXT)
    }
}

fn event(handle: *mut c_void) -> Answer<Arc<Event>> {
    let (event, _) = world::with(|world| world.event(handle.addr()))?;
    Ok(event)
}

/// Makes an event, and gives it out.
fn make_event(flags: c_uint) -> Answer<*mut c_void> {
    let [sync, progress, time] = EVENT_FLAGS;
    if flags == 0 || flags & !(sync | progress | time) != 0 {
        return Err(INVALID);
    }
    let event = Event::new(&world::current()?, flags & time != 0)?;
    let object = Object::Event(Arc::new(event), flags & sync != 0);
    let handle = world::with(|world| world.objects.give(object));
    Ok(ptr::without_provenance_mut(handle))
}

/// Puts a command that names memory on a stream.
fn submit(handle: *mut c_void, command: &Command<'_>) -> Answer<()> {
    // SAFETY: whoever called the entry point promised what the reference asks of the command's memory.
    let _position = unsafe { stream(handle)?.submit(command) }?;
    Ok(())
}

/// A copy from memory of devices to memory of devices.
fn copy_between(dst: u64, src: u64, bytes: u64, on: *mut c_void) -> Answer<()> {
    let owner = |address| world::with(|world| world.owner(address)).ok_or(INVALID);
    let (to, from) = (owner(dst)?, owner(src)?);
    let (dst, src) = (DevicePtr::new(dst), DevicePtr::new(src));
    if to == from && to == stream(on)?.context.id {
        return submit(on, &Command::CopyOnDevice { dst, src, bytes });
    }
    let end = |device, ptr| PeerAddress { device, ptr };
    let (dst, src) = (end(to, dst), end(from, src));
    submit(on, &Command::CopyPeer { dst, src, bytes })
}

piton_standin::entry_points! {
    [world::answer, INVALID]

    /// `aclrtCreateStreamWithConfig`: what is out of range is refused, where the real one clamps or refuses.
    aclrtCreateStreamWithConfig(place: *mut *mut c_void, priority: c_uint, flags: c_uint) fills(place) {
        let context = world::current()?;
        let range = context.device.priorities().ok_or(INVALID)?;
        let priority = c_int::try_from(priority).map_err(|_| INVALID)?;
        if flags & !3 != 0 {
            return Err(INVALID);
        }
        let stream = Stream::new(&context, range.highest.0 + priority)?;
        let handle = world::with(|world| world.objects.give(Object::Stream(Arc::new(stream))));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `aclrtDestroyStream`: waits for what it has.
    aclrtDestroyStream(handle: *mut c_void) fills() {
        let stream = stream(handle)?;
        let _waited = stream.queue.wait(stream.queue.submitted(), None);
        let gone = world::with(|world| world.objects.take(handle.addr()))?;
        drop(gone);
        Ok(())
    }

    /// `aclrtStreamQuery`.
    aclrtStreamQuery(handle: *mut c_void, status: *mut c_int) fills(status) {
        match stream(handle)?.query() {
            Ok(()) => Ok((1,)),
            Err(code) if code == CODES.not_ready => Ok((0,)),
            Err(code) => Err(code),
        }
    }

    /// `aclrtSynchronizeStream`: says what failed on it.
    aclrtSynchronizeStream(handle: *mut c_void) fills() {
        let stream = stream(handle)?;
        let last = stream.queue.submitted();
        let waited = stream.queue.wait(last, None);
        let _reached = waited.map_err(|error| CODES.of(&error))?;
        stream.context.look_at(&*stream.queue)
    }

    /// `aclrtStreamWaitEvent`: an event that streams may wait for.
    aclrtStreamWaitEvent(handle: *mut c_void, awaited: *mut c_void) fills() {
        let (event, is_sync) = world::with(|world| world.event(awaited.addr()))?;
        if !is_sync {
            return Err(INVALID);
        }
        event.hold(&*stream(handle)?)
    }

    /// `aclrtCreateEventWithFlag`.
    aclrtCreateEventWithFlag(place: *mut *mut c_void, flags: c_uint) fills(place) {
        Ok((make_event(flags)?,))
    }

    /// `aclrtCreateEventExWithFlag`.
    aclrtCreateEventExWithFlag(place: *mut *mut c_void, flags: c_uint) fills(place) {
        Ok((make_event(flags)?,))
    }

    /// `aclrtDestroyEvent`.
    aclrtDestroyEvent(handle: *mut c_void) fills() {
        let gone = world::with(|world| {
            world.event(handle.addr())?;
            world.objects.take(handle.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `aclrtRecordEvent`.
    aclrtRecordEvent(handle: *mut c_void, on: *mut c_void) fills() {
        event(handle)?.record(&*stream(on)?)
    }

    /// `aclrtQueryEventStatus`: one that was never recorded has not passed.
    aclrtQueryEventStatus(handle: *mut c_void, status: *mut c_int) fills(status) {
        let has_passed = event(handle)?.has_passed();
        Ok((c_int::from(has_passed == Some(true)),))
    }

    /// `aclrtSynchronizeEvent`.
    aclrtSynchronizeEvent(handle: *mut c_void) fills() {
        event(handle)?.sleep()
    }

    /// `aclrtEventGetTimestamp`: in microseconds.
    aclrtEventGetTimestamp(handle: *mut c_void, time: *mut u64) fills(time) {
        Ok((event(handle)?.time()? / 1000,))
    }

    /// `aclrtCreateNotify`.
    aclrtCreateNotify(place: *mut *mut c_void, flags: u64) fills(place) {
        let _context = world::current()?;
        if flags != 0 {
            return Err(INVALID);
        }
        let object = Object::Notification(Arc::new(Mutex::new(None)));
        let handle = world::with(|world| world.objects.give(object));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `aclrtDestroyNotify`.
    aclrtDestroyNotify(handle: *mut c_void) fills() {
        let gone = world::with(|world| {
            world.notification(handle.addr())?;
            world.objects.take(handle.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `aclrtRecordNotify`: once for each wait.
    aclrtRecordNotify(handle: *mut c_void, on: *mut c_void) fills() {
        let stream = stream(on)?;
        let notification = world::with(|world| world.notification(handle.addr()))?;
        let record = (Arc::clone(&stream.queue), stream.queue.submitted());
        let before = notification.lock().replace(record);
        if before.is_some() { Err(INVALID) } else { Ok(()) }
    }

    /// `aclrtWaitAndResetNotify`: one that was recorded, as nobody would end another wait.
    aclrtWaitAndResetNotify(handle: *mut c_void, on: *mut c_void, timeout: c_uint) fills() {
        if timeout != 0 {
            return Err(INVALID);
        }
        let notification = world::with(|world| world.notification(handle.addr()))?;
        let (queue, position) = notification.lock().take().ok_or(INVALID)?;
        stream(on)?.order_after(&queue, position)
    }

    /// `aclrtMemcpyAsync`.
    aclrtMemcpyAsync(
        dst: *mut c_void, room: usize, src: *const c_void, bytes: usize, kind: c_uint, on: *mut c_void
    ) fills() {
        if bytes > room {
            return Err(INVALID);
        }
        let (to, from, bytes) = (dst.addr() as u64, src.addr() as u64, bytes as u64);
        match kind {
            1 => {
                let src = NonNull::new(src.cast_mut().cast()).ok_or(INVALID)?;
                let dst = DevicePtr::new(to);
                submit(on, &Command::CopyToDevice { dst, src, bytes })
            }
            2 => {
                let dst = NonNull::new(dst.cast()).ok_or(INVALID)?;
                let src = DevicePtr::new(from);
                submit(on, &Command::CopyToHost { dst, src, bytes })
            }
            3 => copy_between(to, from, bytes, on),
            _ => Err(INVALID),
        }
    }

    /// `aclrtMemsetAsync`: bytes alone.
    aclrtMemsetAsync(dst: *mut c_void, room: usize, value: c_int, bytes: usize, on: *mut c_void) fills() {
        let byte = u8::try_from(value).map_err(|_| INVALID)?;
        if bytes > room {
            return Err(INVALID);
        }
        let fill = Command::Fill {
            dst: DevicePtr::new(dst.addr() as u64),
            pattern: FillPattern::Byte(byte),
            bytes: bytes as u64,
        };
        submit(on, &fill)
    }
}
