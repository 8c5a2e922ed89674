//! Opening the loader of OpenCL drivers at run time.
//!
//! The library found is the *loader* (an "ICD loader"), which finds the vendors' drivers by itself. Nothing here is
//! linked, so a machine without OpenCL runs the same program and gets an answer that says what was looked for.

#![expect(unsafe_code, reason = "opening a library runs its initialisers")]

use crate::error::{OpenError, SearchedLibrary};
use libloading::Library;
use std::path::Path;

/// Where the loader is looked for, in this order, when nobody says otherwise.
#[cfg(target_os = "macos")]
pub(crate) const NAMES: &[&str] = &["/System/Library/Frameworks/OpenCL.framework/OpenCL"];
/// Where the loader is looked for, in this order, when nobody says otherwise.
#[cfg(windows)]
pub(crate) const NAMES: &[&str] = &["OpenCL.dll"];
/// Where the loader is looked for, in this order, when nobody says otherwise. The name with a version is what packages
/// for running programs install, the other what those for building them do.
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) const NAMES: &[&str] = &["libOpenCL.so.1", "libOpenCL.so"];

/// The library at `path`, or the first of the usual ones that opens.
///
/// # Errors
/// [`OpenError::NoLibrary`], with each name and what the system said of it.
pub(crate) fn open(path: Option<&Path>) -> Result<(Library, String), OpenError> {
    let names = match path {
        Some(path) => vec![path.to_string_lossy().into_owned()],
        None => NAMES.iter().map(|name| (*name).to_owned()).collect(),
    };
    let mut searched = Vec::new();
    for name in names {
        // SAFETY: the initialisers of an OpenCL loader are those of any system library; whoever names another path
        // vouches for it (`OpenClConfig::library`).
        match unsafe { Library::new(&name) } {
            Ok(library) => return Ok((library, name)),
            Err(error) => searched.push(SearchedLibrary {
                name,
                answer: reason(&error),
            }),
        }
    }
    Err(OpenError::NoLibrary { searched })
}

/// What the system's loader said, innermost cause first.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
