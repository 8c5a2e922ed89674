//! What a step is expected to ask for, and where it goes.

use std::ops::Range;

use crate::pieces::Pieces;

/// One request of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Bytes it asks for, rounded up to the alignment.
    pub bytes: u64,
    /// The stream it is for.
    pub stream: u32,
    /// Where it goes, in bytes. `None` if it was not freed within a round, and so cannot go to the same place in
    /// each.
    pub offset: Option<u64>,
}

/// The requests of a step in their order, with offsets.
///
/// # Invariants
/// Every offset is a multiple of the alignment, and `offset + bytes` at most `height`. Bytes are multiples of the
/// alignment and not 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(crate) requests: Vec<Expected>,
    pub(crate) alignment: u64,
    pub(crate) height: u64,
    pub(crate) peak_live: u64,
    pub(crate) pieces: Pieces,
}

impl Plan {
    /// The requests of a step, in order.
    #[must_use]
    pub fn requests(&self) -> &[Expected] {
        &self.requests
    }

    /// The bytes that the plan takes up, from offset 0 on.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The most planned bytes live at once.
    #[must_use]
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// Every offset is a multiple of this many bytes.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The pieces of the addresses that a request's place is made of: two planned blocks share bytes if and only if they
    /// share a piece. None for requests without a place, and for those that are not in the plan.
    #[must_use]
    pub fn pieces(&self, request: u32) -> Range<u32> {
        self.pieces.of_request(request as usize)
    }

    /// How many pieces there are.
    #[must_use]
    pub fn piece_count(&self) -> u32 {
        self.pieces.count()
    }
}
