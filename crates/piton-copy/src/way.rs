//! The two ways, of slices and of raw memory.

#![expect(unsafe_code, reason = "copies memory that may be a device's")]

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
use crate::lines as machine;
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
use crate::plain as machine;
use std::ptr;

/// Copies as many bytes as both have, from the start, to a destination that lies in the core's own cache: a chunk that is used again
/// and again. Slower than a plain copy where it does not.
#[inline]
pub fn copy_cached(dst: &mut [u8], src: &[u8]) {
    let bytes = dst.len().min(src.len());
    // SAFETY: both are `bytes` long, and a slice that can be written is apart from every other.
    unsafe { machine::copy::<false>(dst.as_mut_ptr(), src.as_ptr(), bytes) };
}

/// As [`copy_cached`], of memory that is no slice's. Where the two overlap it is `memmove`.
///
/// # Safety
/// As [`copy_streaming_raw`].
#[inline]
pub unsafe fn copy_cached_raw(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_raw::<false>(dst, src, bytes) };
}

/// Copies as many bytes as both have, from the start, to memory: the caches keep what they had. Slower than a plain copy
/// where the destination lies in the caches or is read next.
#[inline]
pub fn copy_streaming(dst: &mut [u8], src: &[u8]) {
    let bytes = dst.len().min(src.len());
    // SAFETY: as in `copy_cached`.
    unsafe { machine::copy::<true>(dst.as_mut_ptr(), src.as_ptr(), bytes) };
}

/// As [`copy_streaming`], of memory that is no slice's. Where the two overlap it is `memmove`.
///
/// # Safety
/// `src` can be read and `dst` written for `bytes` bytes, and nobody else writes the one or uses the other meanwhile.
#[inline]
pub unsafe fn copy_streaming_raw(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_raw::<true>(dst, src, bytes) };
}

/// # Safety
/// As [`copy_streaming_raw`].
#[inline]
unsafe fn copy_raw<const STREAMING: bool>(dst: *mut u8, src: *const u8, bytes: usize) {
    if dst.addr().abs_diff(src.addr()) < bytes {
        // SAFETY: the caller's promise; `copy` allows overlap.
        unsafe { ptr::copy(src, dst, bytes) };
    } else {
        // SAFETY: the caller's promise; they do not overlap.
        unsafe { machine::copy::<STREAMING>(dst, src, bytes) };
    }
}
