//! NVIDIA's compiler of CUDA C, as far as a stand-in can be one: it reads which kernels a text declares and writes PTX that
//! declares the same. A text with `#error` in it does not compile.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::world;
use piton_standin::{Answer, Code, Handles};
use piton_sync::Mutex;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr, slice,
};

const INVALID_INPUT: Code = 3;
const INVALID_PROGRAM: Code = 4;
const INVALID_OPTION: Code = 5;
const COMPILATION: Code = 6;
/// What a call answers where a body panicked.
const INTERNAL: Code = 11;

/// What the stand-in claims to compile for.
const ARCHITECTURES: [c_int; 3] = [50, 75, 80];

#[derive(Debug, Default)]
struct Program {
    text: String,
    log: CString,
    ptx: Option<CString>,
}

// GLOBAL: a process has one such library, whose functions take no state.
static PROGRAMS: Mutex<Option<Handles<Program>>> = Mutex::new(None);

/// Calls a body, unless a test wants it to fail. This library is not initialised.
fn answer(name: &str, body: impl FnOnce() -> Answer<()>) -> Code {
    piton_standin::answer(INTERNAL, || {
        let failure = world::with(|world| world.switches.failures.remove(name));
        failure.map_or(Ok(()), Err)?;
        body()
    })
}

fn with<T>(look: impl FnOnce(&mut Handles<Program>) -> T) -> T {
    let mut programs = PROGRAMS.lock();
    look(programs.get_or_insert_with(|| Handles::new(INVALID_PROGRAM)))
}

/// What `look` sees in a program.
fn program<T>(handle: *mut c_void, look: impl FnOnce(&Program) -> Option<T>) -> Answer<T> {
    with(|programs| programs.get(handle.addr(), look))
}

/// The architecture that the options name, if it is one of ours.
///
/// # Safety
/// As many texts as said, each of which ends in zero.
unsafe fn architecture(count: c_int, options: *const *const c_char) -> Answer<c_int> {
    let count = usize::try_from(count).map_err(|_| INVALID_INPUT)?;
    // SAFETY: the caller's promise.
    let options = unsafe { slice::from_raw_parts(options, count) };
    let named = options.iter().find_map(|option| {
        // SAFETY: the caller's promise.
        let option = unsafe { CStr::from_ptr(*option) }.to_str().ok()?;
        option
            .strip_prefix("--gpu-architecture=compute_")?
            .parse()
            .ok()
    });
    let known = named.filter(|named| ARCHITECTURES.contains(named));
    known.ok_or(INVALID_OPTION)
}

/// PTX that declares what a text does, or what a compiler would say.
fn compiled(text: &str, architecture: c_int) -> Result<String, &'static str> {
    if text.contains("#error") {
        return Err("source(1): catastrophic error: #error directive");
    }
    let kernels = text.split("__global__ void ").skip(1).map(declaration);
    let kernels = kernels.collect::<Result<Vec<_>, _>>()?.concat();
    Ok(format!(
        ".version 8.0\n.target sm_{architecture}\n{kernels}"
    ))
}

/// The kernel whose declaration stands at the start of a text, in PTX.
fn declaration(text: &str) -> Result<String, &'static str> {
    let (name, rest) = text.split_once('(').ok_or("error: expected a \"(\"")?;
    let (list, _) = rest.split_once(')').ok_or("error: expected a \")\"")?;
    let parameter = |one: &str| match one.trim() {
        pointer if pointer.contains('*') => Ok(".param .u64 p"),
        word if word.starts_with("unsigned ") || word.starts_with("float ") => Ok(".param .u32 p"),
        _ => Err("error: identifier is undefined"),
    };
    let list: Result<Vec<_>, _> = list.split(',').map(parameter).collect();
    Ok(format!(
        ".visible .entry {name}({}) {{ ret; }}\n",
        list?.join(", ")
    ))
}

/// Writes a text, with the zero byte that ends it.
///
/// # Safety
/// There is room for it.
unsafe fn write(text: &CStr, place: *mut c_char) -> Answer<()> {
    if place.is_null() {
        return Err(INVALID_INPUT);
    }
    let bytes = text.to_bytes_with_nul();
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), place, bytes.len()) };
    Ok(())
}

piton_standin::entry_points! {
    [answer, INVALID_INPUT]

    /// `nvrtcVersion`.
    nvrtcVersion(major: *mut c_int, minor: *mut c_int) fills(major, minor) {
        Ok((12, 8))
    }

    /// `nvrtcGetNumSupportedArchs`.
    nvrtcGetNumSupportedArchs(count: *mut c_int) fills(count) {
        Ok((c_int::try_from(ARCHITECTURES.len()).map_err(|_| INTERNAL)?,))
    }

    /// `nvrtcGetSupportedArchs`.
    nvrtcGetSupportedArchs(all: *mut c_int) fills() {
        // SAFETY: the caller has asked how many there are.
        unsafe { ptr::copy_nonoverlapping(ARCHITECTURES.as_ptr(), all, ARCHITECTURES.len()) };
        Ok(())
    }

    /// `nvrtcCreateProgram`, without headers.
    nvrtcCreateProgram(
        place: *mut *mut c_void, text: *const c_char, name: *const c_char,
        headers: c_int, contents: *const *const c_char, names: *const *const c_char
    ) fills(place) {
        if text.is_null() || name.is_null() || headers != 0 || !contents.is_null() || !names.is_null() {
            return Err(INVALID_INPUT);
        }
        // SAFETY: a text ends in zero.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        let program = Program { text, ..Program::default() };
        Ok((ptr::without_provenance_mut(with(|programs| programs.give(program))),))
    }

    /// `nvrtcDestroyProgram`.
    nvrtcDestroyProgram(place: *mut *mut c_void) fills() {
        // SAFETY: a place of the caller's.
        let handle = unsafe { place.read() };
        let gone = with(|programs| programs.take(handle.addr()))?;
        drop(gone);
        Ok(())
    }

    /// `nvrtcCompileProgram`.
    nvrtcCompileProgram(handle: *mut c_void, count: c_int, options: *const *const c_char) fills() {
        // SAFETY: the caller's promise.
        let architecture = unsafe { architecture(count, options) }?;
        let text = program(handle, |program| Some(program.text.clone()))?;
        let made = compiled(&text, architecture);
        let log = made.as_ref().err().copied().unwrap_or_default();
        let has_failed = made.is_err();
        let program = Program {
            text,
            log: CString::new(log).map_err(|_| INTERNAL)?,
            ptx: made.ok().and_then(|ptx| CString::new(ptx).ok()),
        };
        with(|programs| programs.replace(handle.addr(), program))?;
        if has_failed { Err(COMPILATION) } else { Ok(()) }
    }

    /// `nvrtcGetPTXSize`.
    nvrtcGetPTXSize(handle: *mut c_void, bytes: *mut usize) fills(bytes) {
        let ptx = program(handle, |program| program.ptx.clone())?;
        Ok((ptx.count_bytes() + 1,))
    }

    /// `nvrtcGetPTX`.
    nvrtcGetPTX(handle: *mut c_void, place: *mut c_char) fills() {
        let ptx = program(handle, |program| program.ptx.clone())?;
        // SAFETY: the caller has asked how long it is.
        unsafe { write(&ptx, place) }
    }

    /// `nvrtcGetProgramLogSize`.
    nvrtcGetProgramLogSize(handle: *mut c_void, bytes: *mut usize) fills(bytes) {
        let log = program(handle, |program| Some(program.log.clone()))?;
        Ok((log.count_bytes() + 1,))
    }

    /// `nvrtcGetProgramLog`.
    nvrtcGetProgramLog(handle: *mut c_void, place: *mut c_char) fills() {
        let log = program(handle, |program| Some(program.log.clone()))?;
        // SAFETY: the caller has asked how long it is.
        unsafe { write(&log, place) }
    }
}
