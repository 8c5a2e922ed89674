//! Devices and contexts.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::world::{self, CODES, DEVICES, INVALID_DEVICE, INVALID_VALUE};
use piton_driver::{Device, DeviceId, PciAddress};
use piton_standin::Answer;
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
    sync::Arc,
};

/// The version that the stand-in claims: 12.8.
const VERSION: c_int = 12080;

fn index(device: c_int) -> Answer<u32> {
    let index = u32::try_from(device).map_err(|_| INVALID_DEVICE)?;
    if index < DEVICES {
        Ok(index)
    } else {
        Err(INVALID_DEVICE)
    }
}

/// Looks at a simulated device, whether anybody has it open or not.
fn look<T>(device: c_int, look: impl FnOnce(&dyn Device) -> T) -> Answer<T> {
    let index = index(device)?;
    let context = world::with(|world| world.retain(index))?;
    let seen = look(&*context.device);
    let gone = world::with(|world| world.release(index))?;
    drop((context, gone));
    Ok(seen)
}

fn pci(device: c_int) -> Answer<PciAddress> {
    let pci = look(device, |device| device.info().pci)?;
    pci.ok_or(INVALID_VALUE)
}

fn attribute(which: c_int, device: c_int) -> Answer<c_int> {
    let number = |value: u64| c_int::try_from(value).map_err(|_| INVALID_VALUE);
    match which {
        // Blocks along x.
        5 => look(device, |device| {
            device.info().limits.grid_blocks.min(0x7fff_ffff)
        })
        .and_then(number),
        33 => Ok(pci(device)?.bus.into()),
        34 => Ok(pci(device)?.device.into()),
        50 => number(pci(device)?.domain.into()),
        // What code can be made for: 8.0.
        75 => index(device).map(|_| 8),
        76 => index(device).map(|_| 0),
        // Unified addresses, priorities, virtual memory, descriptors of it, counters of 64 bits.
        41 | 78 | 102 | 103 | 122 => index(device).map(|_| 1),
        // The NUMA node: none.
        134 => index(device).map(|_| -1),
        _ => Err(INVALID_VALUE),
    }
}

piton_standin::entry_points! {
    [world::answer, INVALID_VALUE]

    /// `cuInit`.
    cuInit(flags: c_uint) fills() {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        world::with(|world| world.switches.is_initialised = true);
        Ok(())
    }

    /// `cuDriverGetVersion`.
    cuDriverGetVersion(version: *mut c_int) fills(version) {
        Ok((VERSION,))
    }

    /// `cuDeviceGetCount`.
    cuDeviceGetCount(count: *mut c_int) fills(count) {
        Ok((c_int::try_from(DEVICES).map_err(|_| INVALID_VALUE)?,))
    }

    /// `cuDeviceGet`.
    cuDeviceGet(device: *mut c_int, ordinal: c_int) fills(device) {
        index(ordinal).map(|_| (ordinal,))
    }

    /// `cuDeviceGetName`.
    cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) fills() {
        let text = look(device, |device| device.info().name.clone())?;
        let room = usize::try_from(length).map_err(|_| INVALID_VALUE)?;
        let taken = text.len().min(room.checked_sub(1).ok_or(INVALID_VALUE)?);
        // SAFETY: the caller gives `length` bytes.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), name, taken) };
        // SAFETY: as above; one byte was left for the end.
        unsafe { name.wrapping_add(taken).write(0) };
        Ok(())
    }

    /// `cuDeviceTotalMem`.
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) fills(bytes) {
        let all = look(device, |device| device.info().memory_bytes)?;
        Ok((usize::try_from(all).map_err(|_| INVALID_VALUE)?,))
    }

    /// `cuDeviceGetAttribute`.
    cuDeviceGetAttribute(value: *mut c_int, which: c_int, device: c_int) fills(value) {
        attribute(which, device).map(|value| (value,))
    }

    /// `cuDevicePrimaryCtxRetain`.
    cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) fills(context) {
        let index = index(device)?;
        let retained = world::with(|world| world.retain(index))?;
        Ok((ptr::without_provenance_mut(world::handle(&retained)),))
    }

    /// `cuDevicePrimaryCtxRelease`.
    cuDevicePrimaryCtxRelease_v2(device: c_int) fills() {
        let index = index(device)?;
        let gone = world::with(|world| world.release(index))?;
        drop(gone);
        Ok(())
    }

    /// `cuCtxPushCurrent`.
    cuCtxPushCurrent_v2(context: *mut c_void) fills() {
        let context = world::with(|world| world.context(context.addr()))?;
        world::push(context);
        Ok(())
    }

    /// `cuCtxPopCurrent`.
    cuCtxPopCurrent_v2(context: *mut *mut c_void) fills(context) {
        let popped = world::pop()?;
        Ok((ptr::without_provenance_mut(world::handle(&popped)),))
    }

    /// `cuCtxGetStreamPriorityRange`.
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) fills(least, greatest) {
        let range = world::current()?.device.priorities().ok_or(INVALID_VALUE)?;
        Ok((range.lowest.0, range.highest.0))
    }

    /// `cuDeviceCanAccessPeer`.
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) fills(can) {
        let peer = DeviceId(index(peer)?);
        let can_access = look(device, |device| {
            let peers = device.peers().filter(|_| device.info().id != peer);
            peers.is_some_and(|peers| peers.can_access(peer))
        })?;
        Ok((c_int::from(can_access),))
    }

    /// `cuCtxEnablePeerAccess`.
    cuCtxEnablePeerAccess(peer: *mut c_void, flags: c_uint) fills() {
        let (own, peer) = (world::current()?, world::with(|world| world.context(peer.addr()))?);
        if flags != 0 || Arc::ptr_eq(&own, &peer) {
            return Err(INVALID_VALUE);
        }
        if !own.content.lock().peers.insert(peer.id) {
            return Err(world::PEER_ACCESS_ALREADY_ENABLED);
        }
        let peers = own.device.peers().ok_or(INVALID_VALUE)?;
        peers.enable(peer.id).map_err(|error| CODES.of(&error))
    }
}
