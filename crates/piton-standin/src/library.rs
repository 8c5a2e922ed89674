//! Where tests find the stand-in, and copies of it that lack a function.

#![expect(unsafe_code, reason = "calls functions that stand-ins export")]

use crate::codes::Code;
use libloading::Library;
use std::{
    env,
    ffi::{CString, c_char},
    fs, io,
    path::{Path, PathBuf},
};

/// A stand-in that was opened once more: what a test asks of it beside the vendor's functions.
#[derive(Debug)]
pub struct Asked {
    library: Library,
    /// What the names of its own functions begin with.
    prefix: &'static str,
}

impl Asked {
    /// Opens the stand-in at `path`, whose own functions have names that begin so.
    ///
    /// # Safety
    /// The file is a stand-in with this prefix, or a copy of one.
    ///
    /// # Errors
    /// What the system's loader says.
    pub unsafe fn open(path: &Path, prefix: &'static str) -> Result<Self, libloading::Error> {
        // SAFETY: a stand-in's initialisers are ours.
        let library = unsafe { Library::new(path) }?;
        Ok(Self { library, prefix })
    }

    /// A function of the stand-in's own, which has this type.
    ///
    /// # Errors
    /// It has none of that name.
    ///
    /// # Safety
    /// The type is the one it is exported with.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, libloading::Error> {
        let name = format!("{}_{name}\0", self.prefix);
        // SAFETY: the caller's promise.
        let function = unsafe { self.library.get::<F>(name.as_bytes()) };
        function.map(|function| *function)
    }

    /// The next call of the vendor's function of this name answers `code`, and does nothing.
    ///
    /// # Errors
    /// The stand-in exports no such switch.
    pub fn fail(&self, name: &str, code: Code) -> Result<(), libloading::Error> {
        type Fail = unsafe extern "C" fn(*const c_char, Code);
        // SAFETY: all stand-ins export it with this type.
        let fail = unsafe { self.function::<Fail>("fail") }?;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: a text that ends in zero.
        unsafe { fail(name.as_ptr(), code) };
        Ok(())
    }

    /// How often the program did what no program may, and what is not refused.
    ///
    /// # Errors
    /// The stand-in does not count.
    pub fn mistakes(&self) -> Result<u32, libloading::Error> {
        type Mistakes = extern "C" fn() -> u32;
        // SAFETY: all stand-ins export it with this type.
        let mistakes = unsafe { self.function::<Mistakes>("mistakes") }?;
        Ok(mistakes())
    }
}

/// The file of the stand-in with this name: cargo puts it beside the tests that depend on it.
///
/// # Errors
/// Where this program's own place is not known, or the file is not there.
pub fn stand_in(file: &str) -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    let library = own.with_file_name(file);
    fs::metadata(&library).map(|_| library)
}

/// A copy of that stand-in, in `folder`, that lacks a function: what was its name there is another's.
///
/// # Errors
/// As [`stand_in`]; or the folder cannot be written; or there is no such function.
pub fn without(file: &str, symbol: &str, folder: &Path) -> io::Result<PathBuf> {
    let mut library = fs::read(stand_in(file)?)?;
    let name = [&[0], symbol.as_bytes(), &[0]].concat();
    let windows = library.windows(name.len()).enumerate();
    let found = windows.filter(|(_, bytes)| *bytes == name);
    let places: Vec<_> = found.map(|(place, _)| place + 1).collect();
    if places.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    for place in places {
        library[place] = b'_';
    }
    let path = folder.join(format!("without-{symbol}.so"));
    fs::write(&path, library)?;
    Ok(path)
}
