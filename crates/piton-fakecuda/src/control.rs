//! What tests ask of the stand-in beside CUDA.

#![expect(unsafe_code, reason = "exports a function by its name")]

use crate::world;
use std::ffi::{CStr, c_char};

/// The next call of the function of this name answers `code`, and does nothing.
///
/// # Safety
/// `name` is a text that ends in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_fail(name: *const c_char, code: u32) {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_string_lossy().into_owned();
    world::with(|world| world.failures.insert(name, code));
}
