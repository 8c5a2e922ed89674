//! Binaries, their functions, launches.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use super::{context::say, stream::stream};
use crate::{
    image,
    world::{self, Arguments, INVALID, Object},
};
use piton_driver::{Command, Grid, Launch};
use piton_standin::{Answer, Function, Loaded, kernels::Declared};
use piton_sync::Mutex;
use std::{
    ffi::{CStr, c_char, c_uint, c_void},
    ptr,
    sync::Arc,
};

/// The kernels of an image.
///
/// # Safety
/// So many bytes, or null.
unsafe fn read(data: *const c_void, bytes: usize) -> Answer<Vec<Declared>> {
    if data.is_null() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise.
    let image = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
    image::read(image).map_err(|reason| {
        say(reason);
        INVALID
    })
}

/// Loads kernels, and gives the binary out.
fn load(declared: &[Declared]) -> Answer<*mut c_void> {
    let loaded = Loaded::new(&*world::current()?, declared)?;
    let loaded = loaded.ok_or_else(|| {
        say("the stand-in has no such kernel");
        INVALID
    })?;
    let object = Object::Binary(Arc::new(loaded));
    let handle = world::with(|world| world.objects.give(object));
    Ok(ptr::without_provenance_mut(handle))
}

/// Launches a function with packed arguments.
fn launch(function: &Function, blocks: c_uint, arguments: &[u8], on: *mut c_void) -> Answer<()> {
    let stream = stream(on)?;
    if blocks == 0 || blocks > 0xffff {
        return Err(INVALID);
    }
    let launch = Launch::new(&function.kernel, Grid::linear(blocks), arguments);
    // SAFETY: whoever called the entry point promised what the reference asks of a launch.
    let position = unsafe { stream.submit(&Command::Launch(launch)) }?;
    function.launched(&stream.queue, position);
    Ok(())
}

fn function(handle: *mut c_void) -> Answer<Function> {
    world::with(|world| world.function(handle.addr()))
}

/// The offset of a parameter, and the bytes of all.
fn offset(function: &Function, index: usize) -> usize {
    let signature = function.kernel.signature();
    let offset = signature.offset(index).unwrap_or(signature.packed_bytes());
    usize::try_from(offset).unwrap_or(0)
}

piton_standin::entry_points! {
    [world::answer, INVALID]

    /// `aclrtBinaryLoadFromData`: without options.
    aclrtBinaryLoadFromData(
        data: *const c_void, bytes: usize, options: *const c_void, place: *mut *mut c_void
    ) fills(place) {
        if !options.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller's promise.
        let declared = unsafe { read(data, bytes) }?;
        Ok((load(&declared)?,))
    }

    /// `aclrtBinaryLoad`.
    aclrtBinaryLoad(binary: *mut c_void, place: *mut *mut c_void) fills(place) {
        let image = world::with(|world| world.image(binary.addr()))?;
        Ok((load(&image)?,))
    }

    /// `aclrtDestroyBinary`.
    aclrtDestroyBinary(binary: *mut c_void) fills() {
        let gone = world::with(|world| {
            world.image(binary.addr())?;
            world.objects.take(binary.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `aclrtBinaryUnLoad`.
    aclrtBinaryUnLoad(handle: *mut c_void) fills() {
        let gone = world::with(|world| {
            let binary = world.binary(handle.addr())?;
            world.switches.mistakes += u32::from(!binary.is_idle());
            world.objects.take(handle.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `aclrtBinaryGetFunction`.
    aclrtBinaryGetFunction(binary: *mut c_void, name: *const c_char, place: *mut *mut c_void) fills(place) {
        let _context = world::current()?;
        // SAFETY: a name ends in zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let binary = world::with(|world| world.binary(binary.addr()))?;
        let function = binary.functions.get(&*name).cloned().ok_or(INVALID)?;
        let handle = world::with(|world| world.objects.give(Object::Function(function)));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `aclrtLaunchKernelWithHostArgs`: without settings and places to be filled in.
    aclrtLaunchKernelWithHostArgs(
        handle: *mut c_void, blocks: c_uint, on: *mut c_void, settings: *const c_void,
        arguments: *mut c_void, bytes: usize, places: *const c_void, count: usize
    ) fills() {
        let function = function(handle)?;
        let all = offset(&function, usize::MAX);
        if !settings.is_null() || !places.is_null() || count != 0 || bytes != all {
            return Err(INVALID);
        }
        // SAFETY: the caller gives so many bytes.
        let packed = unsafe { std::slice::from_raw_parts(arguments.cast::<u8>(), bytes) };
        launch(&function, blocks, packed, on)
    }

    /// `aclrtKernelArgsInit`.
    aclrtKernelArgsInit(handle: *mut c_void, place: *mut *mut c_void) fills(place) {
        let _function = function(handle)?;
        let arguments = Arguments {
            appended: Mutex::default(),
            is_finished: Mutex::new(false),
        };
        let object = Object::Arguments(Arc::new(arguments));
        let handle = world::with(|world| world.objects.give(object));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `aclrtKernelArgsAppend`.
    aclrtKernelArgsAppend(list: *mut c_void, start: *mut c_void, bytes: usize, place: *mut *mut c_void) fills(place) {
        let list = world::with(|world| world.arguments(list.addr()))?;
        if *list.is_finished.lock() {
            return Err(INVALID);
        }
        // SAFETY: the caller gives so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) };
        let mut appended = list.appended.lock();
        appended.push(bytes.to_vec());
        Ok((ptr::without_provenance_mut(appended.len()),))
    }

    /// `aclrtKernelArgsFinalize`.
    aclrtKernelArgsFinalize(list: *mut c_void) fills() {
        let list = world::with(|world| world.arguments(list.addr()))?;
        *list.is_finished.lock() = true;
        Ok(())
    }

    /// `aclrtLaunchKernelWithConfig`: takes the list, which is finished.
    aclrtLaunchKernelWithConfig(
        handle: *mut c_void, blocks: c_uint, on: *mut c_void, settings: *const c_void,
        list: *mut c_void, reserved: *mut c_void
    ) fills() {
        let function = function(handle)?;
        let arguments = world::with(|world| world.arguments(list.addr()))?;
        if !settings.is_null() || !reserved.is_null() || !*arguments.is_finished.lock() {
            return Err(INVALID);
        }
        let appended = std::mem::take(&mut *arguments.appended.lock());
        let sizes: Vec<_> = appended.iter().map(Vec::len).collect();
        if sizes != function.parameters {
            return Err(INVALID);
        }
        let mut packed = vec![0; offset(&function, usize::MAX)];
        for (index, bytes) in appended.iter().enumerate() {
            let start = offset(&function, index);
            let place = packed.get_mut(start..start + bytes.len());
            place.ok_or(INVALID)?.copy_from_slice(bytes);
        }
        launch(&function, blocks, &packed, on)?;
        let gone = world::with(|world| world.objects.take(list.addr()));
        drop(gone);
        Ok(())
    }
}

/// `aclrtCreateBinary`: null where the image is none.
///
/// # Safety
/// As the public reference says of the function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateBinary(data: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let Ok(declared) = (unsafe { read(data, bytes) }) else {
        return ptr::null_mut();
    };
    let object = Object::Image(Arc::new(declared));
    ptr::without_provenance_mut(world::with(|world| world.objects.give(object)))
}
