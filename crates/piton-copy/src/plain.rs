//! Machines of which no better way is known.

#![expect(unsafe_code, reason = "copies raw memory")]

use std::ptr;

/// Copies in the one way there is.
///
/// # Safety
/// `src` can be read and `dst` written for `bytes` bytes; they do not overlap, and nobody else writes the one or uses the
/// other meanwhile.
#[inline]
pub(crate) unsafe fn copy<const STREAMING: bool>(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(src, dst, bytes) };
}
