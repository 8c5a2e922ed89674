//! What a step is expected to ask for, and where it goes.

/// One request of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Bytes it asks for, rounded up to the alignment.
    pub bytes: u64,
    /// The stream it is for.
    pub stream: u32,
    /// Where it goes; nowhere if it was not freed within a round and so cannot go to the same place in each.
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
}

impl Plan {
    /// The requests of a step, in order.
    #[must_use]
    pub fn requests(&self) -> &[Expected] {
        &self.requests
    }

    /// Bytes from offset 0 on that what is planned takes up.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The most planned bytes live at once.
    #[must_use]
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// Bytes that every offset is a multiple of.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.alignment
    }
}
