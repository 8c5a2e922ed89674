//! NVRTC, NVIDIA's compiler of CUDA C at run time: a library of its own, which needs no device.
//!
//! # Invariants
//! As those of the driver's table ([`super::symbols`]): exact names, and the library is never closed.

#![expect(
    unsafe_code,
    reason = "a symbol's type is what the reference says, not what the library proves"
)]

use crate::compiler::{CompilerError, CompilerStatus};
use piton_native::Library;
use std::{
    ffi::{CString, c_char, c_int, c_void},
    path::Path,
    ptr,
};

/// Where it is looked for, newest first.
#[cfg(windows)]
const NAMES: &[&str] = &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
/// Where it is looked for, newest first.
#[cfg(not(windows))]
const NAMES: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// `nvrtcResult`.
type Code = c_int;
/// `nvrtcProgram`.
type Raw = *mut c_void;

piton_native::entry_points! {
    /// All that is used. The lists of architectures are there from 11.2 on.
    Functions {
        version "nvrtcVersion" (*mut c_int, *mut c_int) -> Code;
        architecture_count "nvrtcGetNumSupportedArchs" (*mut c_int) -> Code;
        architectures "nvrtcGetSupportedArchs" (*mut c_int) -> Code;
        create "nvrtcCreateProgram" (
            *mut Raw, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        ) -> Code;
        destroy "nvrtcDestroyProgram" (*mut Raw) -> Code;
        compile "nvrtcCompileProgram" (Raw, c_int, *const *const c_char) -> Code;
        ptx_bytes "nvrtcGetPTXSize" (Raw, *mut usize) -> Code;
        ptx "nvrtcGetPTX" (Raw, *mut c_char) -> Code;
        log_bytes "nvrtcGetProgramLogSize" (Raw, *mut usize) -> Code;
        log "nvrtcGetProgramLog" (Raw, *mut c_char) -> Code;
    }
}

/// The library.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    _library: Library,
    functions: Functions,
}

/// A program, destroyed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    functions: &'static Functions,
    raw: Raw,
}

fn succeeded(code: Code) -> Result<(), CompilerStatus> {
    match code {
        0 => Ok(()),
        code => Err(CompilerStatus(code)),
    }
}

impl Nvrtc {
    /// Opens the library at `path`, or the usual one. The table is never freed.
    ///
    /// # Errors
    /// [`CompilerError::NoLibrary`], [`CompilerError::NoSymbol`].
    pub(crate) fn open(path: Option<&Path>) -> Result<&'static Self, CompilerError> {
        // SAFETY: the initialisers of NVIDIA's library are those of any system library; whoever names another path
        // vouches for it (`CudaConfig::compiler`).
        let opened = unsafe { piton_native::open_library_with(path, NAMES, Functions::of) };
        let (library, functions) = opened?;
        Ok(Box::leak(Box::new(Self {
            _library: library,
            functions,
        })))
    }

    /// Its version, major and minor.
    pub(crate) fn version(&self) -> Result<(i32, i32), CompilerStatus> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two places of the right type.
        succeeded(unsafe { (self.functions.version)(&raw mut major, &raw mut minor) })?;
        Ok((major, minor))
    }

    /// The architectures that it compiles for, as numbers like 90.
    pub(crate) fn architectures(&self) -> Result<Vec<i32>, CompilerStatus> {
        let mut count: c_int = 0;
        // SAFETY: a place of the right type.
        succeeded(unsafe { (self.functions.architecture_count)(&raw mut count) })?;
        let mut all = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: room for as many as it said.
        succeeded(unsafe { (self.functions.architectures)(all.as_mut_ptr()) })?;
        Ok(all)
    }

    /// A program of this text, which has no zero byte in it, under a name for messages.
    pub(crate) fn program(
        &'static self,
        text: CString,
        name: CString,
    ) -> Result<Program, CompilerStatus> {
        let mut raw = ptr::null_mut();
        // SAFETY: a place of the right type, two texts that end in zero and are copied, no headers.
        succeeded(unsafe {
            (self.functions.create)(
                &raw mut raw,
                text.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        })?;
        Ok(Program {
            functions: &self.functions,
            raw,
        })
    }
}

impl Program {
    /// Compiles. May take long.
    pub(crate) fn compile(&self, options: &[CString]) -> Result<(), CompilerStatus> {
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(options.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many texts as said, each of which ends in zero.
        succeeded(unsafe { (self.functions.compile)(self.raw, count, options.as_ptr()) })
    }

    /// The PTX that it was compiled to, with the zero byte that ends it.
    pub(crate) fn ptx(&self) -> Result<Vec<u8>, CompilerStatus> {
        self.text(self.functions.ptx_bytes, self.functions.ptx)
    }

    /// What the compiler wrote.
    pub(crate) fn log(&self) -> String {
        let log = self.text(self.functions.log_bytes, self.functions.log);
        let log = log.unwrap_or_default();
        let log = log.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(log).trim().to_owned()
    }

    fn text(
        &self,
        ask: unsafe extern "C" fn(Raw, *mut usize) -> Code,
        read: unsafe extern "C" fn(Raw, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, CompilerStatus> {
        let mut bytes = 0_usize;
        // SAFETY: a place of the right type.
        succeeded(unsafe { ask(self.raw, &raw mut bytes) })?;
        let mut text = vec![0_u8; bytes];
        // SAFETY: room for as many bytes as it said.
        succeeded(unsafe { read(self.raw, text.as_mut_ptr().cast()) })?;
        Ok(text)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program is ours.
        let _code = unsafe { (self.functions.destroy)(&raw mut self.raw) };
    }
}
