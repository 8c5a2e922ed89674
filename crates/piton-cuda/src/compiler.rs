//! CUDA C compiled at run time, where NVRTC is installed: it is opened when the first module wants it.
//!
//! What is made is PTX for the newest architecture that both the compiler and the device know, so that a device which is newer
//! than the compiler still gets something; the driver compiles the rest of the way.

use crate::{
    ffi::nvrtc::{Nvrtc, Program},
    status::Status,
};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, VendorCode};
use piton_native::{OpenError, VendorStatus, kernels::Source};
use piton_sync::Mutex;
use std::{ffi::CString, fmt, path::PathBuf};

/// Why there is no compiler of CUDA C. An ordinary answer: modules then need PTX.
pub type CompilerError = OpenError<CompilerStatus>;

/// A status code of NVRTC's (`nvrtcResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompilerStatus(pub i32);

impl CompilerStatus {
    /// The text does not compile, and the log says why.
    const COMPILATION: Self = Self(6);
}

impl fmt::Display for CompilerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "NVRTC_ERROR_OUT_OF_MEMORY",
            2 => "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
            3 => "NVRTC_ERROR_INVALID_INPUT",
            4 => "NVRTC_ERROR_INVALID_PROGRAM",
            5 => "NVRTC_ERROR_INVALID_OPTION",
            6 => "NVRTC_ERROR_COMPILATION",
            7 => "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
            11 => "NVRTC_ERROR_INTERNAL_ERROR",
            _ => "a code of NVRTC's",
        };
        write!(f, "{name} ({})", self.0)
    }
}

impl VendorStatus for CompilerStatus {
    const VENDOR: &'static str = "NVRTC";

    fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        DriverError::new(ErrorKind::UnknownModule, operation, device)
            .with_code(VendorCode(self.0.into()))
    }
}

/// The compiler of a driver, or why there is none: asked once.
#[derive(Debug)]
pub(crate) struct Compiler {
    path: Option<PathBuf>,
    opened: Mutex<Option<Result<&'static Nvrtc, CompilerError>>>,
}

/// Why there is no PTX.
#[derive(Debug)]
pub(crate) enum NoPtx {
    /// There is no compiler.
    Absent(CompilerError),
    /// It does not compile, with what the compiler wrote.
    Refused(String),
}

impl Compiler {
    pub(crate) const fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            opened: Mutex::new(None),
        }
    }

    /// The library, opened if it is not yet.
    pub(crate) fn library(&self) -> Result<&'static Nvrtc, CompilerError> {
        let mut opened = self.opened.lock();
        let open = || Nvrtc::open(self.path.as_deref());
        opened.get_or_insert_with(open).clone()
    }

    /// What the compiler makes of a text for devices of an architecture, with the zero byte that ends it. May take long.
    pub(crate) fn ptx(
        &self,
        name: &str,
        source: &Source,
        architecture: i32,
    ) -> Result<Vec<u8>, NoPtx> {
        let library = self.library().map_err(NoPtx::Absent)?;
        let refused = |status: CompilerStatus| NoPtx::Refused(status.to_string());
        let known = library.architectures().map_err(refused)?;
        let target = target(&known, architecture);
        let option = format!("--gpu-architecture=compute_{target}");
        let options = source.options.iter().map(String::as_str);
        let options: Vec<_> = options.chain([&*option]).map(whole).collect();
        let program = library.program(whole(&source.text), whole(name));
        let program = program.map_err(refused)?;
        match program.compile(&options) {
            Ok(()) => program.ptx().map_err(refused),
            Err(status) => Err(NoPtx::Refused(words(&program, status))),
        }
    }
}

/// What was wrong, in the compiler's words where it has any.
fn words(program: &Program, status: CompilerStatus) -> String {
    let log = program.log();
    match status {
        CompilerStatus::COMPILATION if !log.is_empty() => log,
        status => format!("{status} {log}").trim().to_owned(),
    }
}

/// The newest architecture that both know; the oldest of the compiler's for a device that is older than all.
fn target(known: &[i32], device: i32) -> i32 {
    let both = known.iter().filter(|one| **one <= device).max();
    both.or_else(|| known.iter().min())
        .copied()
        .unwrap_or(device)
}

/// Text up to its first zero byte.
fn whole(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

impl NoPtx {
    /// The driver's code that is nearest, and the words.
    pub(crate) fn refusal(self) -> (Status, String) {
        let words = match self {
            Self::Absent(absence) => absence.to_string(),
            Self::Refused(words) => words,
        };
        (Status::INVALID_SOURCE, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_for_is_the_newest_that_both_know() {
        let known = [50, 75, 80, 90];
        assert_eq!(target(&known, 80), 80);
        assert_eq!(target(&known, 89), 80, "minor versions in between");
        assert_eq!(target(&known, 120), 90, "a device newer than the compiler");
        assert_eq!(target(&known, 30), 50, "one that the compiler gave up");
        assert_eq!(target(&[], 70), 70);
    }
}
