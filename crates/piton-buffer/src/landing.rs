//! Where the bytes go that come from a device.

use piton_copy::copy_streaming;
use std::{mem, ptr::NonNull};

/// Bytes that a read leaves in the caches; what follows them would only push out what lies there.
const CACHED_BYTES: usize = 4 << 20;

/// Ordinary memory that a read fills from its start on.
pub(crate) struct Landing<'a> {
    room: &'a mut [u8],
    landed: usize,
}

impl<'a> Landing<'a> {
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { room, landed: 0 }
    }

    /// The next bytes have come to a chunk. What there is no room for is left out.
    pub(crate) fn land(&mut self, part: &[u8]) {
        let landed = self.landed;
        let Some(room) = self.pass(part.len()) else {
            return;
        };
        if landed < CACHED_BYTES {
            room.copy_from_slice(part);
        } else {
            copy_streaming(room, part);
        }
    }

    /// Where the next bytes go, if there is room for so many: the caller has them come there.
    pub(crate) fn next(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let room = self.pass(bytes)?;
        Some(NonNull::from(room).cast())
    }

    fn pass(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let (next, later) = mem::take(&mut self.room).split_at_mut_checked(bytes)?;
        self.room = later;
        self.landed += bytes;
        Some(next)
    }
}
