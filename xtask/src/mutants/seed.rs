//! What the working tree has built of other people's crates, taken over into another target directory.
//!
//! Cargo knows a crate of a registry by its version, features and flags and not by who uses it, so what was built for
//! one copy of a workspace serves another. The workspace's own crates are left out: cargo would take those of one copy
//! for those of the other.
//!
//! Libraries are linked and not copied: nobody writes into them. All the rest is small, and cargo does write into it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// How the workspace's own crates begin, as cargo names their files.
const OWN: [&str; 2] = ["piton", "xtask"];

/// Gives `target` what `built` has, unless it exists or there is nothing.
pub(super) fn plant(built: &Path, target: &Path) -> anyhow::Result<()> {
    let (from, to) = (built.join("debug"), target.join("debug"));
    if to.exists() || !from.is_dir() {
        return Ok(());
    }
    take_over(&from.join(".fingerprint"), &to.join(".fingerprint"), copy)?;
    take_over(&from.join("build"), &to.join("build"), copy)?;
    take_over(&from.join("deps"), &to.join("deps"), link_library)
}

/// Takes over whatever is in a folder and is not the workspace's own.
fn take_over(
    from: &Path,
    to: &Path,
    one: fn(&Path, &Path) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let (place, name) = { entry.map(|entry| (entry.path(), entry.file_name()))? };
        let text = name.to_string_lossy();
        let crate_name = text.strip_prefix("lib").unwrap_or(&text);
        if OWN.iter().any(|own| crate_name.starts_with(own)) {
            continue;
        }
        let to = to.join(&name);
        if place.is_dir() {
            take_over(&place, &to, one)?;
        } else {
            one(&place, &to).with_context(|| place.display().to_string())?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let times = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    // Cargo goes by the times.
    fs::File::options()
        .write(true)
        .open(to)?
        .set_modified(times)
}

/// Programs, which are the tests, stay where they are.
fn link_library(from: &Path, to: &Path) -> std::io::Result<()> {
    let is_library = from
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("lib"));
    if is_library {
        fs::hard_link(from, to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_others_are_taken_over_and_own_ones_are_not() {
        let folder = std::env::temp_dir().join(format!("xtask-seed-{}", std::process::id()));
        let (built, target) = (folder.join("built"), folder.join("target"));
        for file in [
            "debug/deps/libserde-1.rlib",
            "debug/deps/libpiton-1.rlib",
            "debug/deps/program-1",
            "debug/build/libc-1/output",
            "debug/.fingerprint/serde-1/lib-serde",
            "debug/.fingerprint/piton-sim-1/lib-piton",
        ] {
            let place = built.join(file);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, file).unwrap();
        }
        plant(&built, &target).unwrap();
        let has = |file: &str| target.join("debug").join(file).exists();
        assert!(has("deps/libserde-1.rlib"));
        assert!(has("build/libc-1/output"));
        assert!(has(".fingerprint/serde-1/lib-serde"));
        assert!(!has("deps/libpiton-1.rlib") && !has(".fingerprint/piton-sim-1"));
        assert!(!has("deps/program-1"));
        fs::remove_dir_all(folder).unwrap();
    }
}
