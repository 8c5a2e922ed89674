//! What tests ask of the stand-in beside CUDA.

#![expect(unsafe_code, reason = "exports a function by its name")]

use crate::world;
use piton_standin::Context;
use std::{
    ffi::{CStr, c_char},
    sync::Arc,
};

/// The next call of the function of this name answers `code`, and does nothing.
///
/// # Safety
/// `name` is a text that ends in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_fail(name: *const c_char, code: u32) {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_string_lossy().into_owned();
    world::with(|world| world.switches.failures.insert(name, code));
}

/// How often the program did what the reference says that it may not, and what is not refused: a module unloaded while a
/// kernel of it runs.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_mistakes() -> u32 {
    world::with(|world| world.switches.mistakes)
}

/// Whether a device, by the library's number, was granted access to the mapping that starts at an address: 1, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_has_access(address: u64, device: i32) -> u32 {
    let contexts = world::with(|world| world.all_contexts());
    let is_granted = |context: &Arc<Context>| {
        let content = context.content.lock();
        let mapping = content.mappings.get(&address);
        mapping.is_some_and(|mapping| mapping.readers.contains(&device))
    };
    contexts.iter().any(is_granted).into()
}
