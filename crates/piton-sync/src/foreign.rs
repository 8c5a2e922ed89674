//! Words of memory that is no part of the program's: device memory, or memory that another process writes.
//!
//! Rust's atomics live in the program. These are single accesses at an address, with the ordering that a word needs through
//! which one side tells the other that something is there. No model sees them.

#![expect(unsafe_code, reason = "accesses memory by its address")]

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// The word at `at`, with Acquire: who reads what [`store_u32`] wrote sees what its writer did before.
///
/// # Safety
/// Four bytes that may be read, at a multiple of four.
pub unsafe fn load_u32(at: NonNull<u32>) -> u32 {
    // SAFETY: the caller's promise.
    let word = unsafe { AtomicU32::from_ptr(at.as_ptr()) };
    word.load(Ordering::Acquire)
}

/// As [`load_u32`], eight bytes.
///
/// # Safety
/// Eight bytes that may be read, at a multiple of eight.
pub unsafe fn load_u64(at: NonNull<u64>) -> u64 {
    // SAFETY: the caller's promise.
    let word = unsafe { AtomicU64::from_ptr(at.as_ptr()) };
    word.load(Ordering::Acquire)
}

/// Writes the word at `at`, with Release.
///
/// # Safety
/// Four bytes that may be written, at a multiple of four.
pub unsafe fn store_u32(at: NonNull<u32>, value: u32) {
    // SAFETY: the caller's promise.
    let word = unsafe { AtomicU32::from_ptr(at.as_ptr()) };
    word.store(value, Ordering::Release);
}

/// As [`store_u32`], eight bytes.
///
/// # Safety
/// Eight bytes that may be written, at a multiple of eight.
pub unsafe fn store_u64(at: NonNull<u64>, value: u64) {
    // SAFETY: the caller's promise.
    let word = unsafe { AtomicU64::from_ptr(at.as_ptr()) };
    word.store(value, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_what_was_stored_last() {
        let (mut short, mut long) = (1_u32, 2_u64);
        let (short, long) = (NonNull::from(&mut short), NonNull::from(&mut long));
        // SAFETY: words of this test's.
        unsafe { store_u32(short, u32::MAX) };
        // SAFETY: as above.
        unsafe { store_u64(long, 1 << 40) };
        // SAFETY: as above.
        assert_eq!(unsafe { load_u32(short) }, u32::MAX);
        // SAFETY: as above.
        assert_eq!(unsafe { load_u64(long) }, 1 << 40);
    }
}
