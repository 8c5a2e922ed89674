//! The `piton` command as a process: what it prints and how it ends.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod demo;
mod info;
mod replay;
mod topo;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn piton(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_piton"))
        .args(arguments)
        .output()
        .unwrap()
}

#[track_caller]
fn json(arguments: &[&str]) -> serde_json::Value {
    let output = piton(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The command ends with exit code 2 and says `expected`.
#[track_caller]
fn check_refused(arguments: &[&str], expected: &str) {
    let output = piton(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(output.stdout.is_empty());
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> (PathBuf, String) {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    let text = path.to_str().unwrap().to_owned();
    (path, text)
}

/// The command on two devices of pocl, if that is the driver, with its compiler's cache out of the home folder.
fn piton_on_opencl(arguments: &[&str]) -> Output {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pocl-cache");
    fs::create_dir_all(&cache).unwrap();
    Command::new(env!("CARGO_BIN_EXE_piton"))
        .args(arguments)
        .env("POCL_DEVICES", "pthread pthread")
        .env("POCL_CACHE_DIR", cache)
        .output()
        .unwrap()
}

/// Why there is no OpenCL here, if there is none.
fn opencl_absence() -> Option<String> {
    let output = piton_on_opencl(&["info", "--json"]);
    let drivers: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let drivers = drivers.as_array().unwrap();
    let opencl = drivers.iter().find(|driver| driver["name"] == "opencl");
    Some(opencl.unwrap()["absent"].as_str()?.to_owned())
}
