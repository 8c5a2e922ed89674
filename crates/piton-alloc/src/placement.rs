//! Where the pool's memory lies, and how it grows and shrinks.
//!
//! Two ways, chosen when the pool is made:
//!
//! - [`virtual_range`], where the device maps pages at addresses of the caller's choice: one range of addresses a few
//!   times the pool's limit, chunks placed in it, pages mapped under those that need them and taken from holes.
//! - [`blocks`], where it does not: large Blocks, exact ones for large requests, given back when wholly free, and broken
//!   into only by requests of about their size.
//!
//! Both keep their books in [`Books`](crate::books::Books) and call the source under the pool's `turn`, never under
//! the lock of the books.

pub(crate) mod blocks;
pub(crate) mod virtual_range;

pub(crate) use blocks::IdleRule;
pub(crate) use virtual_range::{PageTable, SuspendedBytes, VirtualRange};
pub use virtual_range::{Suspended, Translation};

/// One of the two.
#[derive(Debug)]
pub(crate) enum Placement {
    /// Blocks as the source gives them.
    Blocks,
    /// Pages mapped into one range of addresses.
    Virtual(VirtualRange),
}
