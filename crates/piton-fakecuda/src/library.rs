//! Where tests find the stand-in, and copies of it that lack a function.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// The stand-in's file: cargo puts it beside the tests that depend on it.
///
/// # Errors
/// Where this program's own place is not known, or the file is not there.
pub fn stand_in() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    let library = own.with_file_name("libpiton_fakecuda.so");
    fs::metadata(&library).map(|_| library)
}

/// A copy of the stand-in, in `folder`, that lacks a function: what was its name there is another's.
///
/// # Errors
/// As [`stand_in`]; or the folder cannot be written; or there is no such function.
pub fn without(symbol: &str, folder: &Path) -> io::Result<PathBuf> {
    let mut library = fs::read(stand_in()?)?;
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
