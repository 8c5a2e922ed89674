//! The library itself, devices, contexts.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::world::{self, INVALID, INVALID_DEVICE, REPEATED_INITIALIZE};
use piton_driver::Device;
use piton_standin::{Answer, DEVICES};
use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr,
    sync::Arc,
};

/// What the processor is called.
const NAME: &CStr = c"piton stand-in for an Ascend device";

/// `ACL_RT_DEVS_TOPOLOGY_HCCS`.
const LINKED: u64 = 1;

thread_local! {
    // GLOBAL: what was last said of a failure on a thread, as the runtime has it, and what was handed out of it.
    static SAID: RefCell<(CString, CString)> = RefCell::default();
}

/// Keeps what a person would be told.
pub(crate) fn say(text: &str) {
    let text = CString::new(text).unwrap_or_default();
    SAID.with_borrow_mut(|(said, _)| *said = text);
}

/// What processors are called.
///
/// # Safety
/// None is needed: the reference says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetSocName() -> *const c_char {
    NAME.as_ptr()
}

/// What was last said of a failure on this thread; null if nothing was since it was asked.
///
/// # Safety
/// None is needed; the text stays until the next question of the thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    SAID.with_borrow_mut(|(said, handed)| {
        *handed = std::mem::take(said);
        if handed.is_empty() {
            ptr::null()
        } else {
            handed.as_ptr()
        }
    })
}

/// Looks at two devices that are not one.
fn look<T>(own: c_int, peer: c_int, look: impl FnOnce(&dyn Device) -> T) -> Answer<T> {
    let (own, _peer) = (world::device(own)?, world::device(peer)?);
    let handle = world::with(|world| world.make_context(own))?;
    let context = world::with(|world| world.context(handle))?;
    let seen = look(&*context.device);
    drop(context);
    drop(world::with(|world| world.end_context(handle))?);
    Ok(seen)
}

piton_standin::entry_points! {
    [world::answer, INVALID]

    /// `aclInit`: a file of settings is not read.
    aclInit(path: *const c_char) fills() {
        if !path.is_null() {
            return Err(INVALID);
        }
        let was = world::with(|world| std::mem::replace(&mut world.switches.is_initialised, true));
        if was { Err(REPEATED_INITIALIZE) } else { Ok(()) }
    }

    /// `aclrtGetDeviceCount`.
    aclrtGetDeviceCount(count: *mut c_uint) fills(count) {
        Ok((DEVICES,))
    }

    /// `aclrtCreateContext`: it is current to the thread from then on.
    aclrtCreateContext(place: *mut *mut c_void, device: c_int) fills(place) {
        let device = world::device(device)?;
        let handle = world::with(|world| world.make_context(device))?;
        world::set_current(handle);
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `aclrtDestroyContext`.
    aclrtDestroyContext(context: *mut c_void) fills() {
        let gone = world::with(|world| world.end_context(context.addr()))?;
        drop(gone);
        Ok(())
    }

    /// `aclrtSetCurrentContext`.
    aclrtSetCurrentContext(context: *mut c_void) fills() {
        let _context = world::with(|world| world.context(context.addr()))?;
        world::set_current(context.addr());
        Ok(())
    }

    /// `aclrtGetCurrentContext`.
    aclrtGetCurrentContext(place: *mut *mut c_void) fills(place) {
        Ok((ptr::without_provenance_mut(world::current_handle()?),))
    }

    /// `aclrtDeviceGetStreamPriorityRange`: from zero, the highest, up.
    aclrtDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) fills(least, greatest) {
        let range = world::current()?.device.priorities().ok_or(INVALID)?;
        Ok((range.lowest.0 - range.highest.0, 0))
    }

    /// `aclrtDeviceCanAccessPeer`.
    aclrtDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) fills(can) {
        let other = world::device(peer)?;
        let can_access = look(device, peer, |device| {
            let peers = device.peers().filter(|_| device.info().id != other);
            peers.is_some_and(|peers| peers.can_access(other))
        })?;
        Ok((c_int::from(can_access),))
    }

    /// `aclrtDeviceEnablePeerAccess`: again is refused.
    aclrtDeviceEnablePeerAccess(peer: c_int, flags: c_uint) fills() {
        let (own, peer) = (world::current()?, world::device(peer)?);
        if flags != 0 || own.id == peer || !own.content.lock().peers.insert(peer) {
            return Err(INVALID);
        }
        let peers = own.device.peers().ok_or(INVALID)?;
        peers.enable(peer).map_err(|error| world::CODES.of(&error))
    }

    /// `aclrtGetDevicesTopo`.
    aclrtGetDevicesTopo(device: c_uint, other: c_uint, value: *mut u64) fills(value) {
        if device.max(other) >= DEVICES {
            return Err(INVALID_DEVICE);
        }
        if device == other { Err(INVALID) } else { Ok((LINKED,)) }
    }
}

/// Whether two contexts are one.
pub(crate) fn is_same(a: &Arc<piton_standin::Context>, b: &Arc<piton_standin::Context>) -> bool {
    Arc::ptr_eq(a, b)
}
