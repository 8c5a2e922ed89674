//! Opening a vendor's library at run time, and saying what was looked for where there is none.
//!
//! Nothing is linked, so a machine without the library runs the same program and gets an answer that names each place
//! and what the system's loader said of it.

#![expect(unsafe_code, reason = "opening a library runs its initialisers")]

use crate::{OpenError, VendorStatus};
use libloading::Library;
use std::{fmt, path::Path};

/// A name under which a library was looked for, and what the system's loader said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedLibrary {
    /// The name or path.
    pub name: String,
    /// The loader's words.
    pub answer: String,
}

impl fmt::Display for SearchedLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Loaders mostly begin with the name themselves.
        if self.answer.starts_with(&self.name) {
            return f.write_str(&self.answer);
        }
        write!(f, "{}: {}", self.name, self.answer)
    }
}

/// What was searched, with semicolons between, for an error's message.
#[derive(Debug)]
pub struct Searched<'a>(pub &'a [SearchedLibrary]);

impl fmt::Display for Searched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, searched) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "; " };
            write!(f, "{gap}{searched}")?;
        }
        Ok(())
    }
}

/// Opens the library at `path`, or the first of the usual `names` that opens, and says which it was.
///
/// # Safety
/// The initialisers of whatever is found may run in this process.
///
/// # Errors
/// Each name with what the system said of it, in the order in which they were tried.
pub unsafe fn open_library(
    path: Option<&Path>,
    names: &[&str],
) -> Result<(Library, String), Vec<SearchedLibrary>> {
    let names = match path {
        Some(path) => vec![path.to_string_lossy().into_owned()],
        None => names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let mut searched = Vec::new();
    for name in names {
        // SAFETY: the caller vouches for the initialisers.
        match unsafe { Library::new(&name) } {
            Ok(library) => return Ok((library, name)),
            Err(error) => searched.push(SearchedLibrary {
                name,
                answer: reason(&error),
            }),
        }
    }
    Err(searched)
}

/// As [`open_library`], with the functions that nobody can do without, which `required` looks up.
///
/// # Safety
/// As [`open_library`].
///
/// # Errors
/// [`OpenError::NoLibrary`], and [`OpenError::NoSymbol`] with the one that `required` misses.
pub unsafe fn open_library_with<T, S: VendorStatus + fmt::Display>(
    path: Option<&Path>,
    names: &[&str],
    required: impl FnOnce(&Library) -> Result<T, &'static str>,
) -> Result<(Library, T), OpenError<S>> {
    // SAFETY: the caller vouches for the initialisers.
    let opened = unsafe { open_library(path, names) };
    let (library, name) = opened.map_err(|searched| OpenError::NoLibrary { searched })?;
    match required(&library) {
        Ok(found) => Ok((library, found)),
        Err(symbol) => Err(OpenError::NoSymbol {
            library: name,
            symbol,
        }),
    }
}

/// What the system's loader said, innermost cause first.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
