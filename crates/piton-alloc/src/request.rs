//! What is asked of the pool.

use piton_timeline::LaneId;

use crate::adaptor::Tag;

/// A request for device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes wanted, at least 1.
    pub bytes: u64,
    /// The address is a multiple of this many bytes and of the pool's alignment. A power of two up to the source's
    /// alignment.
    pub align: u64,
    /// The lane that will use the memory first. Without one, only memory that nobody uses any more is handed out,
    /// because nobody could wait for it.
    pub lane: Option<LaneId>,
    /// What the memory is for, so that [`Tagged`](crate::Tagged) can count and limit it. The pool itself ignores it.
    pub tag: Option<Tag>,
}

impl Request {
    /// A request for `bytes` bytes at the pool's alignment, for no lane.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self {
            bytes,
            align: 1,
            lane: None,
            tag: None,
        }
    }

    /// The same request at a multiple of `align` bytes.
    #[must_use]
    pub const fn aligned_to(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// The same request for a lane, which may then get memory that its own earlier work still uses.
    #[must_use]
    pub const fn on(self, lane: LaneId) -> Self {
        Self {
            lane: Some(lane),
            ..self
        }
    }

    /// The same request with a tag, by which it can be counted and limited.
    #[must_use]
    pub const fn tagged(self, tag: Tag) -> Self {
        Self {
            tag: Some(tag),
            ..self
        }
    }
}
