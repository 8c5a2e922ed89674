//! Why a safe operation was refused.

use piton_alloc::{AllocError, ConfigError, ResumeErrorKind, ServeError, SuspendErrorKind};
use piton_driver::{DeviceId, DeviceRange, DriverError, Parameter};
use piton_graph::GraphError;
use piton_pinned::PinnedError;
use piton_stream::StreamError;
use piton_transfer::TransferError;
use thiserror::Error;

/// Why an operation on buffers and streams was refused, or came to nothing. Sizes are bytes unless they say
/// elements.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum BufferError {
    /// The device's pool could not serve an allocation.
    #[error(transparent)]
    Memory(#[from] AllocError),
    /// The memory pool's configuration contradicts itself or the device.
    #[error(transparent)]
    MemoryConfig(#[from] ConfigError),
    /// A plan is not served from.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Buffers were not suspended.
    #[error(transparent)]
    Suspend(#[from] SuspendErrorKind),
    /// Buffers were not resumed.
    #[error(transparent)]
    Resume(#[from] ResumeErrorKind),
    /// The pool of page-locked memory could not.
    #[error(transparent)]
    Pinned(#[from] PinnedError),
    /// The stream refused the work, or the work failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The copy between devices could not be arranged.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The driver refused a call.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// So many elements have no size in bytes that fits, or none at all.
    #[error("{elements} elements of {element_bytes} bytes are no size a buffer can have")]
    InvalidLength {
        /// Elements asked for.
        elements: u64,
        /// Bytes of one.
        element_bytes: u64,
    },
    /// Two ends of a copy differ in length.
    #[error("{source_elements} elements cannot be copied to {destination_elements}")]
    LengthMismatch {
        /// Elements of the source.
        source_elements: u64,
        /// Elements of the destination.
        destination_elements: u64,
    },
    /// A range past the end of a buffer.
    #[error("elements {start}..{end} are not within the buffer's {len}")]
    OutOfRange {
        /// First element of the range.
        start: u64,
        /// One past its last.
        end: u64,
        /// Elements the buffer has.
        len: u64,
    },
    /// A buffer, kernel or stream of another device where this one's is needed.
    #[error("the stream is on {stream}, the object on {object}")]
    OtherDevice {
        /// The stream's device.
        stream: DeviceId,
        /// The object's.
        object: DeviceId,
    },
    /// A buffer or stream of another runtime.
    #[error("the object belongs to another runtime")]
    OtherRuntime,
    /// A kernel was given too few arguments or too many.
    #[error("{given} arguments where the kernel takes {expected}")]
    ArgumentCount {
        /// Parameters of its signature.
        expected: usize,
        /// Arguments given.
        given: usize,
    },
    /// An argument does not suit its parameter.
    #[error("argument {index} does not suit the kernel's parameter {expected:?}")]
    ArgumentMismatch {
        /// Which argument, from 0.
        index: usize,
        /// What the signature says.
        expected: Parameter,
    },
    /// A kernel whose arguments take more bytes, with what lies between them, than the device passes.
    #[error("the kernel's arguments take {bytes} bytes, and the device passes {limit} at most")]
    ArgumentBytes {
        /// What its signature asks for.
        bytes: u64,
        /// What the device passes at most.
        limit: u32,
    },
    /// A fill with a value of a size no device fills with.
    #[error("a fill takes values of 1, 2 or 4 bytes, not {bytes}")]
    FillSize {
        /// Bytes of the value.
        bytes: usize,
    },
    /// The graph could not be put together, made ready or replayed.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A parameter that is not passed by value, or has another size.
    #[error("parameter {index} is not a value of {given} bytes")]
    NotAValue {
        /// Which parameter, from 0.
        index: usize,
        /// Bytes of the value given.
        given: usize,
    },
    /// A scratch buffer of another graph.
    #[error("the scratch buffer belongs to another graph")]
    OtherGraph,
    /// A graph of which a body failed, panicked, or put another recorder in the place of its own.
    #[error("a body of the graph was not recorded as a whole, so the graph is of no use")]
    BrokenGraph,
    /// A replay was not given a buffer or a host view that the graph uses, or only to read where it writes.
    #[error("the graph uses {} bytes at {}, which the replay was not given{}", .range.bytes, .range.start, if *.to_write { " to write" } else { "" })]
    NotGiven {
        /// Its memory.
        range: DeviceRange,
        /// Whether the graph writes it.
        to_write: bool,
    },
    /// A finished transfer was asked again for the memory it has given back.
    #[error("the transfer has given its memory back already")]
    AlreadyTaken,
}
