//! Where tests find the stand-in, and copies of it that lack a function.

use std::{
    io,
    path::{Path, PathBuf},
};

const FILE: &str = "libpiton_fakeascend.so";

/// The stand-in's file: cargo puts it beside the tests that depend on it.
///
/// # Errors
/// Where this program's own place is not known, or the file is not there.
pub fn stand_in() -> io::Result<PathBuf> {
    piton_standin::library::stand_in(FILE)
}

/// A copy of the stand-in, in `folder`, that lacks a function: what was its name there is another's.
///
/// # Errors
/// As [`stand_in`]; or the folder cannot be written; or there is no such function.
pub fn without(symbol: &str, folder: &Path) -> io::Result<PathBuf> {
    piton_standin::library::without(FILE, symbol, folder)
}
