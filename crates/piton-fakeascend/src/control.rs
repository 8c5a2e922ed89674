//! What tests ask of the stand-in beside the runtime.

#![expect(unsafe_code, reason = "exports a function by its name")]

use crate::world;
use std::ffi::{CStr, c_char};

/// The next call of the function of this name answers `code`, and does nothing.
///
/// # Safety
/// `name` is a text that ends in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakeascend_fail(name: *const c_char, code: u32) {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_string_lossy().into_owned();
    world::with(|world| world.switches.failures.insert(name, code));
}

/// How often the program did what the reference says that it may not, and what is not refused: a binary unloaded while a
/// kernel of it runs.
#[unsafe(no_mangle)]
pub extern "C" fn fakeascend_mistakes() -> u32 {
    world::with(|world| world.switches.mistakes)
}
