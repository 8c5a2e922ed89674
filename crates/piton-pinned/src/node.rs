//! Binding pages to a NUMA node.

#![expect(unsafe_code, reason = "asks the system where pages are to come from")]

use rustix::io::Errno;
use std::{ffi::c_long, ptr::NonNull};

/// How strictly pages are to come from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// From nowhere else.
    Only,
    /// From there as long as it has any.
    Rather,
}

/// A node that pages are to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) binding: Binding,
}

/// As many nodes as Linux knows at most.
const MASK_WORDS: usize = 1024 / 64;

/// Has the pages of a range, none of which has been made yet, made on a node.
///
/// # Errors
/// The system's: it has no such node, or no notion of nodes.
///
/// # Safety
/// The range is mapped, and starts at a multiple of a page.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn bind(start: NonNull<u8>, bytes: usize, node: Node) -> Result<(), Errno> {
    let mode = match node.binding {
        Binding::Only => libc::MPOL_BIND,
        Binding::Rather => libc::MPOL_PREFERRED,
    };
    let mut mask = [0_u64; MASK_WORDS];
    let word = mask.get_mut(node.number as usize / 64);
    *word.ok_or(Errno::INVAL)? = 1 << (node.number % 64);
    let bits = (MASK_WORDS * 64) as c_long;
    // SAFETY: the system reads the mask, as many bits as it has, and changes where pages of the range will come from, not
    // what they hold (the caller: the range is mapped).
    let refused = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start.as_ptr(),
            bytes,
            c_long::from(mode),
            mask.as_ptr(),
            bits,
            0_i64,
        )
    };
    if refused == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

/// Elsewhere pages come from where they come from.
///
/// # Safety
/// None needed.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn bind(_start: NonNull<u8>, _bytes: usize, _node: Node) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
