//! Page-locked bytes as [`Bytes`] of the `bytes` crate, which network code passes on by reference.

use crate::{PinnedVec, Refused};
use bytes::{Buf, Bytes};

/// Keeps the memory for as long as a `Bytes` refers to it.
struct Owner(PinnedVec<u8>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // INVARIANT: no write was pending when the owner was made, and none can be recorded since.
        self.0.try_as_slice().unwrap_or_default()
    }
}

impl PinnedVec<u8> {
    /// The bytes, to be shared and cut without copies. The memory goes back to the pool with the last reference. Devices may
    /// be reading.
    ///
    /// # Errors
    /// [`PinnedError::InUse`](crate::PinnedError::InUse) while a recorded device write is not complete.
    pub fn into_bytes(self) -> Result<Bytes, Refused<Self>> {
        match self.try_as_slice().map(drop) {
            Ok(()) => Ok(Bytes::from_owner(Owner(self))),
            Err(error) => Err(Refused {
                memory: self,
                error,
            }),
        }
    }

    /// Adds all that `source` has.
    ///
    /// # Errors
    /// As [`PinnedVec::extend_from_slice`]; what was added before stays.
    pub fn extend_from_buf(&mut self, mut source: impl Buf) -> Result<(), crate::PinnedError> {
        self.reserve(source.remaining())?;
        while source.has_remaining() {
            let chunk = source.chunk();
            let length = chunk.len();
            self.extend_from_slice(chunk)?;
            source.advance(length);
        }
        Ok(())
    }
}
