//! Which files are meant: those that are named, and the traces of folders that are.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::command::Failure;
use crate::trace::TraceReader;

/// What a trace's name ends in, for those that are looked for in a folder.
const ENDINGS: [&str; 5] = [".csv", ".csv.gz", ".pickle", ".pkl", ".pickle.gz"];

/// The files, those of a folder in order of name.
pub(super) fn expand(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::with_capacity(named.len());
    for path in named {
        if path.is_dir() {
            files.extend(inside(path).map_err(Failure::Input)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn inside(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = || format!("{} cannot be read", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    anyhow::ensure!(
        !files.is_empty(),
        "{} has no traces: files that end in {}",
        folder.display(),
        ENDINGS.join(", ")
    );
    Ok(files)
}

/// Reads all of them once: what is wrong with the last one is better known before minutes of work than after.
pub(super) fn read_through(files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        let mut events = TraceReader::open(file).map_err(Failure::input)?;
        events
            .try_for_each(|event| event.map(drop))
            .map_err(Failure::input)?;
    }
    Ok(())
}
