//! What is to be placed: so many bytes for so long.

use crate::error::PlaceError;

/// Bytes that are live for a while.
///
/// Times are whatever the caller counts, such as requests or events; only their order matters. A block is live from its
/// birth up to and without its death, so that a block born at another's death may have its memory. A caller that needs
/// longer before memory passes on, because it was used on another stream, gives a later death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Bytes, at least 1; placed rounded up to the alignment.
    pub bytes: u64,
    /// The time from which it is live.
    pub birth: u64,
    /// The time from which it is not: later than the birth, or else it is the death *in the next round* of a program that
    /// repeats. Such a block is live from the start of time to its death and from its birth to the end of time.
    pub death: u64,
}

impl Block {
    /// Does it live over the end of a round into the next?
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
