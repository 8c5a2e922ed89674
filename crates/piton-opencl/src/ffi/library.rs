//! Opening the loader of OpenCL drivers at run time.
//!
//! The library found is the *loader* (an "ICD loader"), which finds the vendors' drivers by itself. Nothing here is
//! linked, so a machine without OpenCL runs the same program and gets an answer that says what was looked for.

#![expect(unsafe_code, reason = "opening a library runs its initialisers")]

use crate::error::OpenError;
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
    // SAFETY: the initialisers of an OpenCL loader are those of any system library; whoever names another path vouches
    // for it (`OpenClConfig::library`).
    let opened = unsafe { piton_native::open_library(path, NAMES) };
    opened.map_err(|searched| OpenError::NoLibrary { searched })
}
