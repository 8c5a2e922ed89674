//! Modules, their functions, launches.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::{
    ptx,
    world::{self, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, Object},
};
use piton_driver::{Command, Grid, Launch};
use piton_standin::{Answer, Context, Function, Loaded};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::Arc,
};

/// `CU_JIT_ERROR_LOG_BUFFER`, and its size in bytes.
const ERROR_LOG: [c_int; 2] = [5, 6];

/// Most threads of a block.
const MOST_THREADS: u64 = 1024;

/// The kernels that a text declares, each with the function that stands in for it.
fn load(context: &Context, text: &str) -> Result<Loaded, (&'static str, u32)> {
    let refused = |reason| (reason, INVALID_PTX);
    let declared = ptx::declared(text).map_err(refused)?;
    let loaded = Loaded::new(context, &declared).map_err(|code| ("", code))?;
    loaded.ok_or_else(|| refused("ptxas error : the stand-in has no such kernel"))
}

/// Writes what a compiler would say into the buffer that the options name.
///
/// # Safety
/// `count` options with their values, as the reference says.
unsafe fn write_log(text: &str, count: c_uint, options: *const c_int, values: *const *mut c_void) {
    let is_asked = count == 2 && !options.is_null() && !values.is_null();
    if !is_asked {
        return;
    }
    // SAFETY: the caller's promise.
    let options = unsafe { std::slice::from_raw_parts(options, 2) };
    // SAFETY: the caller's promise.
    let values = unsafe { std::slice::from_raw_parts(values, 2) };
    let (buffer, bytes) = (values[0].cast::<u8>(), values[1].addr());
    if options != ERROR_LOG || bytes == 0 {
        return;
    }
    let taken = text.len().min(bytes - 1);
    // SAFETY: the buffer has the size that was said.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), buffer, taken) };
    // SAFETY: one byte was left for the end.
    unsafe { buffer.wrapping_add(taken).write(0) };
}

/// The arguments, packed as the stand-in's signature has them.
///
/// # Safety
/// As many places as the function has parameters, each of the parameter's size.
unsafe fn packed(function: &Function, places: *mut *mut c_void) -> Answer<Vec<u8>> {
    let signature = function.kernel.signature();
    let mut arguments = vec![0; usize::try_from(signature.packed_bytes()).unwrap_or(0)];
    for (index, bytes) in function.parameters.iter().enumerate() {
        // SAFETY: the caller's promise.
        let place = unsafe { places.wrapping_add(index).read() };
        let offset = usize::try_from(signature.offset(index).unwrap_or(0)).unwrap_or(0);
        let target = arguments.get_mut(offset..offset + bytes);
        let target = target.ok_or(INVALID_VALUE)?.as_mut_ptr();
        // SAFETY: the caller's promise for the source; the target is of that size.
        unsafe { ptr::copy_nonoverlapping(place.cast(), target, *bytes) };
    }
    Ok(arguments)
}

fn function(handle: *mut c_void) -> Answer<Function> {
    world::with(|world| world.function(handle.addr()))
}

piton_standin::entry_points! {
    [world::answer, INVALID_VALUE]

    /// `cuModuleLoadDataEx`.
    cuModuleLoadDataEx(
        place: *mut *mut c_void, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut *mut c_void
    ) fills(place) {
        let context = world::current()?;
        // SAFETY: PTX ends in zero; binaries are not read here.
        let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) };
        let module = match load(&context, &text.to_string_lossy()) {
            Ok(module) => module,
            Err((reason, code)) => {
                // SAFETY: the caller's promise.
                unsafe { write_log(reason, count, options, values.cast_const()) };
                return Err(code);
            }
        };
        let handle = world::with(|world| world.objects.give(Object::Module(Arc::new(module))));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `cuModuleUnload`.
    cuModuleUnload(handle: *mut c_void) fills() {
        let gone = world::with(|world| {
            let module = world.module(handle.addr())?;
            world.switches.mistakes += u32::from(!module.is_idle());
            world.objects.take(handle.addr())
        })?;
        drop(gone);
        Ok(())
    }

    /// `cuModuleGetFunction`.
    cuModuleGetFunction(place: *mut *mut c_void, module: *mut c_void, name: *const c_char) fills(place) {
        let _context = world::current()?;
        // SAFETY: a name ends in zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let module = world::with(|world| world.module(module.addr()))?;
        let function = module.functions.get(&*name).cloned().ok_or(NOT_FOUND)?;
        let handle = world::with(|world| world.objects.give(Object::Function(function)));
        Ok((ptr::without_provenance_mut(handle),))
    }

    /// `cuFuncGetParamInfo`.
    cuFuncGetParamInfo(handle: *mut c_void, index: usize, offset: *mut usize, bytes: *mut usize) fills(offset, bytes) {
        let function = function(handle)?;
        let bytes = function.parameters.get(index).copied().ok_or(INVALID_VALUE)?;
        let before: usize = function.parameters.iter().take(index).sum();
        Ok((before, bytes))
    }

    /// `cuLaunchKernel`.
    cuLaunchKernel(
        handle: *mut c_void,
        x: c_uint, y: c_uint, z: c_uint,
        threads_x: c_uint, threads_y: c_uint, threads_z: c_uint,
        _shared_bytes: c_uint,
        on: *mut c_void,
        places: *mut *mut c_void,
        extra: *mut *mut c_void
    ) fills() {
        let context = world::current()?;
        let stream = world::with(|world| world.stream(on.addr()))?;
        if !Arc::ptr_eq(&context, &stream.context) {
            return Err(INVALID_HANDLE);
        }
        let threads = [threads_x, threads_y, threads_z].map(u64::from);
        let threads = threads.into_iter().product::<u64>();
        if !(1..=MOST_THREADS).contains(&threads) || !extra.is_null() {
            return Err(INVALID_VALUE);
        }
        let function = function(handle)?;
        // SAFETY: the caller's promise.
        let arguments = unsafe { packed(&function, places) }?;
        let launch = Launch::new(&function.kernel, Grid { x, y, z }, &arguments);
        // SAFETY: the caller's promise.
        let position = unsafe { stream.submit(&Command::Launch(launch)) }?;
        function.launched(&stream.queue, position);
        Ok(())
    }
}
