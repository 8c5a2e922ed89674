//! What can be wrong with what is to be placed, and with a placement.

/// Blocks that cannot be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The alignment is not a power of two.
    #[error("an alignment of {alignment} bytes is not a power of two")]
    Alignment {
        /// Bytes asked for.
        alignment: u64,
    },
    /// A block of no bytes.
    #[error("block {index} has no bytes")]
    NoBytes {
        /// Its place among the blocks.
        index: usize,
    },
    /// All blocks together, rounded, have more bytes than `u64` can count.
    #[error("the blocks up to {index} have more than 2^64 bytes together")]
    BytesOverflow {
        /// The block with which it becomes too much.
        index: usize,
    },
    /// More blocks than are counted.
    #[error("{blocks} blocks are more than the limit of {limit}")]
    TooManyBlocks {
        /// Blocks given.
        blocks: usize,
        /// Most that may be given.
        limit: usize,
    },
}

/// Two blocks that overlap while both are live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("blocks {first} and {second} overlap")]
pub struct Overlap {
    /// Place of the one among the blocks.
    pub first: usize,
    /// Place of the other.
    pub second: usize,
}

/// A call of a recorder that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A request for nothing.
    #[error("a request for no bytes")]
    NoBytes,
    /// More requests than are counted.
    #[error("a step of more than {limit} requests")]
    TooManyRequests {
        /// Most requests of a step.
        limit: usize,
    },
    /// A free of what was never requested, or freed before.
    #[error("request {request} is not there to be freed")]
    UnknownRequest {
        /// Its number in the step.
        request: u32,
    },
}
