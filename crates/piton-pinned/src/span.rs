//! A block's memory, as the pool's lists carry it.

#![expect(
    unsafe_code,
    reason = "memory that belongs to no thread is carried between threads as a pointer"
)]

use piton_suballoc::{ExtentId, SizeClass};
use std::ptr::NonNull;

/// Which piece of driver memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RegionId {
    pub(crate) is_slab: bool,
    /// Where its range starts in the index of its kind.
    pub(crate) offset: u64,
}

/// A run of host memory out of a region.
///
/// # Invariants
/// 1. `start..start + bytes` lies inside the region, which the pool holds from the driver.
/// 2. Spans that exist at the same time do not overlap: a span is made by taking it out of the region's books and
///    ends by being put back there.
/// 3. A span is in one place: a block's, a list's, or on its way between them. It is `Copy` for the lists' sake;
///    whoever passes it on uses it no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: u64,
    /// Where it starts in the index it was cut from.
    pub(crate) offset: u64,
    /// Its name there.
    pub(crate) extent: ExtentId,
    /// Its size class; none for an exact size.
    pub(crate) class: Option<SizeClass>,
}

// SAFETY: `start` is the only field that is not plainly `Send`; it points to memory that belongs to no thread and
// that, by invariant 2, nobody reaches through another span.
unsafe impl Send for Span {}

// SAFETY: a shared span gives access to nothing: its pointer has to be dereferenced in unsafe code, which answers
// for it.
unsafe impl Sync for Span {}
