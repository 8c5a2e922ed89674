//! Copies by lines, of four pages in turn, with the instructions that every x86-64 has.
//!
//! # Invariants
//! Blocks begin at a multiple of a line in the destination, so that a store never crosses one: a line that is streamed in
//! two parts costs a read of memory. Whole lines behind the last block are copied one after the other; what is before
//! the first line and behind the last, plainly.
//!
//! Streaming stores are ordered by a fence alone: one stands behind the last of them, so that whatever the thread says
//! afterwards to others is said of bytes that are there.

#![expect(unsafe_code, reason = "stores that the language has no name for")]

use std::{
    arch::x86_64::{
        __m128i, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm_sfence, _mm_store_si128,
        _mm_stream_si128,
    },
    ptr,
};

const LINE: usize = 64;
const PAGE: usize = 4096;
/// Pages that are copied side by side.
const ABREAST: usize = 4;
const BLOCK: usize = ABREAST * PAGE;

/// How far ahead of a line its successors are asked for where the destination lies in a cache: into the second level, which
/// awaits more lines at once than the first does. Asked for into the first, the same copy takes a sixth longer.
const FAR: usize = 2 * BLOCK;
/// The same for streaming stores, which wait in the places in which the first level awaits its lines: there the processor's own
/// look-ahead is only helped along. Asked for a block ahead, they halve the rate.
const NEAR: usize = 4 * LINE;

/// A line's worth, in registers.
type Line = [__m128i; LINE / size_of::<__m128i>()];

/// Copies; streaming, with the stores that leave the caches alone.
///
/// # Safety
/// `src` can be read and `dst` written for `bytes` bytes; they do not overlap, and nobody else writes the one or uses the
/// other meanwhile.
pub(crate) unsafe fn copy<const STREAMING: bool>(dst: *mut u8, src: *const u8, bytes: usize) {
    let head = dst.align_offset(LINE).min(bytes);
    let blocks = (bytes - head) / BLOCK;
    let behind = head + blocks * BLOCK;
    let tail = bytes - (bytes - head) % LINE;
    // SAFETY: within the range that the caller promised.
    unsafe { ptr::copy_nonoverlapping(src, dst, head) };
    for block in 0..blocks {
        let at = head + block * BLOCK;
        // SAFETY: a whole block that begins there lies within the range, since there are `blocks` of them.
        unsafe { copy_block::<STREAMING>(dst.wrapping_add(at), src.wrapping_add(at)) };
    }
    for at in (behind..tail).step_by(LINE) {
        let (to, from) = (dst.wrapping_add(at), src.wrapping_add(at));
        // SAFETY: a whole line that begins there lies within the range, since it ends at `tail` or before.
        unsafe { copy_line::<STREAMING>(to.cast(), from.cast()) };
    }
    if STREAMING && tail > head {
        // SAFETY: every x86-64 has it.
        unsafe { _mm_sfence() };
    }
    let (dst, src) = (dst.wrapping_add(tail), src.wrapping_add(tail));
    // SAFETY: `tail` is within the range, and so is what is left of it.
    unsafe { ptr::copy_nonoverlapping(src, dst, bytes - tail) };
}

/// Copies a block, a line of each page in turn.
///
/// # Safety
/// As [`copy`], for a block; `dst` is a multiple of a line.
#[inline]
unsafe fn copy_block<const STREAMING: bool>(dst: *mut u8, src: *const u8) {
    for line in (0..PAGE).step_by(LINE) {
        for page in 0..ABREAST {
            let at = page * PAGE + line;
            let (to, from) = (dst.wrapping_add(at), src.wrapping_add(at));
            ask_ahead::<STREAMING>(from);
            // SAFETY: the line lies within the block.
            unsafe { copy_line::<STREAMING>(to.cast(), from.cast()) };
        }
    }
}

/// Asks for a line that is copied later, or for one behind the last: it may be the next call's first.
#[inline]
fn ask_ahead<const STREAMING: bool>(from: *const u8) {
    if STREAMING {
        // SAFETY: a hint that never faults, so that the address need not be one of the range.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(NEAR).cast()) };
    } else {
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(FAR).cast()) };
    }
}

/// Copies a line.
///
/// # Safety
/// As [`copy`], for a line; `dst` is a multiple of one.
#[inline]
unsafe fn copy_line<const STREAMING: bool>(dst: *mut __m128i, src: *const Line) {
    // SAFETY: the caller's promise; any bytes are a value.
    let line = unsafe { src.read_unaligned() };
    for (index, part) in line.into_iter().enumerate() {
        let to = dst.wrapping_add(index);
        if STREAMING {
            // SAFETY: within the line, and so a multiple of 16; `copy` fences.
            unsafe { _mm_stream_si128(to, part) };
        } else {
            // SAFETY: within the line, and so a multiple of 16.
            unsafe { _mm_store_si128(to, part) };
        }
    }
}
