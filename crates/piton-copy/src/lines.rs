//! Copies by lines, of four pages in turn, with the instructions that every x86-64 has.
//!
//! # Invariants
//! Blocks begin at a multiple of a line in the destination, so that a store never crosses one: a line that is streamed in
//! two parts costs a read of memory. What is before the first such place and after the last whole block is copied
//! plainly.
//!
//! Streaming stores are ordered by a fence alone: one stands behind the last of them, so that whatever the thread says
//! afterwards to others is said of bytes that are there.

#![expect(unsafe_code, reason = "stores that the language has no name for")]

use std::{
    arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_prefetch, _mm_sfence, _mm_store_si128, _mm_stream_si128,
    },
    ptr,
};

const LINE: usize = 64;
const PAGE: usize = 4096;
/// Pages that are copied side by side.
const ABREAST: usize = 4;
const BLOCK: usize = ABREAST * PAGE;

/// How far ahead of a line its successors are asked for. Streaming stores wait in the places in which lines on their way from memory
/// are awaited, so there the processor's own look-ahead is only helped along; asked for a block ahead, they halve the rate.
const fn ahead(streaming: bool) -> usize {
    if streaming { 4 * LINE } else { BLOCK }
}

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
    let tail = head + blocks * BLOCK;
    // SAFETY: within the range that the caller promised.
    unsafe { ptr::copy_nonoverlapping(src, dst, head) };
    for block in 0..blocks {
        let at = head + block * BLOCK;
        // SAFETY: a whole block that begins there lies within the range, since there are `blocks` of them.
        unsafe { copy_block::<STREAMING>(dst.wrapping_add(at), src.wrapping_add(at)) };
    }
    if STREAMING && blocks > 0 {
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
            // SAFETY: a hint that never faults, so that the address need not be one of the range.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(ahead(STREAMING)).cast()) };
            // SAFETY: the line lies within the block.
            unsafe { copy_line::<STREAMING>(to.cast(), from.cast()) };
        }
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
