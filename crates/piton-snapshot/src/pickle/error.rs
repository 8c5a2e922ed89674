//! What can be wrong with a pickle, and where.

use super::opcode;

/// A pickle that cannot be read, with the place where it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {kind}")]
pub struct PickleError {
    /// The byte of the instruction, from 0.
    pub offset: usize,
    /// What is wrong.
    #[source]
    pub kind: PickleErrorKind,
}

/// What is wrong with a pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleErrorKind {
    /// An instruction that makes, names or calls what is not plain data. It was not carried out.
    #[error("{} (0x{code:02x}) is not plain data and is refused", opcode::refused(*code).unwrap_or_default())]
    Refused {
        /// The instruction.
        code: u8,
    },
    /// No instruction at all.
    #[error("0x{code:02x} is no instruction of a pickle")]
    Unknown {
        /// The byte.
        code: u8,
    },
    /// A protocol of the future.
    #[error("protocol {version}, of which nothing is known beyond 5")]
    Protocol {
        /// The version named.
        version: u8,
    },
    /// The file ends within an instruction or before the last.
    #[error("the pickle is cut off")]
    Truncated,
    /// An instruction needs more values than there are since the last mark, or a mark and there is none.
    #[error("a value or a mark is missing")]
    Missing,
    /// An instruction that adds to a list finds something else.
    #[error("not a list")]
    NotAList,
    /// An instruction that adds to a dictionary finds something else.
    #[error("not a dictionary")]
    NotADict,
    /// A dictionary is given a key without a value.
    #[error("a key without a value")]
    OddItems,
    /// The memo has nothing under this number.
    #[error("nothing is remembered as {index}")]
    NotRemembered {
        /// The number.
        index: u32,
    },
    /// Text that is not UTF-8, or is not escaped as it has to be.
    #[error("text that is not well-formed")]
    Text,
    /// A number whose digits are not a number.
    #[error("a number that is not well-formed")]
    Number,
    /// An integer beyond 128 bits.
    #[error("an integer of more than 128 bits")]
    IntegerTooLong,
    /// More bytes than allowed.
    #[error("{bytes} bytes are more than the {limit} allowed")]
    TooManyBytes {
        /// Bytes of the file.
        bytes: usize,
        /// Most allowed.
        limit: usize,
    },
    /// More values than allowed.
    #[error("more than the {limit} values allowed")]
    TooManyValues {
        /// Most allowed.
        limit: u32,
    },
}
