//! Real files beside the repository, which are not part of it.

use std::path::{Path, PathBuf};

/// Files with an ending in a folder of `shared/topologies`, in order of name; none if the folder is not there, which is
/// said.
pub(crate) fn shared_files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    let Ok(entries) = std::fs::read_dir(all.join(folder)) else {
        println!("skipped: no files at shared/topologies/{folder}");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}
