//! A library's codes, as far as what is shared answers them.

use piton_driver::{DriverError, ErrorKind, Fault};

/// A code of a library's. Those that it declares as signed numbers have the same bits.
pub type Code = u32;

/// What a call came to: values, or a code that is not success.
pub type Answer<T> = Result<T, Code>;

/// What a library answers to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// Something does not fit.
    pub invalid: Code,
    /// A handle that was never given out, or was taken back.
    pub bad_handle: Code,
    /// No memory, of whatever kind.
    pub out_of_memory: Code,
    /// Not yet.
    pub not_ready: Code,
    /// A kernel reached past what it was given.
    pub out_of_bounds: Code,
    /// A kernel failed.
    pub failed: Code,
    /// Whether a failure is the whole context's from then on, or that of its stream alone.
    pub takes_context: bool,
}

impl Codes {
    /// The code that the library would answer.
    pub const fn of(&self, error: &DriverError) -> Code {
        match error.kind {
            ErrorKind::OutOfMemory { .. }
            | ErrorKind::OutOfAddressSpace { .. }
            | ErrorKind::LockRefused { .. }
            | ErrorKind::OutOfHostMemory { .. } => self.out_of_memory,
            ErrorKind::KernelFault(Fault::OutOfBounds { .. }) => self.out_of_bounds,
            ErrorKind::KernelFault(_) | ErrorKind::DependencyFailed { .. } => self.failed,
            _ => self.invalid,
        }
    }
}
