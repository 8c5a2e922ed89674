//! What is to be placed: so many bytes for so long.

use crate::error::PlaceError;

/// A number of bytes that are live for some time.
///
/// Times are whatever the caller counts, such as requests or events; only their order matters. A block is live from
/// its birth up to, but not including, its death, so a block born at another's death may get its memory. If memory
/// must stay longer, because it was used on another stream, give a later death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Its bytes, at least 1. They are rounded up to the alignment when it is placed.
    pub bytes: u64,
    /// The time from which it is live.
    pub birth: u64,
    /// The time from which it is no longer live. If that is not later than the birth, it is the death *in the next
    /// round* of a program that repeats: the block is live from the start of time to its death, and from its birth to
    /// the end of time.
    pub death: u64,
}

impl Block {
    /// Whether it lives past the end of a round into the next one.
    #[must_use]
    pub fn is_carried_over(&self) -> bool {
        self.death <= self.birth
    }

    /// Bytes rounded up to the alignment, a power of two.
    pub(crate) fn rounded(&self, index: usize, alignment: u64) -> Result<u64, PlaceError> {
        if self.bytes == 0 {
            return Err(PlaceError::NoBytes { index });
        }
        let rounded = self.bytes.checked_next_multiple_of(alignment);
        rounded.ok_or(PlaceError::BytesOverflow { index })
    }
}
